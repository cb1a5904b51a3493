"""The command line's options, and what they mean."""

import argparse
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.multiturn import models, results, served
from benchmarks.multiturn.cuda import Cuda
from benchmarks.multiturn.shapes import SHAPES
from benchmarks.multiturn.stacks import Serving
from benchmarks.multiturn.sweep import Plan
from kvlease.local import install, model
from kvlease.rpc.options import length

_PATIENCE = {"cpu": 1.0, "cuda": 0.05}  # seconds; a machine of two busy cores is not to decide what is shown


def add_serving(parser: argparse.ArgumentParser) -> None:
    """Adds what says how engines are started."""
    option = parser.add_argument_group("engines").add_argument
    names = ", ".join([models.TINY, *SHAPES])
    option("--model", default=models.TINY, metavar="NAME", help=f"a model's folder, or one of {names}")
    option("--load-format", default="", help="as vLLM takes it, or `drawn`; default: what fits the model")
    option("--gpus", metavar="P/D", help="CUDA_VISIBLE_DEVICES of prefill and of decode, such as 0/1; default: on CPU")
    option("--vllm", choices=install.VERSIONS, default="0.29.0", help="on CPU; on GPUs it is the one that is installed")
    option("--blocks", type=int, metavar="N", help="KV blocks in decode's pool; default: what fits")
    option("--memory", type=float, default=0.9, metavar="SHARE", help="of each GPU; default 0.9")
    option("--context", type=int, default=26_000, metavar="TOKENS", help="longest prompt and answer; default 26000")
    option("--wait", type=length, metavar="TIME", help="most that the control plane may add to a request")
    option("--haste", type=float, default=1.0, metavar="N", help="kept KV lives for an N-th of the usual time")
    more = "one of kv_connector_extra_config more, its value as JSON"
    option("--connector", action="append", default=[], metavar="NAME=VALUE", help=more)
    option("--engine-option", action="append", default=[], metavar="--OPTION=VALUE", help="one of vLLM's more")
    option("--gateway-option", action="append", default=[], metavar="--OPTION=VALUE", help="one of the gateway's more")
    option("--logs", type=Path, default=Path(".cache/multiturn/logs"), metavar="DIR")


def serving(args: argparse.Namespace, stack: str) -> Serving:
    """What is to be served. Raises ValueError for what cannot be."""
    prefill, _, decode = (args.gpus or "").partition("/")
    if args.gpus and not (prefill and decode):
        raise ValueError(f"--gpus {args.gpus!r} does not name devices of prefill and of decode, such as 0/1")
    patience = _PATIENCE["cuda" if args.gpus else "cpu"] if args.wait is None else args.wait
    return Serving(
        stack=stack,
        model=models.find(args.model, cache=model.default_cache(), load_format=args.load_format),
        cuda=Cuda(prefill, decode, args.memory) if args.gpus else None,
        version=args.vllm,
        context=args.context,
        blocks=args.blocks,
        patience=patience,
        haste=args.haste,
        connector=dict(map(_pair, args.connector)),
        arguments=args.engine_option,
        gateway=args.gateway_option,
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Adds what says what is asked."""
    option = parser.add_argument_group("conversations").add_argument
    lengths = [2_000, 4_000, 8_000, 12_000, 16_000, 20_000, 24_000]
    option("--lengths", type=_numbers, default=lengths, metavar="N,N", help="tokens of the timed prompts")
    option("--rounds", type=_rounds, default={"": 3}, metavar="N", help="3, or by leg: recompute=1,stock=3,kvlease=3")
    option("--turns", type=int, default=2, metavar="N", help="of a conversation, the last one timed; default 2")
    option("--message", type=int, default=256, metavar="N", help="tokens that each later turn adds; default 256")
    option("--answer", type=int, default=16, metavar="N", help="tokens of an answer; default 16")
    option("--think", type=length, default="200ms", metavar="TIME", help="between two turns; default 200ms")
    option("--concurrency", type=int, default=1, metavar="N", help="conversations at a time; default 1")
    option("--seed", default="kvlease", help="of the prompts")


def plan(args: argparse.Namespace) -> Plan:
    names = ("lengths", "rounds", "turns", "message", "answer", "think", "concurrency", "seed")
    return Plan(**{name: getattr(args, name) for name in names})


def add_results(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--results", type=Path, default=results.FOLDER, metavar="DIR", help="where files go")
    parser.add_argument("--name", default="", help="of the file; default: of the model")


def add_served(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--served", type=Path, default=served.FOLDER, metavar="DIR", help="where it is kept what runs")


def add_legs(parser: argparse.ArgumentParser) -> None:
    """Adds what the legs beside the sweep need."""
    option = parser.add_argument_group("pressure and idle").add_argument
    option("--pressure-length", type=int, default=8_000, metavar="N", help="tokens of each conversation; default 8000")
    option("--arrivals", type=int, default=3, metavar="N", help="new ones before and after; default 3")
    option("--bound", type=length, default="30s", metavar="TIME", help="longest wait for a token; default 30s")
    option("--idle-length", type=int, default=2_000, metavar="N", help="tokens of each conversation; default 2000")
    option("--idle-conversations", type=int, default=32, metavar="N", help="half of them return once; default 32")
    option("--idle", type=length, default="10m", metavar="TIME", help="to be played with --haste; default 10m")


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _rounds(text: str) -> Mapping[str, int]:
    """Numbers by leg; that of all others by the empty name."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    return {name: int(number) for name, _, number in pairs}


def _pair(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not found:
        raise ValueError(f"--connector {text!r} is no NAME=VALUE")
    return name, json.loads(value)
