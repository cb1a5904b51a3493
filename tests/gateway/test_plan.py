"""Where a turn is sent, and what its client is told when it cannot be sent anywhere."""

import json

import pytest

from kvlease.client.breaker import TRIP_AFTER, Breaker
from kvlease.client.errors import (
    CredentialsWrong,
    DeadlineExceeded,
    Internal,
    InvalidArgument,
    KvleaseError,
    ModelNotFound,
    NoEngine,
    PermissionDenied,
    TenantLimit,
    Unavailable,
)
from kvlease.gateway.budget import Budget
from kvlease.gateway.directory import Directory
from kvlease.gateway.errors import ApiError
from kvlease.gateway.http.message import Request
from kvlease.gateway.plan import Plan, Planner
from kvlease.gateway.prompt import CHAT, Prompt, read_prompt
from kvlease.v1 import lease_pb2, registry_pb2, router_pb2
from tests.support.clock import FakeClock

ENGINE = registry_pb2.Engine(
    ref=lease_pb2.EngineRef(engine_id="d", incarnation="1"),
    role=registry_pb2.ENGINE_ROLE_DECODE,
    models=["m"],
    http_url="http://d",
)


def endpoint(name: str) -> router_pb2.Endpoint:
    return router_pb2.Endpoint(engine=lease_pb2.EngineRef(engine_id=name, incarnation="1"), http_url=f"http://{name}")


class OneRoute:
    """A router that always answers the same."""

    def __init__(self, answer: router_pb2.RouteResponse | KvleaseError, clock: FakeClock, takes: float = 0.0) -> None:
        self.asked: list[router_pb2.RouteRequest] = []
        self.timeouts: list[float] = []
        self._answer = answer
        self._clock = clock
        self._takes = takes

    async def route(
        self,
        request: router_pb2.RouteRequest,
        *,
        timeout: float,  # noqa: ASYNC109 - the client's
        tenant: str,
    ) -> router_pb2.RouteResponse:
        assert tenant == "t"
        self.asked.append(request)
        self.timeouts.append(timeout)
        self._clock.advance(self._takes)
        if isinstance(self._answer, KvleaseError):
            raise self._answer
        return self._answer


class Planning:
    """A planner and what it asks."""

    def __init__(self, answer: router_pb2.RouteResponse | KvleaseError, *, known: bool, takes: float = 0.0) -> None:
        self.clock = FakeClock()
        self.router = OneRoute(answer, self.clock, takes)
        self.directory = Directory(memory=1.0, clock=self.clock)
        if known:
            self.directory.update([registry_pb2.EngineStatus(engine=ENGINE, healthy=True)])
        self.budget = Budget(0.05, self.clock)
        self.planner = Planner(self.router, self.directory, Breaker(self.clock))

    async def plan(self, model: str = "m", *exclude: tuple[str, str], **body: object) -> Plan:
        return await self.planner.plan(
            prompt(model, **body), tenant="t", request_id="r", exclude=exclude, budget=self.budget
        )


def prompt(model: str, **body: object) -> Prompt:
    return read_prompt(Request("POST", CHAT, [], json.dumps({"model": model, "session_id": "c", **body}).encode()))


BOTH = router_pb2.RouteResponse(
    ticket="kvt1", mode=router_pb2.ROUTE_MODE_PREFILL_DECODE, prefill=endpoint("p"), decode=endpoint("d")
)
ALONE = router_pb2.RouteResponse(ticket="kvt1", mode=router_pb2.ROUTE_MODE_DECODE_ONLY, decode=endpoint("d"))


async def test_the_routers_word_counts() -> None:
    assert await Planning(BOTH, known=False).plan() == Plan(endpoint("d"), endpoint("p"), "kvt1")
    assert await Planning(ALONE, known=False).plan() == Plan(endpoint("d"), None, "kvt1")


async def test_the_router_is_told_what_it_needs() -> None:
    planning = Planning(BOTH, known=False)

    await planning.plan("m", ("x", "7"))

    [asked] = planning.router.asked
    assert (asked.request_id, asked.conversation_id, asked.model) == ("r", "c", "m")
    assert asked.prompt_tokens > 0
    assert list(asked.exclude) == [lease_pb2.EngineRef(engine_id="x", incarnation="7")]
    assert planning.router.timeouts == [0.05]


async def test_what_decode_must_serve_alone_is_of_no_conversation() -> None:
    planning = Planning(BOTH, known=False)

    plan = await planning.plan(prompt_logprobs=1)

    assert plan.prefill is None
    assert planning.router.asked[0].conversation_id == ""


@pytest.mark.parametrize(
    "failure", [Unavailable, DeadlineExceeded, Internal, NoEngine, PermissionDenied, CredentialsWrong]
)
async def test_without_the_routers_word_a_known_engine_serves(failure: type[KvleaseError]) -> None:
    assert await Planning(failure("x"), known=True).plan() == Plan(endpoint("d"))


async def test_a_router_that_does_not_answer_is_soon_left_alone() -> None:
    planning = Planning(DeadlineExceeded("x"), known=True, takes=0.05)

    for _ in range(5):
        await planning.plan()

    assert len(planning.router.asked) == TRIP_AFTER


async def test_a_router_that_refuses_has_answered() -> None:
    planning = Planning(NoEngine("x"), known=True)

    for _ in range(5):
        await planning.plan()

    assert len(planning.router.asked) == 5


async def test_waiting_comes_off_the_budget() -> None:
    planning = Planning(BOTH, known=True, takes=0.03)

    await planning.plan()

    assert planning.budget.left == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("answer", "known", "model", "status"),
    [
        (ModelNotFound("x"), False, "m", 404),
        (ModelNotFound("x"), True, "other", 404),
        (Unavailable("x"), True, "other", 404),
        (Unavailable("x"), False, "m", 503),
        (NoEngine("x"), False, "m", 503),
        (InvalidArgument("x"), True, "m", 400),
        (TenantLimit("x", retry_after=7.0), True, "m", 429),
    ],
)
async def test_what_a_client_is_told(answer: KvleaseError, known: bool, model: str, status: int) -> None:
    with pytest.raises(ApiError) as refused:
        await Planning(answer, known=known).plan(model)

    assert refused.value.status == status
    if status == 429:
        assert (b"retry-after", b"7") in refused.value.headers()


async def test_an_engine_that_failed_is_not_fallen_back_on() -> None:
    with pytest.raises(ApiError) as refused:
        await Planning(Unavailable("x"), known=True).plan("m", ("d", "1"))

    assert refused.value.status == 503
