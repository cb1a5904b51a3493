"""The page of services names their flags, variables, endpoints and errors as they are, and nothing else."""

import argparse
import json
import os
import re
from http import HTTPStatus
from typing import Any

import pytest

from kvlease.client.lengths import written
from kvlease.connector.settings import DEFAULT_DIGEST_KEY, Settings
from kvlease.gateway.app import App
from kvlease.gateway.errors import ApiError
from kvlease.gateway.metrics import Metrics
from kvlease.gateway.status.routes import StatusPage
from kvlease.gateway.tenancy import Trusting
from tests.deploy.commands import COMMANDS
from tests.docs.blocks import blocks
from tests.docs.reading import ROOT
from tests.gateway.stack import running
from tests.support.clock import FakeClock

PAGE = ROOT / "docs/reference/services.md"
SOURCES = ("services", "connector", "clients")
SERVICES = ("registry", "router", "gateway")
_VARIABLE = re.compile(r"\bKVLEASE_[A-Z]+(?:_[A-Z]+)*\b")


def rows(heading: str) -> list[list[str]]:
    """The cells of the tables below a heading, down to the next of any level, without those that head columns."""
    _, _, below = PAGE.read_text().partition(f"\n{heading}\n")
    assert below, heading
    lines = re.split(r"^#", below, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    tables = [line for line in lines if line.startswith("|")]
    heads = {number - 1 for number, line in enumerate(tables) if line.startswith("|---")}
    bodies = [x for number, x in enumerate(tables) if number not in heads and not x.startswith("|---")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in bodies]


@pytest.fixture(autouse=True)
def _default_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("KVLEASE_"):
            monkeypatch.delenv(name)


def options(service: str) -> list[argparse.Action]:
    parser: argparse.ArgumentParser = COMMANDS[f"kvlease-{service}"]()
    return [action for action in parser._actions if action.dest != "help"]


def flag(action: argparse.Action) -> str:
    """How the page writes it."""
    (name,) = action.option_strings
    return f"`{name} {action.metavar}`" if action.metavar else f"`{name}`"


def default(action: argparse.Action) -> str:
    """How the page writes it; nothing where a flag is off or unset."""
    nothing = action.default in (None, "") or isinstance(action.default, bool)
    return "" if nothing else f"`{action.default}`"


def documented(service: str) -> list[tuple[str, str, str]]:
    """Flag, default and meaning of all that the page tells of a service."""
    own = [(name, default, meaning) for name, default, meaning in rows(f"### kvlease-{service}")]
    shared = rows("### Of several")
    return own + [(name, default, meaning) for name, of, default, meaning in shared if service in of.split(", ")]


@pytest.mark.parametrize("service", SERVICES)
def test_every_flag_is_documented_with_its_default_and_every_documented_one_is_there(service: str) -> None:
    told = sorted((name, default) for name, default, _ in documented(service))

    assert told == sorted((flag(action), default(action)) for action in options(service))


@pytest.mark.parametrize("service", SERVICES)
def test_what_may_be_chosen_is_told(service: str) -> None:
    meanings = {name: meaning for name, _, meaning in documented(service)}

    for action in options(service):
        for choice in action.choices or ():
            assert f"`{choice}`" in meanings[flag(action)]


def test_flags_that_are_shared_are_of_services_that_there_are() -> None:
    assert {service for _, of, *_ in rows("### Of several") for service in of.split(", ")} <= set(SERVICES)


def test_every_variable_that_is_read_is_documented_and_every_documented_one_is_read() -> None:
    files = [file for source in SOURCES for file in (ROOT / source).rglob("*.py")]
    known = {name for file in files for name in _VARIABLE.findall(file.read_text())}
    told = [name for variables, *_ in rows("## Environment") for name in _VARIABLE.findall(variables)]

    assert sorted(told) == sorted(known)


def test_what_engines_do_by_default_is_told() -> None:
    told = {variable.strip("`"): default.strip("`") for variable, _, default, _ in rows("## Environment")}
    settings = Settings.of({}, {})

    assert told["KVLEASE_REGISTRY"] == settings.registry
    assert told["KVLEASE_ROUTER"] == settings.router
    assert told["KVLEASE_HTTP_URL"] == settings.http_url
    assert told["KVLEASE_DIGEST_KEY"] == DEFAULT_DIGEST_KEY
    assert told["KVLEASE_WAIT"] == written(settings.wait)
    assert told["KVLEASE_FREE_WATERMARK"] == str(settings.free_watermark)
    assert f"`kv_recompute_threshold` ({settings.recompute_threshold}:" in PAGE.read_text()


def test_every_endpoint_is_documented_and_every_documented_one_is_there() -> None:
    nothing: Any = None
    page = StatusPage(nothing, nothing, Metrics(FakeClock()), Trusting())
    app = App(nothing, nothing, nothing, Trusting(), page)
    served = {(method, path) for path, acts in app._routes.items() for method in acts if not path.startswith("/ui/")}

    told = {(method, path.strip("`").removesuffix("ID")) for method, path, _ in rows("## What the gateway serves")}

    assert told == served


async def test_what_else_vllm_serves_is_refused_as_told() -> None:
    ((sentence),) = re.findall(r"vLLM's other endpoints, such as(.+?)are answered 404", PAGE.read_text(), re.DOTALL)
    ended, refused = (json.loads(block.text) for block in blocks(PAGE) if block.language == "json")
    others = re.findall(r"`(\S+)`", sentence)
    async with running() as stack:
        answers = {path: await stack.http.post(path, json={}) for path in others}
        stack.registry.grant("42")
        gone = await stack.http.delete("/v1/conversations/42")

    assert {answer.status_code for answer in answers.values()} == {404}
    assert answers["/v1/responses"].json() == refused
    assert gone.json() == ended


def test_errors_have_the_type_that_is_told() -> None:
    told = {int(status): kind for status, _, kind in rows("### What comes back")}

    assert told == {
        status: f"`{json.loads(ApiError(HTTPStatus(status), '').body())['error']['type']}`" for status in told
    }


def test_only_statuses_that_the_gateway_gives_are_told() -> None:
    source = "".join(file.read_text() for file in (ROOT / "services/kvlease/gateway").rglob("*.py"))
    given = {HTTPStatus[name].value for name in re.findall(r"HTTPStatus\.([A-Z_]+)\b", source)}

    assert {int(status) for status, *_ in rows("### What comes back")} == {
        x for x in given if x >= HTTPStatus.BAD_REQUEST
    }
