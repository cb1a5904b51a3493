"""Messages as nobody would send them: any field may be there, and hold what its type allows."""

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, TypeAlias

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

Hints: TypeAlias = Mapping[str, "st.SearchStrategy[Any]"]
"""Values for fields of these names, tried as often as any."""

_DEPTH = 4
_TEXTS = st.sampled_from(["", "a", "m", "c", "\0", "x" * 129, "x" * 257, "é" * 200, "kvt1.", "\U0001f600"]) | st.text(
    max_size=20
)
_BYTES = st.sampled_from([b"", b"\0" * 8, b"x" * 7, b"x" * 4096]) | st.binary(max_size=64)
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: st.sampled_from([0, 1, -1, 60, 2**31 - 1, -(2**31)]),
    FieldDescriptor.CPPTYPE_INT64: st.sampled_from([0, 1, -1, 61, 2**63 - 1, -(2**63)]),
    FieldDescriptor.CPPTYPE_UINT32: st.sampled_from([0, 1, 16, 128, 2**32 - 1]),
    FieldDescriptor.CPPTYPE_UINT64: st.sampled_from([0, 1, 128, 2**64 - 1]),
}
_OTHERS: "Mapping[int, st.SearchStrategy[Any]]" = {
    **_INTEGERS,
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: st.integers(-1, 9) | st.just(2**31 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(width=32),
}
# Lengths of time that no server waits for: far too long, negative, malformed, or next to nothing.
_SPANS = {
    "seconds": st.sampled_from([0, 0, -1, 61, 2**62, -(2**62)]),
    "nanos": st.sampled_from([0, 1, 10**6, -5, 2**31 - 1]),
}


def messages(kind: type[Message], hints: Hints = MappingProxyType({})) -> "st.SearchStrategy[Message]":
    """Returns a strategy of messages of this kind."""
    return _fields(kind.DESCRIPTOR, _DEPTH, tuple(sorted(hints.items(), key=lambda hint: hint[0]))).map(
        lambda fields: kind(**fields)
    )


@cache
def _fields(
    kind: Descriptor, depth: int, hints: "tuple[tuple[str, st.SearchStrategy[Any]], ...]"
) -> "st.SearchStrategy[dict[str, Any]]":
    if kind.full_name == "google.protobuf.Duration":
        return st.fixed_dictionaries(_SPANS)
    known = dict(hints)
    chosen: dict[str, st.SearchStrategy[Any]] = {}
    for field in kind.fields:
        if field.message_type is not None and depth == 0:
            continue
        one = known[field.name] if field.name in known else _value(field, depth, hints)
        chosen[field.name] = st.lists(one, max_size=3) if field.is_repeated else one
    alternatives = [[field.name for field in group.fields] for group in kind.oneofs]
    return st.fixed_dictionaries({}, optional=chosen).map(lambda given: _one_of_each(given, alternatives))


def _value(
    field: FieldDescriptor, depth: int, hints: "tuple[tuple[str, st.SearchStrategy[Any]], ...]"
) -> "st.SearchStrategy[Any]":
    if field.message_type is not None:
        made = GetMessageClass(field.message_type)
        return _fields(field.message_type, depth - 1, hints).map(lambda given: made(**given))
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _BYTES
    if field.type == FieldDescriptor.TYPE_STRING:
        return _TEXTS
    return _OTHERS[field.cpp_type]


def _one_of_each(given: dict[str, Any], alternatives: list[list[str]]) -> dict[str, Any]:
    for names in alternatives:
        for name in [name for name in names if name in given][1:]:
            del given[name]
    return given
