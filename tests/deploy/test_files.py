"""docker-compose.yml and what it mounts: commands that are taken, metrics that exist, bases that are pinned."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvlease.connector.counts import COUNTERS, GAUGES, HISTOGRAMS, PREFIX
from kvlease.connector.settings import Settings
from tests.deploy.commands import COMMANDS, parse
from tests.sim.lone import lone

ROOT = Path(__file__).parents[2]
COMPOSE: Any = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, Any] = COMPOSE["services"]
DASHBOARD: Any = json.loads((ROOT / "deploy" / "grafana" / "dashboards" / "kvlease.json").read_text())
METRIC = re.compile(r"\b(?:kvlease_|vllm:)\w+")


def queries() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.mark.parametrize(
    "name", [name for name, x in SERVICES.items() if x.get("command", [""])[0] in ("sh", *COMMANDS)]
)
def test_services_start_with_these_arguments(name: str) -> None:
    parse([re.sub(r"\$\{\w+:-(.*)}", r"\1", word) for word in SERVICES[name]["command"]])


@pytest.mark.parametrize("name", SERVICES)
def test_services_are_confined_and_pinned(name: str) -> None:
    service = SERVICES[name]

    assert service["cap_drop"] == ["ALL"]
    assert service["read_only"] is True
    assert service.get("build") or re.search(r":v?\d+\.\d+\.\d+", service["image"])


@pytest.mark.parametrize("file", ["services/Dockerfile", "deploy/vllm/Dockerfile"])
def test_bases_are_pinned(file: str) -> None:
    bases = re.findall(r"^ARG \w+=(\S+:\S+)$", (ROOT / file).read_text(), re.MULTILINE)

    assert bases
    assert all(re.search(r":v?\d+\.\d+\.\d+", base) for base in bases)


@pytest.mark.parametrize(("role", "kv_role"), [("prefill", "kv_producer"), ("decode", "kv_consumer")])
def test_engines_in_containers_load_the_connector(role: str, kv_role: str) -> None:
    serve = ROOT / "deploy" / "vllm" / "serve"
    said = subprocess.run([serve, role, "echo", "--model", "m"], capture_output=True, text=True, check=True).stdout
    transfer = json.loads(said.partition("--kv-transfer-config ")[2])

    assert said.startswith("--model m --host 0.0.0.0 --port 8000 ")
    assert transfer["kv_connector_module_path"] == "kvlease.connector.nixl"
    assert transfer["kv_role"] == kv_role
    assert Settings.of(transfer["kv_connector_extra_config"], {}).bidirectional


async def test_the_dashboard_asks_for_metrics_that_exist() -> None:
    async with lone() as engine:
        told = await engine.text("/metrics") + (ROOT / "docs" / "metrics.md").read_text()
    asked = {name for query in queries() for name in METRIC.findall(query)}

    assert asked
    for name in asked:
        assert re.search(rf"\b{re.sub('_bucket$', '', name)}\b", told), name


def test_the_dashboard_shows_all_that_connectors_tell() -> None:
    told = {f"{PREFIX}{name}_total" for name in COUNTERS} | {f"{PREFIX}{name}_bucket" for name in HISTOGRAMS}
    told |= {PREFIX + name for name in GAUGES}

    assert told <= {name for query in queries() for name in METRIC.findall(query)}


def test_prometheus_looks_for_services_and_engines_under_the_names_that_they_have() -> None:
    told = yaml.safe_load((ROOT / "deploy" / "prometheus" / "prometheus.yml").read_text())
    names = {name for job in told["scrape_configs"] for where in job["dns_sd_configs"] for name in where["names"]}

    assert names == {x for x in SERVICES if x in ("registry", "router", "gateway") or SERVICES[x].get("profiles")}


def test_the_balancer_looks_for_services_under_the_names_that_they_have() -> None:
    told = (ROOT / "deploy" / "haproxy" / "haproxy.cfg").read_text()

    assert set(re.findall(r"server-template \w+ \d+ (\w+):", told)) == {"registry", "router", "gateway"}


def test_the_page_about_it_names_files_that_there_are() -> None:
    page = (ROOT / "docs" / "deploy.md").read_text()

    for path in re.findall(r"(?:services|deploy)/[\w/]+", page):
        assert (ROOT / path).exists() or path.endswith("/ours"), path
