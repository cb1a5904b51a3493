"""Models that are served."""

import json
from pathlib import Path

import pytest

from benchmarks.multiturn.models import NoModel, find
from benchmarks.multiturn.shapes import SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_is_a_folder_made_on_the_spot(name: str, tmp_path: Path) -> None:
    model = find(name, cache=tmp_path)

    assert json.loads((model.folder / "config.json").read_text()) == SHAPES[name]
    assert model.load_format == "drawn"


def test_every_token_of_a_shape_shows_as_text(tmp_path: Path) -> None:
    vocabulary = json.loads((find("qwen3-8b", cache=tmp_path).folder / "tokenizer.json").read_text())["model"]["vocab"]

    assert sorted(vocabulary.values()) == list(range(151_936))


def test_a_folder_is_served_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"vocab_size": 1000}')

    model = find(str(tmp_path), cache=tmp_path)

    assert (model.load_format, model.first_token, model.last_token) == ("auto", 20, 980)


def test_what_is_no_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NoModel, match="qwen3-32b"):
        find("nothing", cache=tmp_path)
