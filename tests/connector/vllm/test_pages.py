"""vLLM's own parser takes the command lines of the pages, and loads our connector by them."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import pytest
from vllm.entrypoints.cli.serve import cmd_init
from vllm.platforms import current_platform
from vllm.utils.argparse_utils import FlexibleArgumentParser

from tests.docs.blocks import Block, blocks
from tests.docs.checked import ROOT
from tests.docs.place import Place
from tests.docs.reading import read

pytestmark = pytest.mark.skipif(
    current_platform.device_type != "cpu", reason="this vLLM was built for a device that is not here"
)
STARTS = [block for page in ("README.md", "docs/deploy.md") for block in blocks(ROOT / page) if "vllm" in block.text]


@pytest.mark.parametrize("block", STARTS, ids=lambda block: block.page.name)
def test_engines_start_with_these_arguments(block: Block, tmp_path: Path) -> None:
    (command,) = [x for x in read([block], tmp_path, Place()) if x.words[0] == "vllm"]
    given = parsed(command.words[1:])

    assert given.model_tag == "MODEL"
    assert given.kv_transfer_config.kv_connector_module_path == "kvlease.connector.nixl"


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """What `vllm serve ...` makes of it."""
    parser = FlexibleArgumentParser()
    commands = parser.add_subparsers(dest="subparser")
    (serve,) = cmd_init()
    serve.subparser_init(commands)
    given: argparse.Namespace = parser.parse_args(words)
    serve.validate(given)
    return given
