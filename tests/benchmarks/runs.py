"""Made-up turns of a run."""

from dataclasses import replace

from benchmarks.multiturn.results import Turn


def turn(leg: str, length: int, ttft: float, *, stack: str = "kvlease", number: int = 0, logprob: float = -1.0) -> Turn:
    """The last of two."""
    return Turn(
        stack=stack,
        leg=leg,
        round=number,
        conversation_id=f"{stack} {leg} {length} {number}",
        turn=2,
        turns=2,
        concurrency=1,
        input_tokens=length,
        reused_tokens=0 if leg == "recompute" else length - 100,
        ttft_ms=ttft,
        elapsed_ms=ttft + 10,
        prefill_ms=ttft * 0.8,
        prefill_queued_ms=1.0,
        prefill_computing_ms=ttft * 0.5,
        kv_transfer_ms=0.0 if leg == "recompute" else ttft * 0.2,
        kv_bytes=0 if leg == "recompute" else 1e6,
        decode_transfer_ms=1.0,
        decode_kv_bytes=1e5,
        tokens=[7],
        logprobs=[logprob],
        alternatives=[{"token_id:7": logprob}],
    )


def held(last: Turn, *, said: int = 7) -> list[Turn]:
    """A whole conversation, by its last turn, and what was answered before."""
    first = replace(last, turn=1, ttft_ms=None, input_tokens=last.input_tokens - 100, tokens=[said])
    return [first, last]


def whole() -> list[Turn]:
    return [
        turn
        for number, jitter in enumerate((0.0, 5.0, 1.0))
        for last in (
            turn_of("recompute", "kvlease", 700.0 + jitter, number),
            turn_of("kvlease", "kvlease", 90.0 + jitter, number),
            turn_of("recompute", "stock", 705.0 + jitter, number),
            turn_of("stock", "stock", 110.0 + jitter, number),
        )
        for turn in held(last)
    ]


def turn_of(leg: str, stack: str, ttft: float, number: int) -> Turn:
    return turn(leg, 20_000, ttft, stack=stack, number=number, logprob=-1.0 - (0.01 if leg == "kvlease" else 0))
