"""`make demo`: a conversation on real engines, once with reuse and once with every turn computed anew.

Prefill runs without a prefix cache, so that decode alone has the history. The demo fails unless prefill's own counters
say that it read from decode once per later turn, and every log-probability is that of the computed run.
"""

import argparse
import math
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from kvlease.client.errors import KvleaseError
from kvlease.client.sync import Client
from kvlease.client.types import PrefillReport
from kvlease.local import install, page
from kvlease.local.chat import Answer, Message, ask
from kvlease.local.conversation import questions
from kvlease.local.stack import Stack, StackFailed, running

_TOLERANCE = 1e-3
_ANSWER = range(32, 64)  # tokens
_READS = "vllm:nixl_xfer_time_seconds_count"
_COUNTED_WITHIN = 5.0  # seconds until an engine's counters tell of a read
_POLL = 0.1  # seconds
_WORTH_TELLING = 1.05
_HEADING = """\
        prompt  reused    prefill ms       TTFT ms     NIXL    log-prob
turn    tokens  tokens   reuse    anew   reuse    anew  reads  difference"""
NEXT = (
    "next: `source .venv/bin/activate`, then `kvlease up --engines cpu --no-prefill-prefix-caching`, "
    'and in another terminal the two turns under "See it work" in README.md'
)


class DemoFailed(Exception):
    """What was to be shown is not so."""


@dataclass(frozen=True, slots=True)
class Run:
    """One turn, one way."""

    answer: Answer
    report: PrefillReport
    reads: int  # by prefill's own counter


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn, both ways."""

    reuse: Run
    anew: Run

    @property
    def difference(self) -> float:
        """Between the two answers' log-probabilities, token by token; infinite if the tokens differ."""
        if self.reuse.answer.text != self.anew.answer.text:
            return math.inf
        pairs = zip(self.reuse.answer.logprobs, self.anew.answer.logprobs, strict=True)
        return max(abs(one - other) for one, other in pairs)

    def row(self, number: int) -> str:
        """The turn's line in the table."""
        reuse, anew = self.reuse, self.anew
        return (
            f"{number:4}  {reuse.answer.prompt_tokens:8}{reuse.answer.cached_tokens:8}"
            f"{reuse.report.prefill_duration * 1000:8.0f}{anew.report.prefill_duration * 1000:8.0f}"
            f"{reuse.answer.ttft * 1000:8.0f}{anew.answer.ttft * 1000:8.0f}"
            f"{reuse.reads:7}  {self.difference:10.1e}  {reuse.report.miss_reason}".rstrip()
        )


def told(turns: Sequence[Turn]) -> str:
    """Says to people what was reused of the turns that were, and what it brought. Medians of what was measured."""
    reused = [turn for turn in turns if turn.reuse.answer.cached_tokens]
    cached = sum(turn.reuse.answer.cached_tokens for turn in reused)
    prompts = sum(turn.reuse.answer.prompt_tokens for turn in reused)
    prefill = [median(run.report.prefill_duration for run in runs) for runs in _both(reused)]
    ttft = [median(run.answer.ttft for run in runs) for runs in _both(reused)]
    return (
        f"{len(reused)} of {len(turns)} turns read their history back from decode: {cached:,} of their {prompts:,} "
        f"prompt tokens were not computed, prefill took {_instead(*prefill)}, and the first token came after "
        f"{_instead(*ttft)}: {_faster(*ttft)}."
    )


def _both(turns: Sequence[Turn]) -> tuple[list[Run], list[Run]]:
    return [turn.reuse for turn in turns], [turn.anew for turn in turns]


def _instead(reuse: float, anew: float) -> str:
    return f"{reuse * 1000:.0f} ms instead of {anew * 1000:.0f}"


def _faster(reuse: float, anew: float) -> str:
    times = anew / reuse
    return f"{times:.1f} times as fast" if times >= _WORTH_TELLING else "no faster, on this machine"


