"""Whether an engine can be started here."""

from pathlib import Path

import pytest

from kvlease.local import install
from kvlease.local.install import EngineUnavailable, find


@pytest.fixture
def engines(tmp_path: Path) -> Path:
    (tmp_path / "vllm-0.32.0" / "vllm").mkdir(parents=True)
    return tmp_path


def test_a_version_that_is_not_served_is_refused_with_those_that_are(engines: Path) -> None:
    with pytest.raises(EngineUnavailable, match=r"0\.30\.0 is not served .* 0\.29\.0, 0\.32\.0"):
        find("0.30.0", engines=engines)


def test_a_version_that_is_not_there_is_refused_with_what_to_do(engines: Path) -> None:
    with pytest.raises(EngineUnavailable, match="make setup"):
        find("0.29.0", engines=engines)


def test_all_that_an_engine_needs_besides_is_named_if_it_is_missing(
    engines: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(install, "_NEEDED", ("json", "no_such_package", "kvlease.no_such_part"))

    with pytest.raises(EngineUnavailable, match=r"lacks no_such_package, kvlease\.no_such_part"):
        find("0.32.0", engines=engines)


def test_engines_may_lie_elsewhere(engines: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KVLEASE_ENGINES", str(engines))
    monkeypatch.setattr(install, "_NEEDED", ())

    assert find("0.32.0").folder == engines / "vllm-0.32.0"
