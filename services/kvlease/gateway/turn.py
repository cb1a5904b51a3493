"""One turn: planned, tried, perhaps tried again elsewhere, and answered."""

import secrets
from dataclasses import dataclass
from http import HTTPStatus

import structlog

from kvlease.gateway.attempt import Attempt
from kvlease.gateway.budget import Budget
from kvlease.gateway.directory import EngineKey, key_of
from kvlease.gateway.errors import ApiError, unavailable
from kvlease.gateway.http.answer import Answer, Lost, UpstreamError
from kvlease.gateway.http.message import Headers, Request, end_to_end
from kvlease.gateway.http.reply import Reply
from kvlease.gateway.outcome import finish_reasons, stop_reason
from kvlease.gateway.plan import Plan
from kvlease.gateway.plane import Plane
from kvlease.gateway.prompt import Prompt
from kvlease.gateway.relay import Relay
from kvlease.gateway.usage import correct
from kvlease.rpc.tracing import NO_SPAN, Span
from kvlease.v1 import lease_pb2

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Told:
    """An answer of an engine, to be passed on."""

    status: int
    headers: Headers
    body: bytes


class DecodeFailed(Exception):
    """Decode gave no answer, and the client has seen nothing of this try."""

    def __init__(self, reason: str, told: Told | None = None) -> None:
        """Keeps what the engine *told*, if it did."""
        super().__init__(reason)
        self.told = told


class Turn:
    """Serves one request for a completion."""

    def __init__(
        self, plane: Plane, request: Request, reply: Reply, prompt: Prompt, *, tenant: str, span: Span = NO_SPAN
    ) -> None:
        self._plane = plane
        self._span = span
        self._request = request
        self._reply = reply
        self._prompt = prompt
        self._tenant = tenant
        self._id = secrets.token_hex(16)
        self._begun = plane.clock()

    async def run(self) -> None:
        """Answers the client. Raises ApiError when nobody can; a cancelled turn takes everything back."""
        failed: set[EngineKey] = set()
        failure: DecodeFailed | None = None
        for number in range(self._plane.settings.retries + 1):
            budget = Budget(self._plane.settings.wait, self._plane.clock)
            try:
                attempt = await self._plan(number, failed, budget)
            except ApiError:
                if failure is None:
                    raise
                break
            try:
                await self._try(attempt, budget)
            except DecodeFailed as error:
                failure = error
                failed.add(key_of(attempt.plan.decode.engine))
                self._note(attempt, error)
            else:
                return
        self._give_up(failure)

    async def _plan(self, number: int, failed: set[EngineKey], budget: Budget) -> Attempt:
        name = f"{self._id}-{number}"
        plan = await self._plane.planner.plan(
            self._prompt, tenant=self._tenant, request_id=name, exclude=failed, budget=budget
        )
        if not plan.ticket:
            self._plane.metrics.unrouted.inc()
        self._span.note({"kvlease.mode": _mode(plan), "kvlease.tries": number + 1})
        return Attempt(self._plane, plan, self._prompt, self._request, name=name, tenant=self._tenant)

    def _note(self, attempt: Attempt, error: DecodeFailed) -> None:
        self._plane.metrics.decode_failures.inc()
        engine = attempt.plan.decode.engine.engine_id
        log.warning("decode failed", engine=engine, request=self._id, error=str(error))

    async def _try(self, attempt: Attempt, budget: Budget) -> None:
        """Makes one try. Raises DecodeFailed."""
        answered = False
        try:
            with self._plane.directory.serving(attempt.plan.decode.engine):
                answer = await _dispatched(attempt)
                if answer.status != HTTPStatus.OK:
                    await self._refused(answer)
                elif _streams(answer):
                    answered = await self._stream(attempt, answer, budget)
                else:
                    answered = await self._whole(attempt, answer, budget)
        finally:
            if answered:
                attempt.close()
            else:
                attempt.abandon()

    async def _refused(self, answer: Answer) -> None:
        """Passes a refusal on; what is the engine's own fault may be tried elsewhere."""
        told = Told(answer.status, answer.headers, await _read(answer))
        if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            raise DecodeFailed(f"status {answer.status}", told)
        self._tell(told)

    async def _whole(self, attempt: Attempt, answer: Answer, budget: Budget) -> bool:
        body = await _read(answer)
        reasons = finish_reasons(body)
        if not reasons:
            raise DecodeFailed("an answer without content")
        cached = await self._complete(attempt, reasons, budget)
        self._tell(Told(answer.status, answer.headers, body if cached is None else correct(body, cached)))
        return True

    async def _stream(self, attempt: Attempt, answer: Answer, budget: Budget) -> bool:
        """Relays a stream; returns whether it was an answer. Raises DecodeFailed while nothing was sent."""
        relay = Relay(answer, self._reply, self._prompt.choices)
        relay.begin(lambda: self._plane.metrics.first_byte(self._begun))
        await relay.settled
        if not relay.answered:
            return self._broken(attempt, relay)
        cached = await self._complete(attempt, relay.events.finish_reasons, budget)
        try:
            await answer.done
        except Lost:
            return self._broken(attempt, relay)
        relay.end(cached)
        return True

    def _broken(self, attempt: Attempt, relay: Relay) -> bool:
        """Ends a stream that is no answer, so that nobody takes it for one. Raises DecodeFailed if none has begun."""
        failure = DecodeFailed("a stream that broke off" if self._reply.started else "a stream without content")
        if not self._reply.started:
            raise failure
        self._note(attempt, failure)
        if relay.events.broken:
            relay.end(None)  # the engine itself has told what went wrong
        else:
            relay.fail("the decode engine broke off its answer")
        return False

    async def _complete(self, attempt: Attempt, reasons: set[str], budget: Budget) -> int | None:
        """Ends the turn as answered; returns the prompt's tokens that prefill did not compute, where known."""
        stopped = stop_reason(reasons, names_tool=self._prompt.names_tool)
        report = await attempt.complete(stopped, budget)
        if report is None:
            return None
        self._plane.metrics.prefilled(report)
        self._span.note(_reuse(report))
        return report.local_tokens + report.reused_tokens

    def _give_up(self, failure: DecodeFailed | None) -> None:
        if failure is None or failure.told is None:
            raise unavailable(f"no decode engine answered: {failure}")
        self._tell(failure.told)

    def _tell(self, told: Told) -> None:
        self._reply.send(told.status, end_to_end(told.headers), told.body)


def _mode(plan: Plan) -> str:
    if not plan.ticket:
        return "unrouted"
    return "prefill_decode" if plan.prefill is not None else "decode_only"


def _reuse(report: lease_pb2.PrefillReport) -> dict[str, str | int]:
    """Returns what a span says of a prompt's KV."""
    facts: dict[str, str | int] = {
        "kvlease.reused_tokens": report.reused_tokens,
        "kvlease.local_tokens": report.local_tokens,
        "kvlease.computed_tokens": report.computed_tokens,
    }
    return facts | ({"kvlease.miss_reason": report.miss_reason} if report.miss_reason else {})


def _streams(answer: Answer) -> bool:
    return any(name == b"content-type" and value.startswith(b"text/event-stream") for name, value in answer.headers)


async def _dispatched(attempt: Attempt) -> Answer:
    try:
        return await attempt.dispatch()
    except UpstreamError as error:
        raise DecodeFailed(str(error)) from error


async def _read(answer: Answer) -> bytes:
    try:
        return await answer.read()
    except UpstreamError as error:
        raise DecodeFailed(str(error)) from error
