"""Check requests against the bounds of their protos, for gRPC and REST alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Self

import orjson
from gateway_options.v1 import json_pb2
from google.api import annotations_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from florin_server.domain.errors import (
    ApiError,
    ErrorCode,
    FieldIssue,
    validation_error_for,
)
from florin_server.domain.text import find_unsafe, has_unsafe

_Check = Callable[[Any, str], Iterator[FieldIssue]]
_ValueCheck = Callable[[Any], str | None]
# unknown fields named in one error
_UNKNOWN_MAX = 20
_CONTROL_MESSAGE = "has control characters"
_PATH_VARIABLE = re.compile(r"\{(\w+)")
# the expected form of a value, for patterns that callers often miss
_PATTERN_MESSAGES = {
    "0|[1-9][0-9]{0,77}": 'must be a whole number of minor units as a string: "1250" for 12.50 USD'
}


class RequestValidator:
    """All checks of one message type, compiled once.

    `parameters` are the fields that REST reads from path and query, not from the body.
    """

    def __init__(self, descriptor: Descriptor, parameters: frozenset[str] = frozenset()) -> None:
        fields = list(descriptor.fields)
        self._body = list(_build_field_checks([f for f in fields if f.name not in parameters]))
        if _is_strict(descriptor):
            self._body.insert(0, _check_unknown_fields)
        self._parameters = list(_build_field_checks([f for f in fields if f.name in parameters]))

    @classmethod
    def for_method(cls, method: MethodDescriptor) -> Self:
        """Return the checks of an RPC's request."""
        return cls(method.input_type, _find_parameters(method))

    def __call__(self, message: Message) -> None:
        """Raise ApiError(params_validation) with all faults of the body.

        Raise ApiError(invalid_params) with those of the parameters if the body has none.
        """
        if issues := tuple(issue for check in self._body for issue in check(message, "")):
            raise validation_error_for(issues)
        if issues := tuple(issue for check in self._parameters for issue in check(message, "")):
            first = issues[0]
            text = f"{first.field} {first.message}"
            raise ApiError(ErrorCode.INVALID_PARAMS, text, issues=issues)


def _find_parameters(method: MethodDescriptor) -> frozenset[str]:
    """Return the fields that REST reads outside the body; none if the RPC is gRPC-only."""
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return frozenset()
    rule = options.Extensions[annotations_pb2.http]
    if not rule.body:
        return frozenset(field.name for field in method.input_type.fields)
    path: str = getattr(rule, rule.WhichOneof("pattern"))
    return frozenset(_PATH_VARIABLE.findall(path))


def _build_message_checks(descriptor: Descriptor) -> Iterator[_Check]:
    if _is_strict(descriptor):
        yield _check_unknown_fields
    yield from _build_field_checks(list(descriptor.fields))


def _is_strict(descriptor: Descriptor) -> bool:
    return bool(descriptor.GetOptions().Extensions[json_pb2.message].strict)


def _check_unknown_fields(message: Message, path: str) -> Iterator[FieldIssue]:
    """Refuse fields of newer versions, which this server would ignore."""
    unknown = UnknownFieldSet(message)
    for index in range(min(len(unknown), _UNKNOWN_MAX)):
        yield FieldIssue(f"{path}{unknown[index].field_number}", "is an unknown field")


def _build_field_checks(fields: list[FieldDescriptor]) -> Iterator[_Check]:
    for field in fields:
        rule = field.GetOptions().Extensions[json_pb2.field]
        if field.is_repeated:
            yield from _build_list_checks(field, rule)
        elif field.message_type is not None:
            yield _make_nested_check(field, field.message_type, rule)
        elif (value_checks := list(_build_value_checks(field, rule))) or rule.required:
            yield _make_scalar_check(field, rule, value_checks)


def _build_list_checks(field: FieldDescriptor, rule: json_pb2.FieldRule) -> Iterator[_Check]:
    name, key, least, most = field.name, field.json_name, rule.min_items, rule.max_items
    if least or most:

        def size(message: Any, path: str) -> Iterator[FieldIssue]:
            count = len(getattr(message, name))
            if count < least:
                yield FieldIssue(path + key, f"must have at least {_format_item_count(least)}")
            elif most and count > most:
                yield FieldIssue(path + key, f"must have at most {_format_item_count(most)}")

        yield size
    if field.message_type is None:
        if values := list(_build_value_checks(field, rule)):
            yield _make_items_check(field, values)
    elif field.message_type.GetOptions().map_entry:
        yield _make_map_check(field, field.message_type, rule)
    else:
        checks = list(_build_message_checks(field.message_type))

        def items(message: Any, path: str) -> Iterator[FieldIssue]:
            values = getattr(message, name)
            # of a list that is too long, only its size is reported
            for index, item in enumerate(() if most and len(values) > most else values):
                for check in checks:
                    yield from check(item, f"{path}{key}[{index}].")

        yield items


