"""`kvlease top`: engines, their pools, and what becomes of prompts, as it happens."""

import argparse
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, NoReturn

from kvlease.cli import web
from kvlease.cli.command import FAILED, OK, Subparsers, add_connection, advise, connect
from kvlease.cli.command import add_parser as add
from kvlease.cli.output import print_json
from kvlease.cli.traffic import Counters, Traffic, between, of_tickets
from kvlease.client.errors import KvleaseError
from kvlease.client.sync import Client
from kvlease.rpc.options import length

if TYPE_CHECKING:
    import httpx2
    from rich.console import RenderableType

    from kvlease.cli.screen import Glance

WINDOW = 60.0  # seconds over which traffic is counted
TICKETS = 1000  # that a router lists at once


def add_parser(subparsers: Subparsers) -> None:
    """Adds the subcommand."""
    examples = """
        kvlease top
        kvlease top --interval 5s --gateway http://10.0.0.1:8440 --registry 10.0.0.1:7440
        kvlease top --once --json | jq .traffic.tokens
    """
    parser = add(subparsers, "top", "show engines and reuse as it happens, until Ctrl-C", run, examples=examples)
    web.add_gateway(parser)
    parser.add_argument("--interval", type=length, default=1.0, metavar="TIME", help="between two looks; default 1s")
    parser.add_argument("--once", action="store_true", help="look once; so also where the output is no terminal")
    add_connection(parser, "registry", "router")


def run(args: argparse.Namespace) -> int:
    """Shows frames until it is interrupted. What is out of reach is said in the frame, and tried again.

    Gives 1 for a single look at which nothing was in reach.
    """
    with connect(args) as client, web.client(args) as http:
        look = Look(args, client, http)
        if sys.stdout.isatty() and not (args.once or args.json):
            _follow(look, args)
        glance = look()
        if args.json:
            print_json(glance)
        else:
            _print(glance, args)
    return FAILED if glance.engines_error and glance.traffic is None else OK


class Look:
    """Looks again and again, and remembers what was counted a minute ago."""

    def __init__(self, args: argparse.Namespace, client: Client, http: "httpx2.Client") -> None:
        self._args = args
        self._client = client
        self._http = http
        self._seen: deque[tuple[float, Counters]] = deque()

    def __call__(self) -> "Glance":
        """Looks once."""
        from kvlease.cli.screen import Glance  # noqa: PLC0415 - rich, which few commands need

        traffic, traffic_error = self._traffic()
        try:
            engines = self._client.list_engines(include_lost=True, timeout=self._args.timeout)
        except KvleaseError as error:
            return Glance(traffic=traffic, traffic_error=traffic_error, engines_error=advise(error, self._args))
        return Glance(engines=engines, traffic=traffic, traffic_error=traffic_error)

    def _traffic(self) -> tuple[Traffic | None, str]:
        import httpx2  # noqa: PLC0415

        url = f"{self._args.gateway}/metrics"
        try:
            answer = self._http.get(url).raise_for_status()
            counted = Counters.of(answer.text)
        except (httpx2.HTTPError, ValueError) as error:
            told = f"no figures from {url}: {web.worded(error)}"
            return self._of_router(), told
        return self._since(time.monotonic(), counted), ""

    def _of_router(self) -> Traffic | None:
        """Tells of turns without a gateway's help, as far as the router remembers them."""
        try:
            return of_tickets(self._client.list_tickets(limit=TICKETS, timeout=self._args.timeout), WINDOW)
        except KvleaseError:
            return None

    def _since(self, now: float, counted: Counters) -> Traffic:
        """Compares with what was counted at most a window ago; the first time, with nothing."""
        while self._seen and now - self._seen[0][0] > WINDOW:
            self._seen.popleft()
        at, before = self._seen[0] if self._seen else (now, Counters())
        self._seen.append((now, counted))
        return between(before, counted, now - at)


def _print(glance: "Glance", args: argparse.Namespace) -> None:
    from rich.console import Console  # noqa: PLC0415 - only people need it

    from kvlease.cli.screen import frame  # noqa: PLC0415

    width = None if sys.stdout.isatty() else 200
    console = Console(width=width)
    console.print(frame(glance, title=_title(args), width=console.width))


def _follow(look: Look, args: argparse.Namespace) -> NoReturn:
    from rich.live import Live  # noqa: PLC0415 - only people need it

    from kvlease.cli.screen import frame  # noqa: PLC0415

    def drawn() -> "RenderableType":
        return frame(look(), title=_title(args), width=live.console.width)

    with Live(screen=True, auto_refresh=False) as live:
        while True:
            live.update(drawn(), refresh=True)
            time.sleep(args.interval)


def _title(args: argparse.Namespace) -> str:
    return f"kvlease top  {time.strftime('%H:%M:%S')}  registry {args.registry}  gateway {args.gateway}"
