"""Names of members that a decoder ignores, so that a service can report them to its callers."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final, NamedTuple

from google.protobuf.descriptor import Descriptor

from grpc_rest_gateway.jsonshape import (
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    WELL_KNOWN_TYPES,
    find_union,
    get_message_type,
    is_map,
    is_strict,
    list_members,
)
from grpc_rest_gateway.profiles import JsonProfile

# the metadata in which a service receives the names
IGNORED_KEY = "ignored-members"
_NAMES_MAX: Final = 10
_NAME_CHARS_MAX: Final = 64
# callers choose the names: what is not plain is replaced
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_.\[\]-]")


class _Shape(NamedTuple):
    """The members of a message: their names, and those that contain messages.

    A union's members depend on its value.
    """

    names: frozenset[str]
    messages: tuple[tuple[str, Descriptor], ...]
    is_strict: bool
    is_union: bool = False


def format_ignored_members(
    value: Any, descriptor: Descriptor, excluded_fields: frozenset[str]
) -> str:
    """Return the unknown members of a parsed body, separated by commas; empty without any.

    `excluded_fields` are no members, given by proto name. Of many members the first ten are named.
    """
    paths = list(islice(_list_paths(value, descriptor, excluded_fields, ""), _NAMES_MAX + 1))
    names = [_NOT_PLAIN.sub("?", path[:_NAME_CHARS_MAX]) for path in paths[:_NAMES_MAX]]
    return ", ".join([*names, "..."] if len(paths) > _NAMES_MAX else names)


def _list_paths(
    value: Any, descriptor: Descriptor, excluded_fields: frozenset[str], path: str
) -> Iterator[str]:
    if type(value) is not dict:
        return
    shape = _describe(descriptor, excluded_fields)
    if shape.is_union:
        shape = _describe_union(descriptor, value.get("type"))
    if not shape.is_strict and not value.keys() <= shape.names:
        yield from (f"{path}{name}" for name in value if name not in shape.names)
    for name, message in shape.messages:
        child = value.get(name)
        if type(child) is list:
            for index, item in enumerate(child):
                yield from _list_paths(item, message, frozenset(), f"{path}{name}[{index}].")
        elif child is not None:
            yield from _list_paths(child, message, frozenset(), f"{path}{name}.")


@functools.cache
def _describe(descriptor: Descriptor, excluded_fields: frozenset[str]) -> _Shape:
    if find_union(descriptor) is not None:
        return _Shape(frozenset(), (), is_strict=False, is_union=True)
    names: set[str] = set()
    messages: list[tuple[str, Descriptor]] = []
    # the profiles of a service have the same members
    for member in list_members(descriptor, JsonProfile.SPEC):
        if member.field.name in excluded_fields:
            continue
        if member.is_flattened:
            inner = _describe(get_message_type(member.field), frozenset())
            names |= inner.names
            messages += inner.messages
            continue
        names.add(member.name)
        if member.field.type in MESSAGE_FIELD_TYPES and not is_map(member.field):
            message = get_message_type(member.field)
            if message.full_name != TIMESTAMP_TYPE and message.full_name not in WELL_KNOWN_TYPES:
                messages.append((member.name, message))
    return _Shape(frozenset(names), tuple(messages), is_strict(descriptor))


def _describe_union(descriptor: Descriptor, kind: Any) -> _Shape:
    messages = tuple(
        ("data", get_message_type(field))
        for field in descriptor.fields
        if field.json_name == kind and field.type in MESSAGE_FIELD_TYPES
    )
    return _Shape(frozenset({"type", "data"}), messages, is_strict=False)
