"""`python -m benchmarks.multiturn COMMAND`: serve, sweep, collect, plot and down; `compare` does all of it."""

import argparse
import asyncio
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from benchmarks.multiturn import counters, options, served
from benchmarks.multiturn.compare import LEGS, SWEEP, begin, compare, hold_all, report
from benchmarks.multiturn.requests import RequestFailed
from benchmarks.multiturn.stacks import STACKS, Stack, StackFailed, prepare, running
from kvlease.local.install import EngineUnavailable

OK, FAILED, WRONG = 0, 1, 2


class Ended(BaseException):
    """SIGTERM came."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; gives its exit code."""
    args = parser().parse_args(argv)
    try:
        return int(args.run(args))
    except (ValueError, EngineUnavailable) as error:
        return _fail(error, WRONG)
    except (StackFailed, RequestFailed, OSError) as error:
        return _fail(error, FAILED)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    except Ended:
        return 128 + signal.SIGTERM


def _serve(args: argparse.Namespace) -> int:
    """Serves one stack until SIGINT or SIGTERM."""
    prepared = prepare(options.serving(args, args.stack), logs=args.logs)
    try:
        with running(prepared, say=_say) as stack, served.announced(stack, args.served):
            _say(f"ready {stack.gateway or f'{stack.prefill} and {stack.decode}'}")
            signal.pause()
    except (Ended, KeyboardInterrupt):
        _say("ended")
    return OK


def _sweep(args: argparse.Namespace) -> int:
    """Holds conversations with all stacks that are served here, or with an endpoint from elsewhere."""
    stacks = [_elsewhere(args)] if args.endpoint else served.stacks(args.served)
    if not stacks:
        raise ValueError("nothing is served: run `serve`, or name an --endpoint")
    if args.endpoint and args.legs != [SWEEP]:
        raise ValueError(f"only {SWEEP} works with an --endpoint: the others look into its engines")
    log = begin(args, stacks)
    asyncio.run(hold_all(args, stacks, args.legs, log, _say))
    _say(f"written: {log.file}")
    return OK


def _collect(args: argparse.Namespace) -> int:
    """Prints what the engines of all stacks that are served here have counted."""
    for stack in served.stacks(args.served):
        for role, url in (("prefill", stack.prefill), ("decode", stack.decode)):
            counted = asyncio.run(counters.look(url))
            _say(json.dumps({"kind": "counters", "stack": stack.name, "engine": role, **counted}))
    return OK


def _plot(args: argparse.Namespace) -> int:
    report(args.file, pictures=args.pictures or args.file.with_suffix(""), tolerance=args.tolerance, say=_say)
    return OK


def _down(args: argparse.Namespace) -> int:
    return OK if served.end(args.served, say=_say) else FAILED


def _compare(args: argparse.Namespace) -> int:
    file = compare(args, _say)
    _say(f"written: {file}")
    report(file, pictures=args.pictures or file.with_suffix(""), tolerance=args.tolerance, say=_say)
    return OK


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m benchmarks.multiturn", description=__doc__)
    commands = top.add_subparsers(metavar="COMMAND", required=True)

    serve = commands.add_parser("serve", help="run one stack until Ctrl-C")
    serve.add_argument("--stack", choices=STACKS, required=True)
    options.add_serving(serve)
    options.add_served(serve)
    serve.set_defaults(run=_serve)

    sweep = commands.add_parser("sweep", help="hold conversations with what is served")
    sweep.add_argument("--endpoint", metavar="URL", help="an OpenAI endpoint from elsewhere instead")
    sweep.add_argument("--endpoint-model", metavar="NAME", help="its model's name")
    sweep.add_argument("--endpoint-tokens", type=int, default=30_000, metavar="N", help="size of its vocabulary")
    options.add_served(sweep)
    sweep.set_defaults(run=_sweep)

    collect = commands.add_parser("collect", help="print the engines' counters")
    options.add_served(collect)
    collect.set_defaults(run=_collect)

    plot = commands.add_parser("plot", help="table, goals and pictures of a run")
    plot.add_argument("file", type=Path)
    plot.set_defaults(run=_plot)

    down = commands.add_parser("down", help="end what is served")
    options.add_served(down)
    down.set_defaults(run=_down)

    whole = commands.add_parser("compare", help="serve, sweep and end each stack in turn; then plot")
    option = whole.add_argument
    option("--stacks", type=_some_of(STACKS), default=STACKS, metavar="NAMES", help=f"default {','.join(STACKS)}")
    options.add_serving(whole)
    whole.set_defaults(run=_compare)

    for command in (sweep, whole):
        names = f"of {','.join(LEGS)}; default {SWEEP}"
        command.add_argument("--legs", type=_some_of(LEGS), default=[SWEEP], metavar="NAMES", help=names)
        options.add_plan(command)
        options.add_legs(command)
        options.add_results(command)
    for command in (plot, whole):
        command.add_argument("--pictures", type=Path, metavar="DIR", help="default: a folder named like the file")
        of_type = "of log-probabilities; default: by the model's type of number"
        command.add_argument("--tolerance", type=float, metavar="X", help=of_type)
    return top


def _elsewhere(args: argparse.Namespace) -> Stack:
    margin = args.endpoint_tokens // 50
    last = args.endpoint_tokens - margin
    return Stack("endpoint", args.endpoint_model, "", "", args.endpoint, margin, last, {"endpoint": args.endpoint})


def _some_of(known: Sequence[str]) -> Callable[[str], list[str]]:
    """Reads names, separated by commas."""

    def names(text: str) -> list[str]:
        found = text.split(",")
        if unknown := set(found) - set(known):
            raise argparse.ArgumentTypeError(f"{', '.join(unknown)}: not of {', '.join(known)}")
        return found

    return names


def _say(line: str) -> None:
    print(line, flush=True)


def _fail(error: Exception, code: int) -> int:
    print(f"multiturn: {error}", file=sys.stderr)
    return code


def _end(_number: int, _frame: FrameType | None) -> None:
    raise Ended


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main())
