"""The tiny model that local engines serve, as a folder: made here from a seed, once, so that nothing is fetched."""

import json
import os
import shutil
from pathlib import Path
from tempfile import mkdtemp

from kvlease.local import architecture, tokenizer

NAME = "kvlease-tiny"
_REVISION = 1  # of what is made here: with a new number it is made anew


def ensure(cache: Path) -> Path:
    """The model's folder under `cache`, made if it is not there yet (less than a second)."""
    folder = cache / f"{NAME}-{_REVISION}"
    if not folder.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        made = Path(mkdtemp(prefix=".making-", dir=cache))
        try:
            write(made)
            _publish(made, folder)
        finally:
            shutil.rmtree(made, ignore_errors=True)
    return folder


def default_cache() -> Path:
    """Where what is made once is kept: `$KVLEASE_CACHE`, or a folder in the user's cache."""
    chosen = os.environ.get("KVLEASE_CACHE")
    return Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / "kvlease"


def write(folder: Path) -> None:
    """Writes configuration, tokenizer and weights in the form that transformers and vLLM read."""
    from safetensors.numpy import save_file  # noqa: PLC0415 - comes with the engines

    for name, content in (
        ("config.json", architecture.config()),
        ("generation_config.json", {"eos_token_id": tokenizer.END, "pad_token_id": tokenizer.PAD}),
        ("tokenizer.json", tokenizer.tokenizer()),
        ("tokenizer_config.json", tokenizer.settings(context=architecture.CONTEXT)),
    ):
        (folder / name).write_text(json.dumps(content, indent=1), encoding="utf-8")
    save_file(dict(architecture.weights()), folder / "model.safetensors", metadata={"format": "pt"})


def _publish(made: Path, folder: Path) -> None:
    """Moves the whole folder at once; another process that was faster has made the same."""
    try:
        made.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise
