"""What is kept of a finished request, and what is asked for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest

from kvlease.connector import body
from kvlease.connector.admission import admit, chain_of
from kvlease.connector.claim import Claim
from kvlease.connector.harvest import Ending, Harvest
from kvlease.connector.owner import Owner
from kvlease.connector.retention import Retention
from kvlease.connector.settings import Settings
from kvlease.connector.turn import Answer
from kvlease.v1.lease_pb2 import ConversationKey, EngineRef, Lease, LeaseKind, StopReason
from kvlease.v1.registry_pb2 import GrantLeaseRequest
from kvlease.v1.router_pb2 import TicketTerms
from tests.connector.pools import Pool
from tests.connector.requests import DECODE, LAYOUT, PREFILL, Request, engine, params, terms
from tests.support.clock import FakeClock

BLOCK = 16
SETTINGS = Settings.of({"bidirectional_kv_xfer": True, "kv_recompute_threshold": 64}, {})
ADDRESS = {"remote_engine_id": "n", "remote_host": "h", "remote_port": 1}


@dataclass
class Link:
    """A link that remembers what was handed over to it."""

    connected: bool = True
    grants: list[GrantLeaseRequest] = field(default_factory=list)
    published: list[str] = field(default_factory=list)
    forgone: list[tuple[str, str]] = field(default_factory=list)
    kept_nothing: list[tuple[str, str]] = field(default_factory=list)

    def grant(self, request: GrantLeaseRequest, fill: Callable[[GrantLeaseRequest], None], ticket: str) -> None:
        assert ticket.startswith("kvt1.")
        fill(request)
        self.grants.append(request)

    def publish(self, ticket: str, request: GrantLeaseRequest) -> None:
        assert ticket.startswith("kvt1.")
        self.published.append(request.lease_id)

    def forgo(self, ticket: str, tenant: str) -> None:
        self.forgone.append((ticket, tenant))

    def keep_nothing(self, ticket_id: str, conversation: ConversationKey) -> None:
        self.kept_nothing.append((ticket_id, conversation.conversation_id))


class Farm:
    """A harvest with all that it needs around it."""

    def __init__(self, ref: EngineRef, settings: Settings = SETTINGS, *, connected: bool = True) -> None:
        self.engine, self.settings = engine(ref), settings
        self.link, self.owner, self.pool = Link(connected), Owner(), Pool(200)
        self.retention = Retention(self.pool)
        self.harvest = Harvest(
            self.owner,
            self.link,  # type: ignore[arg-type]
            self.retention,
            self.engine,
            settings=settings,
            parameters=ADDRESS,
            block_size=BLOCK,
            clock=FakeClock(),
        )

    def reap(
        self,
        request: Request,
        said: TicketTerms | None = None,
        ending: Ending = Ending.STOPPED,
        *,
        groups: Sequence[Sequence[int]] = (range(1, 100),),
        computed: int | None = None,
        answer: Answer | None = None,
    ) -> GrantLeaseRequest | None:
        """Finishes *request*; returns what was asked for."""
        request.kv_transfer_params = params(said or terms())
        turn = admit(request, self.engine, self.settings, 0.0, groups=len(groups))
        assert turn is not None
        if answer is not None:
            turn.settle(answer)
        tokens = request.num_tokens - 1 if computed is None else computed
        self.harvest.reap(turn, request, groups, ending, computed=tokens)
        return self.link.grants[-1] if self.link.grants else None


def answered(prompt: int = 1000, output: int = 11) -> Request:
    return Request(prompt=range(prompt), output=range(output))


def test_decode_keeps_every_token_but_the_last_which_has_no_kv() -> None:
    farm = Farm(DECODE)

    grant = farm.reap(answered())

    assert grant is not None
    assert (grant.kind, grant.handle.token_count) == (LeaseKind.LEASE_KIND_DECODE, 1010)
    assert (grant.handle.block_count, farm.retention.blocks) == (64, 64)
    assert farm.owner.holds(grant.lease_id)


def test_prefill_keeps_the_prompt_for_decode() -> None:
    farm = Farm(PREFILL)

    grant = farm.reap(answered(output=1), ending=Ending.LENGTH)

    assert grant is not None
    assert (grant.kind, grant.handle.token_count, grant.handle.block_count) == (
        LeaseKind.LEASE_KIND_PREFILL,
        1000,
        63,
    )
    assert farm.link.published == [grant.lease_id]


def test_a_grant_says_whose_it_is_and_where() -> None:
    grant = Farm(DECODE).reap(answered(), terms(ticket_id="x", conversation="y", tenant="z"), Ending.LENGTH)

    assert grant is not None
    assert (grant.ticket_id, grant.conversation.conversation_id, grant.conversation.tenant) == ("x", "y", "z")
    assert (grant.handle.engine, grant.handle.request_id) == (DECODE, "r")
    assert grant.stop_reason == StopReason.STOP_REASON_LENGTH


def test_a_grant_carries_the_proof_and_the_blocks_that_a_reader_needs() -> None:
    request = answered()

    grant = Farm(DECODE).reap(request)

    assert grant is not None
    chain = chain_of(request, terms(), SETTINGS, LAYOUT, request._all_token_ids)
    assert chain.proved(grant.handle.chain, grant.handle.token_count) == 1010
    read = body.decode(grant.handle.body)
    assert read["remote_block_ids"] == (list(range(1, 65)),)
    assert (read["remote_engine_id"], read["remote_host"], read["remote_port"]) == ("n", "h", 1)


def test_the_lease_that_a_turn_grew_from_is_named() -> None:
    claim = Claim("c", Lease(lease_id="turn-1", parent_lease_id="turn-0"), 1.0)

    grant = Farm(DECODE).reap(answered(), answer=Answer(claim, 1000))

    assert grant is not None
    assert grant.parent_lease_id == "turn-0"  # prefill's lease says what prefill read


def test_an_answer_that_a_stop_string_ended_is_kept() -> None:
    assert Farm(DECODE).reap(answered(), ending=Ending.ABORTED) is not None


def test_no_more_is_kept_than_was_computed() -> None:
    """A request that was preempted, and aborted while it computed its tokens again."""
    farm = Farm(DECODE)

    grant = farm.reap(answered(), ending=Ending.ABORTED, groups=[range(1, 33)], computed=500)

    assert grant is not None
    assert (grant.handle.token_count, grant.handle.block_count) == (500, 32)


@pytest.mark.parametrize(("blocks", "computed"), [(0, 0), (0, 500), (32, 0), (4, 63)])
def test_nothing_is_kept_of_a_request_that_has_lost_its_kv(blocks: int, computed: int) -> None:
    farm = Farm(DECODE)

    assert farm.reap(answered(), ending=Ending.ABORTED, groups=[range(1, 1 + blocks)], computed=computed) is None
    assert (farm.retention.blocks, farm.owner.leases) == (0, 0)


@pytest.mark.parametrize(
    ("farm", "request_", "said", "ending"),
    [
        (Farm(DECODE), answered(40, 24), terms(), Ending.STOPPED),
        (Farm(DECODE), answered(100, 28), terms(), Ending.STOPPED),
        (Farm(DECODE), answered(output=0), terms(), Ending.ABORTED),
        (Farm(DECODE), answered(), terms(conversation=""), Ending.STOPPED),
        (Farm(DECODE, Settings.of({}, {})), answered(), terms(), Ending.STOPPED),
        (Farm(DECODE, connected=False), answered(), terms(), Ending.STOPPED),
        (Farm(PREFILL, connected=False), answered(), terms(), Ending.STOPPED),
        (Farm(PREFILL), answered(), terms(), Ending.ABORTED),
    ],
    ids=[
        "below threshold",
        "below a stride",
        "no answer",
        "no conversation",
        "one way",
        "no registry",
        "no registry",
        "prefill aborted",
    ],
)
def test_what_nobody_could_read_is_not_kept(farm: Farm, request_: Request, said: TicketTerms, ending: Ending) -> None:
    assert farm.reap(request_, said, ending) is None
    assert (farm.retention.blocks, farm.owner.leases) == (0, 0)


@pytest.mark.parametrize(
    ("farm", "ending"),
    [(Farm(PREFILL, connected=False), Ending.STOPPED), (Farm(PREFILL), Ending.ABORTED)],
    ids=["no registry", "aborted"],
)
def test_decode_does_not_wait_for_prefill_that_could_not_be_leased(farm: Farm, ending: Ending) -> None:
    farm.reap(answered(), ending=ending)

    ((ticket, tenant),) = farm.link.forgone
    assert ticket.startswith("kvt1.")
    assert tenant == "t"


ONE_WAY = Settings.of({"bidirectional_kv_xfer": False}, {})


@pytest.mark.parametrize(
    ("settings", "request_", "ending"),
    [
        (SETTINGS, answered(60, 4), Ending.STOPPED),
        (ONE_WAY, answered(), Ending.STOPPED),
        (SETTINGS, answered(output=0), Ending.ABORTED),
    ],
    ids=["too short", "not bidirectional", "no answer"],
)
def test_the_next_turn_does_not_wait_for_what_decode_does_not_keep(
    settings: Settings, request_: Request, ending: Ending
) -> None:
    farm = Farm(DECODE, settings)

    assert farm.reap(request_, ending=ending) is None

    assert (farm.link.kept_nothing, farm.link.forgone) == ([("ticket", "c")], [])


def test_nothing_is_told_of_a_turn_without_a_conversation() -> None:
    farm = Farm(DECODE)

    farm.reap(answered(), terms(conversation=""))

    assert (farm.link.kept_nothing, farm.link.forgone) == ([], [])


def test_of_what_decode_keeps_it_is_not_told_that_it_keeps_nothing() -> None:
    farm = Farm(DECODE)

    assert farm.reap(answered()) is not None

    assert farm.link.kept_nothing == []


def test_the_shortest_prompt_is_kept_for_decode() -> None:
    grant = Farm(PREFILL).reap(answered(1, 1))

    assert grant is not None
    assert (grant.handle.token_count, grant.handle.block_count) == (1, 1)


def test_of_several_kv_cache_groups_all_blocks_are_kept() -> None:
    farm = Farm(DECODE)

    grant = farm.reap(answered(), groups=[range(1, 65), [80, 81, 0]])

    assert grant is not None
    assert (grant.handle.token_count, grant.handle.block_count) == (1010, 66)


def test_each_child_of_one_request_has_a_lease_of_its_own() -> None:
    farm = Farm(DECODE)
    for _ in range(3):
        farm.reap(answered())

    assert len({grant.lease_id for grant in farm.link.grants}) == 3
    assert farm.retention.blocks == 64
