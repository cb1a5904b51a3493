"""`kvlease doctor`: looks a deployment over, and names the cause of whatever is off."""

import argparse
from collections.abc import Callable, Iterator, Sequence

from kvlease.cli import web
from kvlease.cli.command import FAILED, OK, Subparsers, add_connection, connect, shown
from kvlease.cli.command import add_parser as add
from kvlease.cli.diagnosis import deployment, turns
from kvlease.cli.diagnosis.finding import Finding, Level
from kvlease.cli.diagnosis.survey import Survey
from kvlease.cli.output import colored, print_json, printable
from kvlease.cli.progress import Bar

COLORS = {Level.OK: "32", Level.WARN: "33", Level.FAIL: "31"}
CHECKS: tuple[Callable[[Survey], Iterator[Finding]], ...] = (
    deployment.services,
    deployment.presence,
    deployment.rivals,
    deployment.roles,
    deployment.flags,
    deployment.versions,
    deployment.keys,
    deployment.budgets,
    deployment.reach,
    deployment.clocks,
    turns.misses,
    turns.histories,
    turns.probes,
)

DOWN = {"registry": {"engines"}, "router": {"turns", "trial"}}
"""What follows, by subject, from a service that gives no answer."""
EXPLAINED = {
    "engine ids": {"turns", "trial"},
    "roles": {"router", "turns", "trial"},
    "flags": {"turns", "trial"},
    "budget": {"turns", "trial"},
}
"""What follows from a failure of a subject."""


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease doctor
        kvlease doctor --gateway http://10.0.0.1:8440 --registry 10.0.0.1:7440 --router 10.0.0.1:7441
        kvlease doctor --no-requests --json | jq '.[] | select(.level == "fail")'
    """
    summary = "look a deployment over, and say what is wrong and what to do"
    parser = add(subparsers, "doctor", summary, run, examples=examples)
    web.add_gateway(parser)
    parser.add_argument(
        "--no-requests",
        dest="requests",
        action="store_false",
        help="do not try: else a conversation of two turns is held with each model",
    )
    add_connection(parser, "registry", "router")


def run(args: argparse.Namespace) -> int:
    """Prints findings. Gives 1 when something failed; warnings are no failure."""
    findings = examine(_survey(args))
    if args.json:
        print_json(findings)
    else:
        for finding in findings:
            _print(finding)
    return FAILED if any(finding.level is Level.FAIL for finding in findings) else OK


def examine(survey: Survey) -> Sequence[Finding]:
    """Runs all checks. What only follows from a cause that is told is left out, with its advice."""
    found = [finding for check in CHECKS for finding in check(survey)]
    down = {service.name for service in survey.services if service.error}
    failed = {finding.subject for finding in found if finding.level is Level.FAIL}
    follows: set[str] = set().union(
        *(DOWN.get(name, set()) for name in down), *(EXPLAINED.get(subject, set()) for subject in failed)
    )
    return [finding for finding in found if finding.level is Level.OK or finding.subject not in follows]


def _survey(args: argparse.Namespace) -> Survey:
    from kvlease.cli.diagnosis.surveyor import Places, Surveyor  # noqa: PLC0415 - HTTP, which few commands need
    from kvlease.client.engine import EngineRegistryClient  # noqa: PLC0415 - asyncio, likewise

    places = Places(registry=args.registry, router=args.router, gateway=args.gateway, timeout=args.timeout)
    bar = Bar("looking")
    bar.expect(Surveyor.STEPS)
    registry = EngineRegistryClient(args.registry, tenant=args.tenant, security=shown(args))
    try:
        with connect(args) as client, web.client(args) as http:
            return Surveyor(places, client, registry, http).survey(try_turns=args.requests, advance=bar.advance)
    finally:
        bar.close()


def _print(finding: Finding) -> None:
    level = f"{finding.level:<4}"
    if colored():
        level = f"\x1b[{COLORS[finding.level]}m{level}\x1b[0m"
    print(f"{level}  {finding.subject:<12}  {printable(finding.what)}")
    if finding.advice:
        print(f"{'':18}  do: {printable(finding.advice)}")
