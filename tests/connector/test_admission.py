"""A request becomes a turn only by a ticket that names this engine."""

from typing import Any

import pytest

from kvlease.connector.admission import admit, chain_of, orphaned
from kvlease.connector.settings import Settings
from kvlease.connector.turn import Source, Turn
from kvlease.v1.lease_pb2 import EngineRef, LeaseKind
from kvlease.v1.router_pb2 import TicketTerms
from tests.conftest import Seen
from tests.connector.requests import (
    DECODE,
    LAYOUT,
    PREFILL,
    Feature,
    Lora,
    Position,
    Request,
    engine,
    params,
    seal,
    terms,
)

SETTINGS = Settings.of({"bidirectional_kv_xfer": True}, {"KVLEASE_WAIT": "50ms"})
ONE_WAY = Settings.of({}, {})


def admitted(
    said: TicketTerms, ref: EngineRef = PREFILL, settings: Settings = SETTINGS, groups: int = 1
) -> Turn | None:
    return admit(Request(kv_transfer_params=params(said)), engine(ref), settings, 100.0, groups=groups)


def test_prefill_reads_the_conversations_branch_and_keeps_its_kv_for_decode() -> None:
    turn = admitted(terms())

    assert turn is not None
    assert (turn.source, turn.keeps) == (Source.BRANCH, LeaseKind.LEASE_KIND_PREFILL)
    assert (turn.prompt_tokens, turn.deadline, turn.whole_only) == (1000, 100.05, False)


def test_decode_reads_what_prefill_computes_and_keeps_its_kv_for_the_next_turn() -> None:
    turn = admitted(terms(), DECODE)

    assert turn is not None
    assert (turn.source, turn.keeps) == (Source.PREFILL, LeaseKind.LEASE_KIND_DECODE)


def test_decode_alone_reads_the_branch_itself() -> None:
    turn = admitted(terms(prefill=None), DECODE)

    assert turn is not None
    assert (turn.source, turn.keeps) == (Source.BRANCH, LeaseKind.LEASE_KIND_DECODE)


@pytest.mark.parametrize(("said", "settings"), [(terms(conversation=""), SETTINGS), (terms(), ONE_WAY)])
def test_without_a_conversation_or_with_one_direction_only_prefill_reads_nothing(
    said: TicketTerms, settings: Settings
) -> None:
    turn = admitted(said, settings=settings)

    assert turn is not None
    assert turn.source is Source.NOTHING


@pytest.mark.parametrize(("said", "settings"), [(terms(conversation=""), SETTINGS), (terms(), ONE_WAY)])
def test_decode_reads_prefill_all_the_same(said: TicketTerms, settings: Settings) -> None:
    turn = admitted(said, DECODE, settings)

    assert turn is not None
    assert turn.source is Source.PREFILL


def test_one_engine_may_be_both_legs_and_is_prefill_then() -> None:
    turn = admitted(terms(decode=PREFILL))

    assert turn is not None
    assert turn.keeps == LeaseKind.LEASE_KIND_PREFILL


@pytest.mark.parametrize(
    "ref",
    [
        EngineRef(engine_id="x", incarnation="p1"),
        EngineRef(engine_id="p", incarnation="p2"),
        EngineRef(engine_id="d", incarnation="d0"),
    ],
)
def test_a_ticket_of_another_engine_or_incarnation_is_not_used(ref: EngineRef) -> None:
    assert admitted(terms(), ref) is None


def test_a_ticket_for_decode_alone_is_not_one_for_the_prefill_that_it_names() -> None:
    said = terms()
    said.mode = terms(prefill=None).mode

    assert admitted(said) is None


def test_a_model_of_several_kv_cache_groups_reads_all_or_nothing() -> None:
    turn = admitted(terms(), groups=2)

    assert turn is not None
    assert turn.whole_only


