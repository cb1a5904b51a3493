"""A handle's size and the time that it costs, against the JSON in which stock vLLM carries the same."""

from typing import Any

from benchmarks.catalogue import Options
from benchmarks.codec.handle import Given
from benchmarks.codec.measure import CONNECTORS, CONTENDERS, DIGESTS, JSON, PROOF, SERVICES, measure
from benchmarks.figure import Figure
from benchmarks.picture import draw
from benchmarks.report import Report
from benchmarks.sample import Samples

SUMMARY = "handle size and codec, against stock's JSON"
LENGTHS = (24_000, 128_000, 1_000_000)
POOL = {24_000: 16_384, 128_000: 65_536, 1_000_000: 250_000}  # KV blocks of an engine that serves such prompts


def run(options: Options) -> Report:
    """Measures each length with block ids drawn from a pool of that size."""
    lengths = LENGTHS[:1] if options.smoke else LENGTHS
    samples: Samples[tuple[int, str]] = Samples()
    sizes: dict[int, tuple[int, int]] = {}
    for tokens in lengths:
        given = Given(tokens, POOL[tokens])
        sizes[tokens] = (len(given.stock), len(given.wire))
        for name, microseconds in measure(given, rounds=3 if options.smoke else 25):
            samples.add((tokens, name), microseconds)
    draw("codec", lambda axes: _paint(axes, samples, lengths), folder=options.results)
    return Report(
        bench="codec",
        columns=["tokens", "blocks in the pool", "JSON, bytes", "handle, bytes", *(f"{x}, us" for x in CONTENDERS)],
        rows=[
            [tokens, POOL[tokens], *sizes[tokens], *(samples.median((tokens, name)) for name in CONTENDERS)]
            for tokens in lengths
        ],
        figures=[figure for tokens in lengths for figure in _figures(tokens, sizes[tokens], samples)],
        facts={"us": samples.facts()},
        notes=(
            "JSON: the standard library's dumps and loads of stock's transfer parameters.",
            "services: parse the handle, check it, keep it, give it again (the registry; no other service sees it).",
            "connectors: encode from lists in the owner, decode into lists in the reader.",
        ),
    )


def _figures(tokens: int, sizes: tuple[int, int], samples: Samples[tuple[int, str]]) -> list[Figure]:
    size = f"{tokens:,} tokens"
    figures = [
        Figure(text=f"bytes with digests, of JSON's, {size}", value=sizes[1] / sizes[0], at_most=0.65),
        Figure(
            text=f"time in the services, of JSON's, {size}",
            value=samples.ratio((tokens, SERVICES), (tokens, JSON)),
            at_most=0.1,
        ),
        Figure(
            text=f"time in the connectors, of JSON's, {size}",
            value=samples.ratio((tokens, CONNECTORS), (tokens, JSON)),
            at_most=0.25,
        ),
    ]
    if tokens == LENGTHS[-1]:
        for name in (DIGESTS, PROOF):
            took = samples.median((tokens, name)) / 1e3
            figures.append(Figure(text=f"{name}, {size}", value=took, at_most=15.0, unit="ms"))
    return figures


def _paint(axes: Any, samples: Samples[tuple[int, str]], lengths: tuple[int, ...]) -> None:
    for name in CONTENDERS:
        axes.plot(lengths, [samples.median((tokens, name)) for tokens in lengths], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="tokens", ylabel="µs", title="A handle's time on its way")
    axes.legend()
