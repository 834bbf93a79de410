"""Comments of protos by the full name of what they stand above.

Descriptors of generated code have none: they come from an image that protoc wrote with source
info.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2

_Path = tuple[int, ...]


class Comments(dict[str, str]):
    """The leading comment of every service, RPC, message, field, enum and value; one line each."""

    def __init__(self, image: bytes = b"") -> None:
        super().__init__()
        for file in descriptor_pb2.FileDescriptorSet.FromString(image).file:
            texts = {
                tuple(location.path): " ".join(location.leading_comments.split())
                for location in file.source_code_info.location
            }
            for path, name in _names(file):
                if text := texts.get(path):
                    self[name] = text

    def of(self, name: str) -> str:
        """The comment on a full name; empty if there is none."""
        return self.get(name, "")


def _names(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[_Path, str]]:
    prefix = file.package + "." if file.package else ""
    yield from _messages(file.message_type, (4,), prefix)
    yield from _enums(file.enum_type, (5,), prefix)
    for at, service in enumerate(file.service):
        yield (6, at), prefix + service.name
        for index, method in enumerate(service.method):
            yield (6, at, 2, index), f"{prefix}{service.name}.{method.name}"


def _messages(messages: Iterable[Any], above: _Path, prefix: str) -> Iterator[tuple[_Path, str]]:
    for at, message in enumerate(messages):
        path, name = (*above, at), prefix + message.name
        yield path, name
        for index, field in enumerate(message.field):
            yield (*path, 2, index), f"{name}.{field.name}"
        yield from _messages(message.nested_type, (*path, 3), name + ".")
        yield from _enums(message.enum_type, (*path, 4), name + ".")


def _enums(enums: Iterable[Any], above: _Path, prefix: str) -> Iterator[tuple[_Path, str]]:
    for at, enum in enumerate(enums):
        path, name = (*above, at), prefix + enum.name
        yield path, name
        for index, value in enumerate(enum.value):
            yield (*path, 2, index), f"{name}.{value.name}"
