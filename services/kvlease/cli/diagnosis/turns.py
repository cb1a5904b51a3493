"""Checks of what became of turns: those that the router remembers, and those that were tried on purpose."""

from collections import Counter
from collections.abc import Iterator, Sequence
from statistics import median

from kvlease.cli.diagnosis.finding import Finding, fail, ok, warn
from kvlease.cli.diagnosis.survey import Probe, Survey
from kvlease.cli.output import length
from kvlease.cli.verdict import ALONE, NOT_REUSED, REASONS, REUSED, WHO_KNOWS, judge, prefill_failed
from kvlease.client.types import Ticket
from kvlease.connector.prefix import STRIDE

_ENOUGH = 5  # turns, below which a share says nothing
_HALF = 0.5
_TEMPLATE = (
    "the chat template changes or drops what an answer was (reasoning, as a rule), or clients do not send it back as "
    "it came: send `reasoning_content` back too, use a template that keeps it, or accept that each turn computes the "
    "answer before it"
)
_PREFIX = (
    "the chat template, or the client, puts something that changes (a date, an id) before the history: put it last"
)


def misses(survey: Survey) -> Iterator[Finding]:
    """No turn missed for a reason that can be helped."""
    running = {None, *(engine.ref for engine in survey.engines)}  # what was wrong with others may be mended
    tickets = [turn for turn in survey.tickets if {turn.terms.decode, turn.terms.prefill} <= running]
    yield from _failed(tickets)
    asked = [turn for turn in tickets if turn.report and turn.terms.conversation_id]
    counted = Counter(turn.report.miss_reason for turn in asked if turn.report)
    for reason, count in counted.most_common():
        why, advice = REASONS.get(reason, ("", ""))
        if advice and reason not in ("BELOW_THRESHOLD", "NO_MATCH"):
            yield warn("turns", f"{count} of the last {len(asked)} reused nothing: {why} ({reason})", advice)
    yield from _gone(asked)
    alone = [turn for turn in tickets if turn.terms.prefill is None]
    if len(alone) > _HALF * len(tickets) and len(alone) >= _ENOUGH:
        what = f"{len(alone)} of the last {len(tickets)} went to decode alone: {alone[0].decision}"
        yield warn("turns", what, "see what is said of roles and versions here")


def _failed(tickets: Sequence[Ticket]) -> Iterator[Finding]:
    """Prefill answers what it is sent."""
    sent: dict[str, list[Ticket]] = {}
    for turn in tickets:
        if turn.terms.prefill is not None:
            sent.setdefault(turn.terms.prefill.engine_id, []).append(turn)
    why, advice = REASONS["PREFILL_FAILED"]
    for engine_id, turns in sent.items():
        if failed := sum(map(prefill_failed, turns)):
            tell = fail if prefill_failed(turns[0]) else warn
            yield tell("prefill", f"of the last {len(turns)} turns sent to {engine_id} {failed} failed: {why}", advice)


def _gone(asked: Sequence[Ticket]) -> Iterator[Finding]:
    """What was kept is, as a rule, still there when the next turn comes."""
    ages: dict[str, float] = {}
    later, silences = 0, []
    for turn in sorted(asked, key=lambda x: x.age, reverse=True):
        before = ages.get(turn.terms.conversation_id)
        ages[turn.terms.conversation_id] = turn.age
        if before is not None and turn.report and turn.report.prompt_tokens > STRIDE:
            later += 1
            if turn.report.miss_reason == "NO_LEASE":
                silences.append(before - turn.age)
    if len(silences) > _HALF * later and len(silences) >= _ENOUGH:
        what = f"{len(silences)} of the last {later} later turns found nothing kept any more (NO_LEASE)"
        yield warn("turns", f"{what}, {length(median(silences))} after the turn before, at the median", WHO_KNOWS)


def histories(survey: Survey) -> Iterator[Finding]:
    """Prompts begin like what was kept."""
    grown = [turn for turn in survey.tickets if turn.leased_tokens and turn.report and turn.report.prompt_tokens]
    if len(grown) < _ENOUGH:
        return
    nothing = [turn for turn in grown if _no_match(turn)]
    partly = [turn for turn in grown if 0 < _had(turn) <= turn.leased_tokens - STRIDE]
    told = f"of the last {len(grown)} later turns {len(nothing)} did not begin like what was kept"
    what = f"{told}, {len(partly)} were like it for a part only"
    if len(nothing) > _HALF * len(grown):
        yield warn("histories", what, f"{_PREFIX}; or, after first prompts of less than {STRIDE} tokens: {_TEMPLATE}")
    elif len(nothing) + len(partly) > _HALF * len(grown):
        yield warn("histories", what, _TEMPLATE)
    else:
        yield ok("histories", what)


def probes(survey: Survey) -> Iterator[Finding]:
    """A conversation that was held on purpose was reused."""
    engines = {engine.ref.engine_id: engine for engine in survey.engines}
    for probe in survey.probes:
        if probe.error:
            yield fail("trial", f"a conversation with {probe.model} failed: {probe.error}", "see the gateway's log")
            continue
        if probe.first is None or probe.second is None:
            advice = "is the gateway's router the one at --router, and the API key's tenant the one of --tenant?"
            yield warn("trial", f"the router knows nothing of a conversation with {probe.model}", advice)
            continue
        verdict = judge(probe.second, probe.first, engines)
        if verdict.outcome == REUSED:
            yield ok("trial", f"a second turn with {probe.model} was reused: {_told(probe.second)}")
        elif verdict.outcome in (NOT_REUSED, ALONE) and not _no_match(probe.second):
            yield fail("trial", f"a second turn with {probe.model} was not reused: {verdict.why}", verdict.advice)
        elif len({engine.digest_key_id for engine in survey.engines}) > 1:
            yield fail("trial", f"a second turn with {probe.model} was not reused", "see what is said of keys here")
        else:
            yield _partial(probe, probe.first, probe.second)


def _partial(probe: Probe, first: Ticket, second: Ticket) -> Finding:
    """Tells apart whether the answer or the prompt before it came back otherwise."""
    had = _had(second)
    before = first.report.prompt_tokens if first.report else 0
    what = f"a second turn with {probe.model} matched {had} of {second.leased_tokens} tokens: "
    if had < _HALF * before:
        return warn("trial", what + "not even the first prompt came back as it was", _PREFIX)
    told = "its answer did not come back token for token" + (", and it carries reasoning" if probe.reasoning else "")
    return warn("trial", what + told, _TEMPLATE)


def _had(turn: Ticket) -> int:
    """Tokens that prefill need not compute."""
    return turn.report.reused_tokens + turn.report.local_tokens if turn.report else 0


def _no_match(turn: Ticket) -> bool:
    return turn.report is not None and turn.report.miss_reason == "NO_MATCH"


def _told(turn: Ticket) -> str:
    if turn.report is None:
        return "prefill told nothing"
    return (
        f"{turn.report.reused_tokens} tokens read from decode, {turn.report.local_tokens} in prefill's cache, "
        f"{turn.report.computed_tokens} computed"
    )
