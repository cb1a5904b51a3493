"""What is wrong in a page fails."""

import subprocess
from pathlib import Path

import pytest

from tests.docs.blocks import blocks
from tests.docs.place import Place
from tests.docs.reading import read


def page(folder: Path, text: str) -> Path:
    written = folder / "page.md"
    written.write_text(text)
    return written


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("```sh\nfalse\n```\n", id="a command that fails"),
        pytest.param("```sh\nfalse | cat\ntrue\n```\n", id="one in a pipe"),
        pytest.param("```sh\nno-such-command\n```\n", id="one that there is not"),
        pytest.param("```sh\nkvlease leases --no-such-option\n```\n", id="an option that there is not"),
        pytest.param("```sh\nkvlease up --engines cpu --no-such-option\n```\n", id="the same where it is only checked"),
        pytest.param("```sh\nmake no-such-target\n```\n", id="a target that there is not"),
        pytest.param("```sh\npip install '.[nothing]'\n```\n", id="an extra that there is not"),
        pytest.param("```sh\npython -m no.such.module\n```\n", id="a module that is not known"),
        pytest.param("```sh\nvllm serve MODEL --kv-transfer-config '{}'\n```\n", id="an engine without the connector"),
        pytest.param("```sh\nkubectl apply -k nowhere\n```\n", id="a folder that there is not"),
        pytest.param("```python\nimport no_such_module\n```\n", id="a program that fails"),
        pytest.param("```python\nawait no_such_name\n```\n", id="one that awaits"),
        pytest.param("```json\n{\n```\n", id="JSON that is none"),
        pytest.param("```ruby\nputs 1\n```\n", id="a language that nothing runs"),
        pytest.param("```\ntrue\n```\n", id="no language"),
        pytest.param("Run it:\n\n    true\n", id="an indented block"),
        pytest.param("- Run it:\n\n  ```sh\n  false\n  ```\n", id="a block in a list"),
    ],
)
def test_a_page_fails_with(text: str, tmp_path: Path) -> None:
    with pytest.raises((AssertionError, SystemExit, LookupError, ValueError, OSError, subprocess.CalledProcessError)):
        read(blocks(page(tmp_path, text)), tmp_path, Place())


def test_blocks_are_read_in_one_shell(tmp_path: Path) -> None:
    read(blocks(page(tmp_path, "```sh\nsaid=hello\n```\nThen\n```sh\ntest $said = hello\n```\n")), tmp_path, Place())
