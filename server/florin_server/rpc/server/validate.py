"""Checks requests against the bounds that their protos declare, for gRPC and REST alike."""

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

from florin_server.domain.errors import Code, FlorinError, Issue, invalid_members
from florin_server.domain.text import find_unsafe, has_unsafe

_Check = Callable[[Any, str], Iterator[Issue]]
_ValueCheck = Callable[[Any], str | None]
# unknown fields that a refusal names
_UNKNOWN_MAX = 20
_CONTROL = "has control characters"
_VARIABLE = re.compile(r"\{(\w+)")
# what a value has to look like, for patterns that callers are known to miss
_FORMS = {
    "0|[1-9][0-9]{0,77}": 'must be a whole number of minor units as a string: "1250" for 12.50 USD'
}


class Validator:
    """All checks of one message type, compiled once.

    `parameters` are the fields that REST takes from path and query, not from the body.
    """

    def __init__(self, descriptor: Descriptor, parameters: frozenset[str] = frozenset()) -> None:
        fields = list(descriptor.fields)
        self._body = list(_field_checks([f for f in fields if f.name not in parameters]))
        if _is_strict(descriptor):
            self._body.insert(0, _check_unknown)
        self._parameters = list(_field_checks([f for f in fields if f.name in parameters]))

    @classmethod
    def of(cls, method: MethodDescriptor) -> Self:
        """The checks of an RPC's request."""
        return cls(method.input_type, _parameters_of(method))

    def __call__(self, message: Message) -> None:
        """Raises FlorinError(params_validation) with every fault of the body, if there is one.

        FlorinError(invalid_params) with those of the parameters otherwise.
        """
        if issues := tuple(issue for check in self._body for issue in check(message, "")):
            raise invalid_members(issues)
        if issues := tuple(issue for check in self._parameters for issue in check(message, "")):
            first = issues[0]
            text = f"{first.field} {first.message}"
            raise FlorinError(Code.INVALID_PARAMS, text, issues=issues)


def _parameters_of(method: MethodDescriptor) -> frozenset[str]:
    """The fields that REST takes from elsewhere than the body; none if the RPC is gRPC's only."""
    options = method.GetOptions()
    if not options.HasExtension(annotations_pb2.http):
        return frozenset()
    rule = options.Extensions[annotations_pb2.http]
    if not rule.body:
        return frozenset(field.name for field in method.input_type.fields)
    path: str = getattr(rule, rule.WhichOneof("pattern"))
    return frozenset(_VARIABLE.findall(path))


def _message_checks(descriptor: Descriptor) -> Iterator[_Check]:
    if _is_strict(descriptor):
        yield _check_unknown
    yield from _field_checks(list(descriptor.fields))


def _is_strict(descriptor: Descriptor) -> bool:
    return bool(descriptor.GetOptions().Extensions[json_pb2.message].strict)


def _check_unknown(message: Message, path: str) -> Iterator[Issue]:
    """Refuse fields that a caller of a newer version sends and that would not be heeded."""
    unknown = UnknownFieldSet(message)
    for index in range(min(len(unknown), _UNKNOWN_MAX)):
        yield Issue(f"{path}{unknown[index].field_number}", "is an unknown field")


def _field_checks(fields: list[FieldDescriptor]) -> Iterator[_Check]:
    for field in fields:
        rule = field.GetOptions().Extensions[json_pb2.field]
        if field.is_repeated:
            yield from _list_checks(field, rule)
        elif field.message_type is not None:
            yield _nested(field, field.message_type, rule)
        elif (value_checks := list(_value_checks(field, rule))) or rule.required:
            yield _scalar(field, rule, value_checks)


