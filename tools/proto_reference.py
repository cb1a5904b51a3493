"""A hook of MkDocs: the page of the gRPC API, made from the comments in the .proto files."""

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
    ServiceDescriptorProto,
)
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGE = "reference/api.md"
_ROOT = Path(__file__).resolve().parent.parent
_ORDER = ("registry", "router", "lease", "nixl", "errors")
_MESSAGE, _ENUM, _SERVICE = 4, 5, 6  # field numbers in FileDescriptorProto, which paths of comments are made of
_MEMBER = 2  # likewise of fields, values and methods in theirs


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the page."""
    files.append(File.generated(config, PAGE, content="\n".join(_page(_descriptors()))))
    return files


def _descriptors() -> list[FileDescriptorProto]:
    buf = shutil.which("buf") or str(_ROOT / ".venv/bin/buf")
    image = subprocess.run([buf, "build", "-o", "-#format=binpb"], cwd=_ROOT / "proto", capture_output=True, check=True)
    ours = {
        Path(each.name).stem: each for each in FileDescriptorSet.FromString(image.stdout).file if "kvlease" in each.name
    }
    return [ours.pop(name) for name in _ORDER] + list(ours.values())


def _page(files: Sequence[FileDescriptorProto]) -> Iterator[str]:
    yield "# gRPC API\n"
    yield "Package `kvlease.v1`. [grpcurl](../grpcurl.md) shows all of this too, by reflection.\n"
    for file in files:
        comments = _Comments(file)
        for index, service in enumerate(file.service):
            yield from _service(service, comments, (_SERVICE, index))
    for file in files:
        comments = _Comments(file)
        yield f"## {Path(file.name).name}\n"
        for index, message in enumerate(file.message_type):
            yield from _message(message, comments, (_MESSAGE, index))
        for index, enum in enumerate(file.enum_type):
            yield from _enum(enum, comments, (_ENUM, index))


class _Comments:
    """What stands before each element of a file."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self._found = {tuple(each.path): each.leading_comments for each in file.source_code_info.location}

    def block(self, *path: int) -> str:
        return "\n".join(line.removeprefix(" ") for line in self._found.get(path, "").splitlines()) + "\n"

    def cell(self, *path: int) -> str:
        return " ".join(self.block(*path).split()).replace("|", "\\|")


def _service(service: ServiceDescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"## {service.name}\n\n{comments.block(*path)}"
    for index, method in enumerate(service.method):
        stream = "stream " if method.server_streaming else ""
        asked, answered = _link(method.input_type), _link(method.output_type)
        yield f"### {method.name}\n\n{asked} → {stream}{answered}\n\n{comments.block(*path, _MEMBER, index)}"


def _message(message: DescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {message.name}\n\n{comments.block(*path)}"
    if message.field:
        yield "| field | type | |\n|---|---|---|"
    for index, field in enumerate(message.field):
        yield f"| `{field.name}` | {_type(field)} | {comments.cell(*path, _MEMBER, index)} |"
    yield ""


def _enum(enum: EnumDescriptorProto, comments: _Comments, path: tuple[int, ...]) -> Iterator[str]:
    yield f"### {enum.name}\n\n{comments.block(*path)}\n| value | |\n|---|---|"
    for index, value in enumerate(enum.value):
        yield f"| `{value.name}` | {comments.cell(*path, _MEMBER, index)} |"
    yield ""


def _type(field: FieldDescriptorProto) -> str:
    kind: Any = FieldDescriptorProto.Type.Name(field.type)
    named = _link(field.type_name) if field.type_name else kind.removeprefix("TYPE_").lower()
    return f"{named}, repeated" if field.label == FieldDescriptorProto.LABEL_REPEATED else named


def _link(full: str) -> str:
    name = full.rpartition(".")[2]
    return f"[{name}](#{name.lower()})" if full.startswith(".kvlease.") else name
