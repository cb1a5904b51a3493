"""The manifests fit the schemas of Kubernetes, refer to what is there, and start what there is as it is started."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from kvlease.connector.settings import Settings as ConnectorSettings
from kvlease.router.settings import Settings as RouterSettings
from tests.deploy.commands import parse

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
VERSIONS = ("1.29", "1.35")
MANIFESTS = sorted(x for x in FOLDER.glob("*/*.yaml") if x.name != "kustomization.yaml")


def documents(*paths: Path) -> list[Any]:
    return [document for path in paths for document in yaml.safe_load_all(path.read_text())]


ALL = documents(*MANIFESTS)
DEPLOYMENTS = [x for x in ALL if x["kind"] == "Deployment"]


def pod(deployment: Any) -> Any:
    return deployment["spec"]["template"]


def named(x: Any) -> str:
    return str(x["metadata"]["name"])


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_manifests_fit_the_schemas(path: Path, version: str) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, version, strict=True)


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_what_kustomize_builds_fits_the_schemas() -> None:
    built = subprocess.run(["kubectl", "kustomize", FOLDER / "example"], capture_output=True, check=True)
    made = list(yaml.safe_load_all(built.stdout))

    assert {named(x) for x in DEPLOYMENTS} == {named(x) for x in made if x["kind"] == "Deployment"}
    for document in made:
        kubernetes_validate.validate(document, VERSIONS[-1], strict=True)


def test_every_manifest_is_part_of_a_kustomization() -> None:
    listed = {
        (kustomization.parent / name).resolve()
        for kustomization in FOLDER.glob("*/kustomization.yaml")
        for name in yaml.safe_load(kustomization.read_text())["resources"]
    }

    assert {path.resolve() for path in MANIFESTS} <= listed
    assert all(path.exists() for path in listed)


@pytest.mark.parametrize("kind", ["Service", "PodDisruptionBudget"])
def test_selectors_find_pods(kind: str) -> None:
    pods = [pod(x)["metadata"]["labels"] for x in DEPLOYMENTS]
    selectors = [x["spec"]["selector"] for x in ALL if x["kind"] == kind]

    assert selectors
    for selector in selectors:
        wanted = selector.get("matchLabels", selector)
        assert any(wanted.items() <= labels.items() for labels in pods), wanted


@pytest.mark.parametrize("name", ["registry", "router", "gateway", "prefill", "decode"])
def test_what_is_replicated_has_a_disruption_budget(name: str) -> None:
    assert name in {named(x) for x in ALL if x["kind"] == "PodDisruptionBudget"}


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=named)
def test_containers_are_probed_bounded_and_confined(deployment: Any) -> None:
    for container in pod(deployment)["spec"]["containers"]:
        assert container["readinessProbe"]
        assert container["livenessProbe"]
        assert container["resources"]["requests"]
        assert container["resources"]["limits"]["memory"]
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        ports = {x["name"] for x in container["ports"]}
        probes = [container[x] for x in ("readinessProbe", "livenessProbe", "startupProbe") if x in container]
        assert {x[how]["port"] for x in probes for how in ("tcpSocket", "httpGet") if how in x} <= ports


@pytest.mark.parametrize("name", ["registry", "router", "gateway"])
def test_services_start_with_these_arguments(name: str) -> None:
    deployment = next(x for x in DEPLOYMENTS if named(x) == name)
    for container in pod(deployment)["spec"]["containers"]:
        parse(container["args"])


@pytest.mark.parametrize(("name", "role"), [("prefill", "kv_producer"), ("decode", "kv_consumer")])
def test_engines_load_the_connector_with_these_settings(name: str, role: str) -> None:
    deployment = next(x for x in DEPLOYMENTS if named(x) == name)
    container = pod(deployment)["spec"]["containers"][0]
    flags = container["args"]
    transfer = json.loads(flags[flags.index("--kv-transfer-config") + 1])
    environment = {x["name"]: x.get("value", "given by the cluster") for x in container["env"]}
    settings = ConnectorSettings.of(transfer["kv_connector_extra_config"], environment)

    assert transfer["kv_connector_module_path"] == "kvlease.connector.nixl"
    assert transfer["kv_role"] == role
    assert settings.bidirectional
    assert settings.registry == "registry:7440"
    assert settings.http_url == "http://$(POD_IP):8000"


def test_the_keys_of_the_example_are_refused() -> None:
    lines = (FOLDER / "example" / "keys.env").read_text().splitlines()
    keys = dict(line.split("=", 1) for line in lines if not line.startswith("#"))

    with pytest.raises(ValueError, match="ticket_key"):
        RouterSettings(ticket_key=keys["ticket-key"].encode())
    with pytest.raises(ValueError, match="KVLEASE_DIGEST_KEY"):
        ConnectorSettings.of({}, {"KVLEASE_DIGEST_KEY": keys["digest-key"]})