def _make_map_check(field: FieldDescriptor, entry: Descriptor, rule: json_pb2.FieldRule) -> _Check:
    """Check a map: `no_control` is for keys too, the other bounds of texts are for its values."""
    keys = entry.fields_by_name["key"]
    key_rule = json_pb2.FieldRule(
        min_chars=1, max_chars=rule.max_key_chars, no_control=rule.no_control
    )
    key_checks = list(_build_value_checks(keys, key_rule))
    value_checks = list(_build_value_checks(entry.fields_by_name["value"], rule))
    name, path_name, most = field.name, field.json_name, rule.max_items

    def check_entries(message: Any, path: str) -> Iterator[FieldIssue]:
        values = getattr(message, name)
        for key in sorted(() if most and len(values) > most else values):
            # a key that is refused is not part of a path
            if (fault := _find_fault(key_checks, key)) is not None:
                yield FieldIssue(path + path_name, f"a key {fault}")
            elif (fault := _find_fault(value_checks, values[key])) is not None:
                yield FieldIssue(f"{path}{path_name}.{key}", fault)

    return check_entries


def _format_item_count(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _make_items_check(field: FieldDescriptor, checks: list[_ValueCheck]) -> _Check:
    name, key = field.name, field.json_name

    def each(message: Any, path: str) -> Iterator[FieldIssue]:
        for index, value in enumerate(getattr(message, name)):
            if (fault := _find_fault(checks, value)) is not None:
                yield FieldIssue(f"{path}{key}[{index}]", fault)

    return each


def _make_nested_check(
    field: FieldDescriptor, descriptor: Descriptor, rule: json_pb2.FieldRule
) -> _Check:
    name, key, required = field.name, field.json_name, rule.required
    checks = list(_build_message_checks(descriptor))

    def nested(message: Any, path: str) -> Iterator[FieldIssue]:
        if message.HasField(name):
            for check in checks:
                yield from check(getattr(message, name), f"{path}{key}.")
        elif required:
            yield FieldIssue(path + key, "is required")

    return nested


def _make_scalar_check(
    field: FieldDescriptor, rule: json_pb2.FieldRule, checks: list[_ValueCheck]
) -> _Check:
    name, key, required, presence = field.name, field.json_name, rule.required, field.has_presence
    # 0 and false are values if their presence is known; empty text counts as missing
    filled = required and field.cpp_type == FieldDescriptor.CPPTYPE_STRING

    def scalar(message: Any, path: str) -> Iterator[FieldIssue]:
        value = getattr(message, name)
        if not value and (filled or not presence or not message.HasField(name)):
            if required:
                yield FieldIssue(path + key, "is required")
        elif (fault := _find_fault(checks, value)) is not None:
            yield FieldIssue(path + key, fault)

    return scalar


def _find_fault(checks: list[_ValueCheck], value: Any) -> str | None:
    for check in checks:
        if (fault := check(value)) is not None:
            return fault
    return None


def _check_json(text: str) -> str | None:
    """Check JSON text: gRPC callers forget the quotes of a string; over REST the gateway wrote it.

    Control characters inside JSON escapes are refused as well: the decoded text is stored and
    shown.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return r'must be JSON text, in which a string has its quotes: "\"0x12ab\""'
    if (place := find_unsafe(value)) is None:
        return None
    return f"has control characters in {place}" if place else _CONTROL_MESSAGE


def _build_value_checks(field: FieldDescriptor, rule: json_pb2.FieldRule) -> Iterator[_ValueCheck]:
    if low := rule.min_chars:
        yield lambda text: f"must have at least {low} characters" if len(text) < low else None
    if high := rule.max_chars:
        yield lambda text: f"must have at most {high} characters" if len(text) > high else None
    if rule.pattern:
        pattern = re.compile(rule.pattern)
        wrong = _PATTERN_MESSAGES.get(
            rule.pattern, f"has the wrong form: must match {rule.pattern}"
        )
        yield lambda text: None if pattern.fullmatch(text) else wrong
    if rule.json_text == json_pb2.JSON_TEXT_VALUE:
        yield _check_json
    if rule.no_control:
        yield lambda text: _CONTROL_MESSAGE if has_unsafe(text) else None
    elif field.type == FieldDescriptor.TYPE_STRING:
        # no valid text contains it, and PostgreSQL cannot store it
        yield lambda text: "has a NUL character" if "\0" in text else None
    if rule.HasField("minimum"):
        least = rule.minimum
        yield lambda number: f"must be at least {least}" if number < least else None
    if rule.HasField("maximum"):
        most = rule.maximum
        yield lambda number: f"must be at most {most}" if number > most else None
    if field.enum_type is not None:
        # 0 means unset: the field can be omitted, but not set to 0
        numbers = frozenset(field.enum_type.values_by_number) - {0}
        yield lambda number: None if number in numbers else "is unknown"