def _list_checks(field: FieldDescriptor, rule: json_pb2.FieldRule) -> Iterator[_Check]:
    name, key, least, most = field.name, field.json_name, rule.min_items, rule.max_items
    if least or most:

        def size(message: Any, path: str) -> Iterator[Issue]:
            count = len(getattr(message, name))
            if count < least:
                yield Issue(path + key, f"must have at least {_items(least)}")
            elif most and count > most:
                yield Issue(path + key, f"must have at most {_items(most)}")

        yield size
    if field.message_type is None:
        if values := list(_value_checks(field, rule)):
            yield _each(field, values)
    elif not field.message_type.GetOptions().map_entry:
        checks = list(_message_checks(field.message_type))

        def items(message: Any, path: str) -> Iterator[Issue]:
            for index, item in enumerate(getattr(message, name)):
                for check in checks:
                    yield from check(item, f"{path}{key}[{index}].")

        yield items


def _items(count: int) -> str:
    return "1 item" if count == 1 else f"{count} items"


def _each(field: FieldDescriptor, checks: list[_ValueCheck]) -> _Check:
    name, key = field.name, field.json_name

    def each(message: Any, path: str) -> Iterator[Issue]:
        for index, value in enumerate(getattr(message, name)):
            if (fault := _first(checks, value)) is not None:
                yield Issue(f"{path}{key}[{index}]", fault)

    return each


def _nested(field: FieldDescriptor, inner: Descriptor, rule: json_pb2.FieldRule) -> _Check:
    name, key, required = field.name, field.json_name, rule.required
    checks = list(_message_checks(inner))

    def nested(message: Any, path: str) -> Iterator[Issue]:
        if message.HasField(name):
            for check in checks:
                yield from check(getattr(message, name), f"{path}{key}.")
        elif required:
            yield Issue(path + key, "is required")

    return nested


def _scalar(field: FieldDescriptor, rule: json_pb2.FieldRule, checks: list[_ValueCheck]) -> _Check:
    name, key, required, presence = field.name, field.json_name, rule.required, field.has_presence

    def scalar(message: Any, path: str) -> Iterator[Issue]:
        value = getattr(message, name)
        if not value and (required or not presence or not message.HasField(name)):
            if required:
                yield Issue(path + key, "is required")
        elif (fault := _first(checks, value)) is not None:
            yield Issue(path + key, fault)

    return scalar


def _first(checks: list[_ValueCheck], value: Any) -> str | None:
    for check in checks:
        if (fault := check(value)) is not None:
            return fault
    return None


def _not_json(text: str) -> str | None:
    """Over REST the gateway wrote the text; over gRPC callers forget the quotes of a string.

    Characters that JSON escapes are refused as well: what is stored and shown is the text.
    """
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return r'must be JSON text, in which a string has its quotes: "\"0x12ab\""'
    if (place := find_unsafe(value)) is None:
        return None
    return f"has control characters in {place}" if place else _CONTROL


def _value_checks(field: FieldDescriptor, rule: json_pb2.FieldRule) -> Iterator[_ValueCheck]:
    if low := rule.min_chars:
        yield lambda text: f"must have at least {low} characters" if len(text) < low else None
    if high := rule.max_chars:
        yield lambda text: f"must have at most {high} characters" if len(text) > high else None
    if rule.pattern:
        pattern = re.compile(rule.pattern)
        wrong = _FORMS.get(rule.pattern, f"has the wrong form: must match {rule.pattern}")
        yield lambda text: None if pattern.fullmatch(text) else wrong
    if rule.json_text == json_pb2.JSON_TEXT_VALUE:
        yield _not_json
    if rule.no_control:
        yield lambda text: _CONTROL if has_unsafe(text) else None
    elif field.type == FieldDescriptor.TYPE_STRING:
        # no text holds it, and PostgreSQL stores none that does
        yield lambda text: "has a NUL character" if "\0" in text else None
    if rule.HasField("minimum"):
        least = rule.minimum
        yield lambda number: f"must be at least {least}" if number < least else None
    if rule.HasField("maximum"):
        most = rule.maximum
        yield lambda number: f"must be at most {most}" if number > most else None
    if field.enum_type is not None:
        # 0 stands for nothing chosen: it can be left out, but not be named
        numbers = frozenset(field.enum_type.values_by_number) - {0}
        yield lambda number: None if number in numbers else "is unknown"
