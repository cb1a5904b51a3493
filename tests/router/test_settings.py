"""Settings and the command line."""

import argparse
from pathlib import Path

import pytest

from kvlease.router.__main__ import KEY_VARIABLE, _parser, settings_from
from kvlease.router.settings import Settings


def given(*arguments: str) -> argparse.Namespace:
    return _parser().parse_args(arguments)


@pytest.mark.parametrize(
    "values",
    [
        {"listen": "nowhere"},
        {"registry": "nowhere"},
        {"wait": 0.0},
        {"refresh": -1.0},
        {"stale": 0.5},
        {"lifetime": 0.0},
        {"tickets": 0},
        {"conversations": 0},
        {"grace": -1.0},
        {"ticket_key": b"short"},
    ],
    ids=str,
)
def test_settings_that_make_no_sense_are_refused(values: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=next(iter(values))):
        Settings(**values)  # type: ignore[arg-type]


def test_a_key_is_random_unless_given_and_never_shown() -> None:
    assert Settings().ticket_key != Settings().ticket_key
    assert "ticket_key" not in repr(Settings(ticket_key=b"k" * 16))


def test_the_command_line_sets_what_it_names() -> None:
    options = ["--listen", "127.0.0.1:0", "--registry", "r:1", "--wait", "100ms", "--tickets", "5"]

    settings = settings_from(given(*options, "--overload-backlog", "3"), {})

    assert (settings.listen, settings.registry, settings.wait, settings.tickets) == ("127.0.0.1:0", "r:1", 0.1, 5)
    assert settings.overload.backlog == 3


def test_the_key_comes_from_a_file_or_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text("from-the-key-file\n")
    environment = {KEY_VARIABLE: "from-the-environment"}

    assert settings_from(given(), environment).ticket_key == b"from-the-environment"
    assert settings_from(given("--ticket-key-file", str(file)), environment).ticket_key == b"from-the-key-file"


def test_an_empty_key_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")

    with pytest.raises(ValueError, match="has no key"):
        settings_from(given("--ticket-key-file", str(tmp_path / "key")), {})


def test_others_are_served_without_encryption_only_if_asked_for() -> None:
    with pytest.raises(ValueError, match="--insecure"):
        settings_from(given("--listen", "0.0.0.0:7441"), {})

    assert settings_from(given("--listen", "0.0.0.0:7441", "--insecure"), {}).listen == "0.0.0.0:7441"


def test_the_first_key_of_the_file_signs_and_the_others_prove(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    file.write_text("the-key-that-signs\n\n  the-key-of-before \n")

    settings = settings_from(given("--ticket-key-file", str(file)), {})

    assert settings.ticket_key == b"the-key-that-signs"
    assert settings.other_ticket_keys == (b"the-key-of-before",)
