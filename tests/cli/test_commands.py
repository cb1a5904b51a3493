import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from kvlease.cli.__main__ import COMMANDS, main
from kvlease.client.errors import Internal, PermissionDenied
from kvlease.client.sync import Client
from kvlease.client.testing import FakeRegistry, FakeRouter
from kvlease.client.types import EngineRole

Run = Callable[..., int]
Capture = pytest.CaptureFixture[str]


def test_engines_are_columns_in_a_pipe(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.add_engine("lost")
    registry.engines["lost"].healthy = False

    assert run("engines") == 0

    headings, first, second = capsys.readouterr().out.splitlines()
    assert headings.split()[:3] == ["ENGINE", "ROLE", "STATE"]
    assert first.split()[:3] == ["decode", "decode", "healthy"]
    assert second.split()[:3] == ["lost", "both", "lost"]


def test_engines_are_chosen_by_role_and_state(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.add_engine("prefill", role=EngineRole.PREFILL)
    registry.add_engine("lost", role=EngineRole.PREFILL)
    registry.engines["lost"].healthy = False

    assert run("engines", "--role", "prefill", "--state", "healthy") == 0

    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:3] == ["prefill", "prefill", "healthy"]


def test_tickets_are_chosen_by_model_state_and_miss(
    run: Run, registry: FakeRegistry, router: FakeRouter, capsys: Capture
) -> None:
    with Client(registry=registry.address, router=router.address) as client:
        done, _ = client.route("model"), client.route("model")
        client.complete(done.ticket)

    for words, count in (((), 2), (("--state", "completed"), 1), (("--missed",), 0), (("--model", "other"), 0)):
        assert run("tickets", "--json", *words) == 0
        assert len(json.loads(capsys.readouterr().out)) == count


def test_leases_are_those_of_the_conversation(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.grant("a", tokens=100)
    registry.grant("b")

    assert run("leases", "a") == 0

    _, line = capsys.readouterr().out.splitlines()
    assert line.split()[:7] == ["a", "1", "decode", "live", "engine", "100", "7"]


def test_json_is_the_whole_value(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    lease_id = registry.grant("a", tokens=100)

    assert run("leases", "--json", "--kind", "decode", "--engine", "engine") == 0

    (lease,) = json.loads(capsys.readouterr().out)
    assert (lease["lease_id"], lease["tokens"], lease["engine"]["engine_id"]) == (lease_id, 100, "engine")


def test_tickets_show_what_their_prompts_cost(
    run: Run, registry: FakeRegistry, router: FakeRouter, capsys: Capture
) -> None:
    with Client(registry=registry.address, router=router.address) as client:
        done = client.route("model", conversation_id="c", prompt_tokens=10)
        client.complete(done.ticket)
        client.route("model", conversation_id="c")

    assert run("tickets", "--conversation", "c") == 0
    _, newest, oldest = capsys.readouterr().out.splitlines()
    assert "routed" in newest
    assert oldest.split()[:2][0] == done.ticket_id
    assert "completed" in oldest

    assert run("tickets", done.ticket_id, "--json") == 0
    (ticket,) = json.loads(capsys.readouterr().out)
    assert ticket["report"]["computed_tokens"] == 10


@pytest.mark.parametrize(("granted", "said"), [(True, "1 lease "), (False, "0 leases ")])
def test_end_says_what_was_let_go(
    run: Run, registry: FakeRegistry, capsys: Capture, *, granted: bool, said: str
) -> None:
    if granted:
        registry.grant("a")

    assert run("end", "a") == 0

    assert said in capsys.readouterr().out


def test_a_terminal_is_shown_a_table(
    run: Run, registry: FakeRegistry, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry.grant("[bold]a")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")

    assert run("leases") == 0

    out = capsys.readouterr().out
    assert "CONVERSATION" in out
    assert "[bold]a" in out


def test_a_name_cannot_move_the_cursor(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.grant("a\x1b[2J\nb")

    assert run("leases") == 0

    assert "a\\x1b[2J\\nb" in capsys.readouterr().out


def test_commands_speak_for_their_tenant(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.grant("a", tenant="other")

    assert run("leases", "--json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert run("leases", "--json", "--tenant", "other") == 0
    assert len(json.loads(capsys.readouterr().out)) == 1


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("engines", "--registry", "127.0.0.1:1", "--timeout", "100ms"), "--registry HOST:PORT"),
        (("tickets", "--router", "127.0.0.1:1", "--timeout", "100ms"), "--router HOST:PORT"),
    ],
)
def test_where_nobody_answers_the_message_says_what_to_do(
    run: Run, words: tuple[str, ...], advice: str, capsys: Capture
) -> None:
    assert run(*words) == 1

    said = capsys.readouterr()
    assert "127.0.0.1:1" in said.err
    assert advice in said.err
    assert not said.out


def test_a_registry_that_does_not_answer_in_time_fails(run: Run, registry: FakeRegistry, capsys: Capture) -> None:
    registry.freeze()

    assert run("engines", "--timeout", "50ms") == 1

    assert "--timeout" in capsys.readouterr().err


def test_a_router_is_no_registry(run: Run, router: FakeRouter, capsys: Capture) -> None:
    assert run("engines", "--registry", router.address) == 1

    assert "no registry" in capsys.readouterr().err


@pytest.mark.parametrize("refusal", [PermissionDenied("not yours"), Internal("broken")])
def test_a_refusal_is_told(run: Run, registry: FakeRegistry, refusal: Exception, capsys: Capture) -> None:
    registry.fail_next(refusal)  # type: ignore[arg-type]

    assert run("end", "a") == 1

    assert str(refusal) in capsys.readouterr().err


def test_a_malformed_request_names_its_field(run: Run, capsys: Capture) -> None:
    assert run("end", "x" * 5000) == 1

    assert capsys.readouterr().err.count("conversation_id") == 1


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("leases", "--kind", "other"),
        ("end",),
        ("release", ""),
        ("tickets", "--missed", "foo"),
        ("tickets", "--limit", "-3"),
        ("explain", "c", "--limit", "0"),
    ],
)
def test_wrong_usage_is_2(words: tuple[str, ...], capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main(words)

    assert left.value.code == 2
    assert "usage" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["engines", "leases", "tickets", "end", "watch"])
def test_help_gives_examples(command: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as left:
        main((command, "--help"))

    assert left.value.code == 0
    assert f"  kvlease {command}" in capsys.readouterr().out


def test_every_command_is_one_module() -> None:
    names = [command.__name__ for command in COMMANDS]  # type: ignore[attr-defined]

    assert len(set(names)) == len(names)


def test_a_reader_that_leaves_early_is_no_failure(registry: FakeRegistry) -> None:
    for number in range(3000):
        registry.grant(str(number))

    command = [sys.executable, "-m", "kvlease.cli", "leases", "--registry", registry.address]
    listing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert listing.stdout is not None
    listing.stdout.readline()
    listing.stdout.close()

    assert listing.wait(timeout=30) == 0
    assert listing.stderr is not None
    assert listing.stderr.read() == b""
    listing.stderr.close()


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_a_shell_is_told_every_command(shell: str, capsys: Capture) -> None:
    assert main(("completion", shell)) == 0

    script = capsys.readouterr().out
    assert all(command.__name__.rpartition(".")[2].replace("_", "-") in script for command in COMMANDS)  # type: ignore[attr-defined]


def test_bash_takes_its_completion(tmp_path: Path, capsys: Capture) -> None:
    main(("completion", "bash"))
    script = tmp_path / "completion.sh"
    script.write_text(capsys.readouterr().out)

    ask = "source $0; COMP_WORDS=(kvlease lea); COMP_CWORD=1; _shtab_kvlease; echo ${COMPREPLY[@]}"
    done = subprocess.run(["bash", "-c", ask, str(script)], capture_output=True, text=True, timeout=30, check=True)

    assert done.stdout.split() == ["leases"]


def test_freed_leases_which_no_registry_lists_cannot_be_asked_for(run: Run, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as exit_:
        run("leases", "--state", "freed")

    assert exit_.value.code == 2
    assert "live" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("leases", "--bogus"), "usage: kvlease leases"),
        (("engines", "drain", "e", "--bogus"), "usage: kvlease engines drain"),
        (("--json", "engines"), "--json; options come after the command"),
        (("explain", ""), "a name is needed"),
        (("end", ""), "a name is needed"),
        (("leases", "--cert", __file__), "usage: kvlease leases"),
        (("leases", "--ca", "/nowhere.pem"), "/nowhere.pem"),
        (("top", "--api-key-file", "/nowhere"), "the API key cannot be read"),
    ],
)
def test_wrong_usage_is_told_with_the_commands_own_usage(
    words: tuple[str, ...], said: str, run: Run, capsys: Capture
) -> None:
    with pytest.raises(SystemExit) as left:
        run(*words)

    assert left.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("tickets", "nope"), 1, "no such ticket, or its router has forgotten it: nope; see `kvlease tickets`"),
        (("engines", "drain", "nope"), 1, "no such engine: nope; see `kvlease engines`"),
        (("end", "nope"), 0, "nothing was kept for nope (is the name right?)"),
    ],
)
def test_a_name_that_nobody_knows_is_told(
    words: tuple[str, ...], code: int, said: str, run: Run, capsys: Capture
) -> None:
    assert run(*words) == code

    told = capsys.readouterr()
    assert said in told.out + told.err


def test_a_word_that_is_none_of_those_there_are_is_told_with_them(capsys: Capture) -> None:
    with pytest.raises(SystemExit):
        main(("leases", "--state", "foo"))

    assert "--state: must be one of live" in capsys.readouterr().err
