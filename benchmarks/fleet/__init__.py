"""A fleet of 200 engines and its control plane: where it saturates, and what fails first. A model of measured costs."""

from typing import Any

from benchmarks.catalogue import Options
from benchmarks.figure import Figure
from benchmarks.fleet.costs import Costs, measure
from benchmarks.fleet.model import Fleet, Model, Outcome
from benchmarks.picture import draw
from benchmarks.report import Report

SUMMARY = "200 engines, 50,000 conversations: how many turns a second routers and registries carry (a model)"
ENGINES, CONVERSATIONS, OFFERED = 200, 50_000, 500.0
LOADS = (100.0, 200.0, 300.0, 400.0, 500.0, 700.0, 1_000.0, 1_500.0, 2_000.0)
LATE = 0.01  # the share of turns past their budget from which a fleet counts as saturated
Plan = tuple[int, bool]
PLANS: tuple[Plan, ...] = ((1, False), (1, True), (2, True), (4, True))


def run(options: Options) -> Report:
    """Measures what calls cost, and lets the model run at each load with each number of replicas."""
    seconds = 0.2 if options.smoke else 1.5
    costs = {shared: measure(shared=shared, seconds=seconds) for shared in (False, True)}
    loads = LOADS[:2] if options.smoke else LOADS
    span = 2.0 if options.smoke else 20.0
    seen = {(plan, turns): Model(_fleet(plan, turns), costs[plan[1]]).run(span) for plan in PLANS for turns in loads}
    draw("fleet", lambda axes: _paint(axes, seen, loads), folder=options.results)
    return Report(
        bench="fleet",
        columns=[
            "router and registry",
            "turns/s",
            "router",
            "registry",
            "store",
            "Route p50, ms",
            "wait p99, ms",
            "late",
        ],
        rows=[_row(plan, turns, outcome) for (plan, turns), outcome in seen.items()],
        figures=[] if options.smoke else _figures(seen),
        facts={"costs": {_name((1, shared)): cost.facts() for shared, cost in costs.items()}, "late": LATE},
        notes=(
            "Event-driven: every process is one core of this machine that serves calls in their order, at costs that",
            "were measured here on real processes. router, registry, store: shares of a core that are busy. wait: for",
            "Route and claim before the first token, of a budget of 50 ms; late: turns past it, served without reuse.",
        ),
    )


def _fleet(plan: Plan, turns: float) -> Fleet:
    return Fleet(ENGINES, CONVERSATIONS, turns, *plan)


def _name(plan: Plan) -> str:
    return f"{plan[0]} x, {'Redis' if plan[1] else 'memory'}"


def _row(plan: Plan, turns: float, outcome: Outcome) -> list[object]:
    busy = (outcome.router, outcome.registry, outcome.store)
    median = sorted(outcome.routed)[len(outcome.routed) // 2] * 1e3
    return [_name(plan), turns, *busy, median, outcome.p99 * 1e3, outcome.late]


def _figures(seen: dict[tuple[Plan, float], Outcome]) -> list[Figure]:
    figures = []
    for plan in PLANS:
        carried = [turns for (each, turns), outcome in seen.items() if each == plan and outcome.late <= LATE]
        most = max(carried, default=0.0)
        outcome = seen[plan, min((turns for turns in LOADS if turns > most), default=LOADS[-1])]
        busiest = max((outcome.router, "router"), (outcome.registry, "registry"), (outcome.store, "store"))[1]
        note = f"first to saturate: the {busiest}"
        figures.append(Figure(text=f"turns per second carried, {_name(plan)}", value=most, at_least=OFFERED, note=note))
    return figures


def _paint(axes: Any, seen: dict[tuple[Plan, float], Outcome], loads: tuple[float, ...]) -> None:
    for plan in PLANS:
        axes.plot(loads, [seen[plan, turns].p99 * 1e3 for turns in loads], marker="o", label=_name(plan))
    axes.axhline(50, color="grey", linestyle="--")
    axes.set(yscale="log", xlabel="turns per second", ylabel="wait for the control plane, p99, ms")
    axes.legend()


__all__ = ["SUMMARY", "Costs", "run"]
