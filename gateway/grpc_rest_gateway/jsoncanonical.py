"""Canonical proto3 JSON, parsed as strictly as its rules require.

protobuf's own parser fills the message. It accepts input that must be refused here: text or a list
instead of a message, unknown enum names, base64 with foreign characters, numbers in Python syntax
inside texts. Its error messages would list the schema, so they are not returned.
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

from grpc_rest_gateway.errors import RequestIssue
from grpc_rest_gateway.jsonshape import (
    FLOAT_BOUNDS,
    INTEGER_BOUNDS,
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    WRAPPER_TYPES,
    decode_base64,
    get_enum_type,
    get_message_type,
    is_map,
    is_strict,
    parse_map_key,
    parse_timestamp,
)

_F = FieldDescriptor
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_DURATION = re.compile(r"-?\d{1,12}(?:\.\d{1,9})?s", re.ASCII)
# texts for numbers that JSON cannot express
NON_FINITE_TEXTS = frozenset({"NaN", "Infinity", "-Infinity"})
# some of them accept any JSON; protobuf's parser checks the others
_FREE_FORM_TYPES = frozenset(
    f"google.protobuf.{name}" for name in ("Any", "FieldMask", "ListValue", "Struct", "Value")
)
_DURATION_TYPE = "google.protobuf.Duration"
_NULL_TYPE = "google.protobuf.NullValue"


def to_json_value(message: Any) -> Any:
    """Return a message as JSON values."""
    return json_format.MessageToDict(message)


def make_member_formatter(descriptor: Descriptor, name: str) -> Callable[[Any], Any]:
    """Return a function that formats one member alone; zero is shown, unset is null."""
    empty = GetMessageClass(descriptor)()
    zero = json_format.MessageToDict(empty, always_print_fields_with_no_presence=True).get(name)
    return lambda message: to_json_value(message).get(name, zero)


def fill_message(value: Any, message: Any, *, ignore_unknown: bool) -> list[RequestIssue]:
    """Fill a message from JSON values; return the faults."""
    checker = _CanonicalJsonChecker(ignore_unknown=ignore_unknown)
    if issues := list(checker.check_message(value, message.DESCRIPTOR, "")):
        return issues
    try:
        json_format.ParseDict(value, message, ignore_unknown_fields=ignore_unknown)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        return [RequestIssue("", "does not fit the schema")]
    return []


class _CanonicalJsonChecker:
    def __init__(self, *, ignore_unknown: bool) -> None:
        self._ignore_unknown = ignore_unknown

    def check_message(
        self, value: Any, descriptor: Descriptor, path: str
    ) -> Iterator[RequestIssue]:
        if type(value) is not dict:
            yield RequestIssue(path, "must be an object")
            return
        field_descriptors = _index_fields(descriptor)
        seen_numbers: set[int] = set()
        for name, child in value.items():
            where = f"{path}.{name}" if path else name
            field = field_descriptors.get(name)
            if field is not None and field.number in seen_numbers:
                yield RequestIssue(where, "is given under both of its names")
            elif field is not None:
                seen_numbers.add(field.number)
                yield from self._check_field(child, field, where)
            elif not self._ignore_unknown or is_strict(descriptor):
                yield RequestIssue(where, "is unknown")

    def _check_field(self, value: Any, field: FieldDescriptor, path: str) -> Iterator[RequestIssue]:
        if value is None:
            return
        if is_map(field):
            yield from self._check_map(value, get_message_type(field), path)
        elif field.is_repeated:
            if type(value) is not list:
                yield RequestIssue(path, "must be an array")
                return
            for index, item in enumerate(value):
                yield from self._check_value(item, field, f"{path}[{index}]")
        else:
            yield from self._check_value(value, field, path)

    def _check_map(self, value: Any, entry: Descriptor, path: str) -> Iterator[RequestIssue]:
        if type(value) is not dict:
            yield RequestIssue(path, "must be an object")
            return
        keys, value_field = entry.fields_by_name["key"], entry.fields_by_name["value"]
        for name, child in value.items():
            if parse_map_key(name, keys.type) is None:
                yield RequestIssue(f"{path}.{name}", "is not a valid key")
            yield from self._check_value(child, value_field, f"{path}.{name}")

    def _check_value(self, value: Any, field: FieldDescriptor, path: str) -> Iterator[RequestIssue]:
        """Yield the faults of one value of a field.

        Null is valid where it is a value of the type.
        """
        if field.type in MESSAGE_FIELD_TYPES:
            yield from self._check_inner_message(value, get_message_type(field), path)
        elif (why := _find_fault(value, field)) is not None:
            yield RequestIssue(path, why)

    def _check_inner_message(
        self, value: Any, descriptor: Descriptor, path: str
    ) -> Iterator[RequestIssue]:
        name = descriptor.full_name
        if name in _FREE_FORM_TYPES:
            return
        if name in WRAPPER_TYPES:
            yield from self._check_value(value, descriptor.fields_by_name["value"], path)
        elif name == TIMESTAMP_TYPE:
            if type(value) is not str or not parse_timestamp(value, Timestamp()):
                yield RequestIssue(path, "must be an RFC 3339 time")
        elif name == _DURATION_TYPE:
            if type(value) is not str or not _DURATION.fullmatch(value):
                yield RequestIssue(path, "must be seconds, as in 1.5s")
        else:
            yield from self.check_message(value, descriptor, path)


@functools.cache
def _index_fields(descriptor: Descriptor) -> Mapping[str, FieldDescriptor]:
    """Return the fields by name; each field has two names."""
    by_json_name = {field.json_name: field for field in descriptor.fields}
    return {**descriptor.fields_by_name, **by_json_name}


def _find_fault(value: Any, field: FieldDescriptor) -> str | None:
    """Return why a value is invalid for a scalar field; None if it is valid."""
    if field.type in INTEGER_BOUNDS:
        return _find_integer_fault(value, *INTEGER_BOUNDS[field.type])
    if field.type in FLOAT_BOUNDS:
        return _find_float_fault(value, FLOAT_BOUNDS[field.type])
    if field.type == _F.TYPE_ENUM:
        return _find_enum_fault(value, field)
    if field.type == _F.TYPE_BOOL:
        return None if type(value) is bool else "must be a boolean"
    if type(value) is not str:
        return "must be a string"
    if field.type == _F.TYPE_BYTES and decode_base64(value) is None:
        return "is not base64"
    return None


def _find_integer_fault(value: Any, low: int, high: int) -> str | None:
    if type(value) is str and _INTEGER.fullmatch(value):
        value = int(value)
    elif type(value) is float:
        # an integer beyond 64 bits arrives as the nearest float, which can be in range
        if not value.is_integer() or abs(value) >= max(high, 2**53):
            return "must be an integer" if not value.is_integer() else "is out of range"
    elif type(value) is not int:
        return "must be an integer"
    return None if low <= value <= high else "is out of range"


def _find_float_fault(value: Any, bound: float) -> str | None:
    if type(value) is str:
        if value in NON_FINITE_TEXTS:
            return None
        if not _NUMBER.fullmatch(value):
            return "must be a number"
        value = float(value)
    elif type(value) not in {int, float}:
        return "must be a number"
    return None if math.isfinite(value) and -bound <= value <= bound else "is out of range"


def _find_enum_fault(value: Any, field: FieldDescriptor) -> str | None:
    enum = get_enum_type(field)
    if value is None and enum.full_name == _NULL_TYPE:
        return None
    if type(value) is int:
        # enums are open: keep a number that only other versions know
        low, high = INTEGER_BOUNDS[_F.TYPE_INT32]
        return None if low <= value <= high else "is out of range"
    if type(value) is not str:
        return "must be a string or an integer"
    return None if value in enum.values_by_name else "is not a known value"