def main() -> int:
    parser = argparse.ArgumentParser(description="Holds a conversation on real engines, and compares.")
    parser.add_argument("--vllm", choices=install.VERSIONS, default=install.DEFAULT)
    version = parser.parse_args().vllm
    try:
        with running(version, say=_say) as stack:
            _say(_show(stack))
    except (DemoFailed, StackFailed, OSError, KvleaseError) as error:
        print(f"demo: failed: {error}")
        return 1
    print(NEXT, file=sys.stderr)  # standard output ends with the result, for scripts
    return 0


def _say(line: str) -> None:
    print(line, flush=True)


def _show(stack: Stack) -> str:
    """Prints the table; gives the last line.

    Raises:
        DemoFailed: a turn was not reused, read otherwise than once, or answered otherwise than when computed.
    """
    _say("a first conversation, so that all connections are there")
    _converse(stack, "warm-up", ["Hello? " * 50, "Is anybody there? " * 20])
    before = _reads(stack)
    _say(_HEADING)
    turns = _converse(stack, "demo", questions(), tell=_say)
    reads = _reads(stack) - before
    reused = [turn for turn in turns if turn.reuse.answer.cached_tokens]
    worst = max(turn.difference for turn in turns)
    if len(reused) < len(turns) - 1:
        raise DemoFailed(f"{len(reused)} of {len(turns) - 1} later turns were reused")
    if reads != len(reused) or any(turn.reuse.reads != 1 for turn in reused):
        raise DemoFailed(f"prefill's engine counted {reads} reads for {len(reused)} turns")
    if worst > _TOLERANCE:
        raise DemoFailed(f"log-probabilities differ by {worst:.1e} from a computed run's")
    _say(told(turns))
    cached = sum(turn.reuse.answer.cached_tokens for turn in turns)
    prompts = sum(turn.reuse.answer.prompt_tokens for turn in turns)
    return (
        f"demo: ok turns={len(turns)} reused_tokens={cached}/{prompts} nixl_reads={reads} max_logprob_diff={worst:.1e}"
    )


def _converse(
    stack: Stack, name: str, said: Iterable[str], *, tell: Callable[[str], object] = lambda _: None
) -> list[Turn]:
    """Holds a conversation; each turn is asked once in it, and once as if it were the first of another."""
    history: list[Message] = []
    turns: list[Turn] = []
    for number, question in enumerate(said, 1):
        history.append({"role": "user", "content": question})
        turn = Turn(_run(stack, history, name), _run(stack, history, f"{name}, computed, {number}"))
        history.append({"role": "assistant", "content": turn.reuse.answer.text})
        turns.append(turn)
        tell(turn.row(number))
    return turns


def _run(stack: Stack, messages: Sequence[Message], conversation: str) -> Run:
    before = _reads(stack)
    answer = ask(stack.gateway, messages, conversation=conversation, tokens=_ANSWER)
    reads = _counted(stack, before, expected=min(answer.cached_tokens, 1))
    return Run(answer, _report(stack, conversation), reads)


def _counted(stack: Stack, before: int, *, expected: int) -> int:
    """How far the counter has risen, once it has risen as expected or has had the time to."""
    deadline = time.monotonic() + _COUNTED_WITHIN
    while (risen := _reads(stack) - before) < expected and time.monotonic() < deadline:
        time.sleep(_POLL)
    return risen


def _reads(stack: Stack) -> int:
    return int(page.counters(stack.engines["prefill-0"]).get(_READS, 0))


def _report(stack: Stack, conversation: str) -> PrefillReport:
    """What prefill's connector tells of the conversation's last turn."""
    with Client(router=stack.router) as client:
        (ticket,) = client.list_tickets(conversation_id=conversation, limit=1)
    if ticket.report is None:
        raise DemoFailed(f"decode computed the prompt itself: {ticket.decision}")
    return ticket.report


if __name__ == "__main__":
    sys.exit(main())
