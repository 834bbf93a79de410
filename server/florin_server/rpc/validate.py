"""Checks requests against the bounds that their protos declare, for gRPC and REST alike."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from gateway_options.v1 import json_pb2
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from florin_server.domain.errors import Code, FlorinError, Issue

_Check = Callable[[Any, str], Iterator[Issue]]
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class Validator:
    """All checks of one message type, compiled once."""

    def __init__(self, descriptor: Descriptor) -> None:
        self._checks = list(_message_checks(descriptor))

    def __call__(self, message: Message) -> None:
        """Raises FlorinError(params_validation) with every fault found."""
        issues = tuple(issue for check in self._checks for issue in check(message, ""))
        if issues:
            first = issues[0]
            raise FlorinError(
                Code.PARAMS_VALIDATION,
                f"Validation error: {first.field}: {first.message}",
                issues=issues,
            )


def _message_checks(descriptor: Descriptor) -> Iterator[_Check]:
    for field in descriptor.fields:
        rule = field.GetOptions().Extensions[json_pb2.field]
        if field.is_repeated:
            yield from _list_checks(field, rule)
        elif field.message_type is not None:
            yield _nested(field, field.message_type, rule)
        elif (value_checks := list(_value_checks(field, rule))) or rule.required:
            yield _scalar(field, rule, value_checks)


def _list_checks(field: FieldDescriptor, rule: json_pb2.FieldRule) -> Iterator[_Check]:
    name, key, most = field.name, field.json_name, rule.max_items
    if most:

        def size(message: Any, path: str) -> Iterator[Issue]:
            if len(getattr(message, name)) > most:
                yield Issue(path + key, f"must have at most {most} items")

        yield size
    if field.message_type is not None and not field.message_type.GetOptions().map_entry:
        checks = list(_message_checks(field.message_type))

        def items(message: Any, path: str) -> Iterator[Issue]:
            for index, item in enumerate(getattr(message, name)):
                for check in checks:
                    yield from check(item, f"{path}{key}[{index}].")

        yield items


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


def _scalar(
    field: FieldDescriptor, rule: json_pb2.FieldRule, checks: list[Callable[[Any], str | None]]
) -> _Check:
    name, key, required, presence = field.name, field.json_name, rule.required, field.has_presence

    def scalar(message: Any, path: str) -> Iterator[Issue]:
        value = getattr(message, name)
        if not value and (required or not presence or not message.HasField(name)):
            if required:
                yield Issue(path + key, "is required")
            return
        for check in checks:
            if (fault := check(value)) is not None:
                yield Issue(path + key, fault)
                return

    return scalar


def _value_checks(
    field: FieldDescriptor, rule: json_pb2.FieldRule
) -> Iterator[Callable[[Any], str | None]]:
    if low := rule.min_chars:
        yield lambda text: f"must have at least {low} characters" if len(text) < low else None
    if high := rule.max_chars:
        yield lambda text: f"must have at most {high} characters" if len(text) > high else None
    if rule.pattern:
        pattern = re.compile(rule.pattern)
        yield lambda text: None if pattern.fullmatch(text) else "has the wrong form"
    if rule.no_control:
        yield lambda text: "has control characters" if _CONTROL.search(text) else None
    if rule.HasField("minimum"):
        least = rule.minimum
        yield lambda number: f"must be at least {least}" if number < least else None
    if rule.HasField("maximum"):
        most = rule.maximum
        yield lambda number: f"must be at most {most}" if number > most else None
    if field.enum_type is not None:
        numbers = frozenset(field.enum_type.values_by_number)
        yield lambda number: None if number in numbers else "is unknown"
