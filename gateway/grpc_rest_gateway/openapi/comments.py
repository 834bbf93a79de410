"""Comments of protos, by the full name of their element.

Descriptors of generated code have no comments: these come from an image that protoc wrote with
source info.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from google.protobuf import descriptor_pb2

_LocationPath = tuple[int, ...]


class ProtoComments(dict[str, str]):
    """Leading comments of all services, RPCs, messages, fields, enums and values; one line each."""

    def __init__(self, image: bytes = b"") -> None:
        super().__init__()
        for file in descriptor_pb2.FileDescriptorSet.FromString(image).file:
            texts = {
                tuple(location.path): " ".join(location.leading_comments.split())
                for location in file.source_code_info.location
            }
            for path, name in _list_names(file):
                if text := texts.get(path):
                    self[name] = text

    def get_comment(self, name: str) -> str:
        """Return the comment on a full name; empty without a comment."""
        return self.get(name, "")


def _list_names(file: descriptor_pb2.FileDescriptorProto) -> Iterator[tuple[_LocationPath, str]]:
    prefix = file.package + "." if file.package else ""
    yield from _list_messages(file.message_type, (4,), prefix)
    yield from _list_enums(file.enum_type, (5,), prefix)
    for at, service in enumerate(file.service):
        yield (6, at), prefix + service.name
        for index, method in enumerate(service.method):
            yield (6, at, 2, index), f"{prefix}{service.name}.{method.name}"


def _list_messages(
    messages: Iterable[Any], parent_path: _LocationPath, prefix: str
) -> Iterator[tuple[_LocationPath, str]]:
    for at, message in enumerate(messages):
        path, name = (*parent_path, at), prefix + message.name
        yield path, name
        for index, field in enumerate(message.field):
            yield (*path, 2, index), f"{name}.{field.name}"
        yield from _list_messages(message.nested_type, (*path, 3), name + ".")
        yield from _list_enums(message.enum_type, (*path, 4), name + ".")


def _list_enums(
    enums: Iterable[Any], parent_path: _LocationPath, prefix: str
) -> Iterator[tuple[_LocationPath, str]]:
    for at, enum in enumerate(enums):
        path, name = (*parent_path, at), prefix + enum.name
        yield path, name
        for index, value in enumerate(enum.value):
            yield (*path, 2, index), f"{name}.{value.name}"
