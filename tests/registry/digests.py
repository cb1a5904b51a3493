"""Chains of texts, one character a token: what connectors compute over token ids."""

from hashlib import blake2b

from kvlease.registry.chain import DIGEST, Chain, Prompt

STRIDE = 4
KEY_ID = "k1"


def digests(text: str, stride: int = STRIDE) -> bytes:
    """The digests of a text, the last one for what is left over."""
    made, before = b"", b""
    for i in range(0, len(text), stride):
        before = blake2b(before + text[i : i + stride].encode(), digest_size=DIGEST, key=b"test").digest()
        made += before
    return made


def chain(text: str, *, stride: int = STRIDE, key_id: str = KEY_ID) -> Chain:
    """The chain of a handle that holds this text's KV."""
    return Chain(key_id, stride, len(text), digests(text, stride))


def prompt(text: str, *, stride: int = STRIDE, key_id: str = KEY_ID) -> Prompt:
    """A prompt's digests at every whole stride."""
    whole = len(text) // stride
    return Prompt(key_id, stride, tuple(range(1, whole + 1)), digests(text, stride)[: whole * DIGEST])
