"""Canonical proto3 JSON, read as strictly as its rules ask.

protobuf's own parser takes the value in. It passes over what is to be refused here: a text or a
list in place of a message, enum names that do not exist, base64 with foreign characters, numbers
in texts as Python writes them. Its messages would list the schema, so that they are not told.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.timestamp_pb2 import Timestamp

from florin_gateway.errors import Issue
from florin_gateway.jsonshape import (
    FLOATS,
    INTEGERS,
    MESSAGES,
    TIMESTAMP,
    WRAPPERS,
    bytes_of,
    enum_of,
    is_map,
    is_strict,
    key_of,
    message_of,
    read_timestamp,
)

_F = FieldDescriptor
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?s", re.ASCII)
# how numbers are written that JSON has no form for
NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
# any JSON is good for some of them; protobuf's parser knows the others' forms
_OF_OTHER_FORM = frozenset(
    f"google.protobuf.{name}" for name in ("Any", "FieldMask", "ListValue", "Struct", "Value")
)
_DURATIONS = "google.protobuf.Duration"
_NULL = "google.protobuf.NullValue"


def show(message: Any) -> Any:
    """A message as JSON values."""
    return json_format.MessageToDict(message)


def show_member(descriptor: Descriptor, name: str) -> Callable[[Any], Any]:
    """What shows one member of a message alone; a zero is shown, what is unset is null."""
    empty = GetMessageClass(descriptor)()
    zero = json_format.MessageToDict(empty, always_print_fields_with_no_presence=True).get(name)
    return lambda message: show(message).get(name, zero)


def fill(value: Any, message: Any, *, ignore_unknown: bool) -> list[Issue]:
    """Takes JSON values into a message; tells what is wrong with them."""
    checker = _Checker(ignore_unknown=ignore_unknown)
    if issues := list(checker.message(value, message.DESCRIPTOR, "")):
        return issues
    try:
        json_format.ParseDict(value, message, ignore_unknown_fields=ignore_unknown)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        return [Issue("", "does not fit the schema")]
    return []


class _Checker:
    def __init__(self, *, ignore_unknown: bool) -> None:
        self._ignore_unknown = ignore_unknown

    def message(self, value: Any, descriptor: Descriptor, path: str) -> Iterator[Issue]:
        if type(value) is not dict:
            yield Issue(path, "must be an object")
            return
        known = _members(descriptor)
        given: set[int] = set()
        for name, child in value.items():
            where = f"{path}.{name}" if path else name
            field = known.get(name)
            if field is not None and field.number in given:
                yield Issue(where, "is given under both of its names")
            elif field is not None:
                given.add(field.number)
                yield from self._field(child, field, where)
            elif not self._ignore_unknown or is_strict(descriptor):
                yield Issue(where, "is unknown")

    def _field(self, value: Any, field: FieldDescriptor, path: str) -> Iterator[Issue]:
        if value is None:
            return
        if is_map(field):
            yield from self._map(value, message_of(field), path)
        elif field.is_repeated:
            if type(value) is not list:
                yield Issue(path, "must be an array")
                return
            for index, item in enumerate(value):
                yield from self._one(item, field, f"{path}[{index}]")
        else:
            yield from self._one(value, field, path)

    def _map(self, value: Any, entry: Descriptor, path: str) -> Iterator[Issue]:
        if type(value) is not dict:
            yield Issue(path, "must be an object")
            return
        keys, values = entry.fields_by_name["key"], entry.fields_by_name["value"]
        for name, child in value.items():
            if key_of(name, keys.type) is None:
                yield Issue(f"{path}.{name}", "is not a valid key")
            yield from self._one(child, values, f"{path}.{name}")

    def _one(self, value: Any, field: FieldDescriptor, path: str) -> Iterator[Issue]:
        """One value of a field, which is null where null is one."""
        if field.type in MESSAGES:
            yield from self._inner(value, message_of(field), path)
        elif (why := _fault(value, field)) is not None:
            yield Issue(path, why)

    def _inner(self, value: Any, descriptor: Descriptor, path: str) -> Iterator[Issue]:
        name = descriptor.full_name
        if name in _OF_OTHER_FORM:
            return
        if name in WRAPPERS:
            yield from self._one(value, descriptor.fields_by_name["value"], path)
        elif name == TIMESTAMP:
            if type(value) is not str or not read_timestamp(value, Timestamp()):
                yield Issue(path, "must be an RFC 3339 time")
        elif name == _DURATIONS:
            if type(value) is not str or not _DURATION.fullmatch(value):
                yield Issue(path, "must be seconds, as in 1.5s")
        else:
            yield from self.message(value, descriptor, path)


@functools.cache
def _members(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    """The fields by their names, of which each has two."""
    by_json_name = {field.json_name: field for field in descriptor.fields}
    return {**descriptor.fields_by_name, **by_json_name}


def _fault(value: Any, field: FieldDescriptor) -> str | None:
    """Why a value is none of a scalar field."""
    if field.type in INTEGERS:
        return _integer_fault(value, *INTEGERS[field.type])
    if field.type in FLOATS:
        return _float_fault(value, FLOATS[field.type])
    if field.type == _F.TYPE_ENUM:
        return _enum_fault(value, field)
    if field.type == _F.TYPE_BOOL:
        return None if type(value) is bool else "must be a boolean"
    if type(value) is not str:
        return "must be a string"
    if field.type == _F.TYPE_BYTES and bytes_of(value) is None:
        return "is not base64"
    return None


def _integer_fault(value: Any, low: int, high: int) -> str | None:
    if type(value) is str and _INTEGER.fullmatch(value):
        value = int(value)
    elif type(value) is float:
        # an integer beyond 64 bits comes as the float next to it, which may lie within
        if not value.is_integer() or abs(value) >= max(high, 2**53):
            return "must be an integer" if not value.is_integer() else "is out of range"
    elif type(value) is not int:
        return "must be an integer"
    return None if low <= value <= high else "is out of range"


def _float_fault(value: Any, bound: float) -> str | None:
    if type(value) is str:
        if value in NOT_FINITE:
            return None
        if not _NUMBER.fullmatch(value):
            return "must be a number"
        value = float(value)
    elif type(value) not in {int, float}:
        return "must be a number"
    return None if math.isfinite(value) and -bound <= value <= bound else "is out of range"


def _enum_fault(value: Any, field: FieldDescriptor) -> str | None:
    enum = enum_of(field)
    if value is None and enum.full_name == _NULL:
        return None
    if type(value) is int:
        # enums are open: a number that only others know is kept
        low, high = INTEGERS[_F.TYPE_INT32]
        return None if low <= value <= high else "is out of range"
    if type(value) is not str:
        return "must be a string or an integer"
    return None if value in enum.values_by_name else "is not a known value"
