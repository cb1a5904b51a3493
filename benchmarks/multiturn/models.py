"""The model that is served: a folder that is there, the tiny one, or a shape whose folder is made on the spot."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.multiturn.shapes import SHAPES
from kvlease.local import architecture, model, tokenizer

TINY = "tiny"
DRAWN = "drawn"
"""The load format of `server`: weights drawn wide, so that an answer depends on all of its prompt."""


class NoModel(ValueError):
    """There is no such model."""


@dataclass(frozen=True, slots=True)
class Model:
    """What an engine needs to know to serve it, and what a client needs to know to ask it."""

    name: str
    folder: Path
    load_format: str
    first_token: int  # prompts are made of token ids from here
    last_token: int  # to here

    @property
    def facts(self) -> dict[str, Any]:
        config: dict[str, Any] = json.loads((self.folder / "config.json").read_text())
        return {"name": self.name, "load_format": self.load_format, "config": config}


def find(wanted: str, *, cache: Path, load_format: str = "") -> Model:
    """The model of a name or a path; `load_format` as vLLM takes it, or empty for what fits.

    Raises:
        NoModel: it is no shape and no folder of a model.
    """
    if wanted == TINY:
        return _model(model.NAME, model.ensure(cache), load_format or "auto")
    if wanted in SHAPES:
        folder = cache / f"shape-{wanted}"
        _write(folder, SHAPES[wanted])
        return _model(wanted, folder, load_format or DRAWN)
    folder = Path(wanted).resolve()
    if not (folder / "config.json").is_file():
        raise NoModel(f"{wanted!r} is neither a folder of a model nor one of {', '.join([TINY, *SHAPES])}")
    return _model(folder.name, folder, load_format or "auto")


def _model(name: str, folder: Path, load_format: str) -> Model:
    """Prompts keep away from both ends of the vocabulary, where special tokens are."""
    vocabulary = json.loads((folder / "config.json").read_text())["vocab_size"]
    margin = vocabulary // 50
    return Model(name, folder, load_format, margin, vocabulary - margin)


def _write(folder: Path, config: Mapping[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("config.json", config),
        ("tokenizer.json", _tokenizer(config["vocab_size"])),
        ("tokenizer_config.json", tokenizer.settings(context=architecture.CONTEXT)),
    ):
        (folder / name).write_text(json.dumps(content), encoding="utf-8")


def _tokenizer(vocabulary: int) -> dict[str, Any]:
    """The tiny model's tokenizer, with a name for every further token: each then shows as text."""
    made = tokenizer.tokenizer()
    special = {token["content"]: token["id"] for token in made["added_tokens"]}
    further = {f"<{token}>": token for token in range(tokenizer.VOCABULARY, vocabulary)}
    made["model"]["vocab"] |= special | further
    return made
