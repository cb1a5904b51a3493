"""The tiny model."""

import json
from pathlib import Path

import pytest

from kvlease.local import model, tokenizer

pytest.importorskip("safetensors", reason="comes with the engines")


def test_it_is_made_once_and_always_the_same(tmp_path: Path) -> None:
    made, again = model.ensure(tmp_path / "one"), model.ensure(tmp_path / "other")

    assert {file.name: file.read_bytes() for file in made.iterdir()} == {
        file.name: file.read_bytes() for file in again.iterdir()
    }
    (made / "config.json").unlink()
    assert model.ensure(tmp_path / "one") == made
    assert not (made / "config.json").exists()


def test_its_parameters_are_those_that_its_configuration_asks_for(tmp_path: Path) -> None:
    from safetensors import safe_open  # noqa: PLC0415

    folder = model.ensure(tmp_path)
    config = json.loads((folder / "config.json").read_text())
    with safe_open(folder / "model.safetensors", framework="numpy") as weights:
        shapes = {name: tuple(weights.get_slice(name).get_shape()) for name in weights.keys()}  # noqa: SIM118

    assert len(shapes) == 3 + 11 * config["num_hidden_layers"]
    assert shapes["lm_head.weight"] == (config["vocab_size"], config["hidden_size"])
    assert shapes["model.layers.0.self_attn.k_proj.weight"] == (
        config["num_key_value_heads"] * config["head_dim"],
        config["hidden_size"],
    )


@pytest.mark.parametrize("text", ["Hello, it is 7 o'clock.", "naïve 漢字 🙂\n\ttab", "  spaces  stay  "])
def test_a_token_is_a_byte(text: str, tmp_path: Path) -> None:
    tokenizers = pytest.importorskip("tokenizers")
    loaded = tokenizers.Tokenizer.from_file(str(model.ensure(tmp_path) / "tokenizer.json"))

    ids = loaded.encode(text).ids

    assert ids == list(text.encode())
    assert loaded.decode(ids) == text


def test_an_answer_stands_in_the_next_prompt_as_it_was_computed(tmp_path: Path) -> None:
    del tmp_path
    template = pytest.importorskip("jinja2").Template(tokenizer.CHAT_TEMPLATE)
    asked = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    answered = [*asked, {"role": "assistant", "content": " I. "}, {"role": "user", "content": "Why?"}]

    first = template.render(messages=asked, add_generation_prompt=True)
    second = template.render(messages=answered, add_generation_prompt=True)

    assert second.startswith(first + " I. <|im_end|>\n")