@pytest.mark.parametrize("value", [None, {}, {"x": 1}, {"kvlease_ticket": 42}, {"kvlease_ticket": "no ticket"}])
def test_without_a_ticket_there_is_no_turn_and_nothing_is_touched(value: dict[str, Any] | None) -> None:
    before = dict(value) if value is not None else None
    request = Request(kv_transfer_params=value)

    assert admit(request, engine(PREFILL), SETTINGS, 0.0, groups=1) is None
    assert request.kv_transfer_params == before


def test_a_prompt_of_embeddings_is_not_leased() -> None:
    request = Request(kv_transfer_params=params(terms()), prompt_embeds=object())

    assert admit(request, engine(PREFILL), SETTINGS, 0.0, groups=1) is None


@pytest.mark.parametrize(("ref", "seen"), [(PREFILL, {"do_remote_decode": True}), (DECODE, {})])
def test_stock_code_sees_nothing_but_its_leg(ref: EngineRef, seen: dict[str, Any]) -> None:
    sent = {"kvlease_ticket": seal(terms()), "do_remote_prefill": True, "remote_host": "elsewhere"}
    request = Request(kv_transfer_params=sent)

    admit(request, engine(ref), SETTINGS, 0.0, groups=1)

    assert request.kv_transfer_params == seen


def proved(ours: Request, theirs: Request, said: TicketTerms | None = None, kv_layout: str = LAYOUT) -> int:
    """How much of *theirs* the KV of *ours* serves."""
    held = chain_of(ours, terms(), SETTINGS, LAYOUT, ours.prompt_token_ids)
    asked = chain_of(theirs, said or terms(), SETTINGS, kv_layout, theirs.prompt_token_ids)
    return asked.proved(held.prefix(held.length), held.length)


def test_equal_requests_share_all_of_their_kv() -> None:
    assert proved(Request(), Request()) == 1000


@pytest.mark.parametrize(
    "theirs",
    [
        Request(lora_request=Lora("a", "/a")),
        Request(cache_salt="salt"),
        Request(mm_features=[Feature("image", Position(0))]),
    ],
)
def test_adapter_salt_and_images_decide_kv_too(theirs: Request) -> None:
    assert proved(Request(), theirs) == 0
    assert proved(theirs, theirs) == 1000


@pytest.mark.case(9)
@pytest.mark.parametrize("theirs", [Lora("b", "/a"), Lora("a", "/b")])
def test_two_adapters_share_nothing(theirs: Lora, seen: Seen) -> None:
    shared = proved(Request(lora_request=Lora("a", "/a")), Request(lora_request=theirs))

    seen(f"two adapters: {shared} of 1000 tokens shared")
    assert shared == 0


@pytest.mark.case(9)
def test_two_images_behind_the_same_tokens_share_what_comes_before_them(seen: Seen) -> None:
    ours, theirs = (Request(mm_features=[Feature(name, Position(300))]) for name in ("cat", "dog"))

    shared = proved(ours, theirs)

    seen(f"two images at token 300: {shared} tokens shared")
    assert shared == 256


def test_tenants_share_nothing() -> None:
    assert proved(Request(), Request(), terms(tenant="another")) == 0


def test_another_model_block_size_or_version_shares_nothing() -> None:
    assert proved(Request(), Request(), kv_layout="another") == 0


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (terms(prefill=EngineRef(engine_id=PREFILL.engine_id, incarnation="earlier")), True),
        (terms(), False),
        (terms(prefill=EngineRef(engine_id="another", incarnation="earlier")), False),
        (terms(prefill=None), False),
    ],
    ids=["an earlier start of this engine", "this engine", "another engine", "decode alone"],
)
def test_a_ticket_for_an_earlier_start_leaves_its_decode_waiting(said: TicketTerms, expected: bool) -> None:
    assert orphaned(params(said), engine(PREFILL)) == (said if expected else None)


@pytest.mark.parametrize("sent", [None, {}, {"kvlease_ticket": 7}, {"kvlease_ticket": "none"}])
def test_what_is_no_ticket_leaves_nobody_waiting(sent: dict[str, Any] | None) -> None:
    assert orphaned(sent, engine(PREFILL)) is None
