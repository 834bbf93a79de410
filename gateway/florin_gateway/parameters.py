"""Path and query parameters: texts into fields of a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from florin_gateway.errors import RefusedError, invalid_parameter
from florin_gateway.jsoncanonical import NOT_FINITE
from florin_gateway.jsonshape import (
    FLOATS,
    INTEGERS,
    MESSAGES,
    TIMESTAMP,
    WRAPPERS,
    bytes_of,
    enum_numbers,
    enum_of,
    is_map,
    message_of,
    read_timestamp,
    rule_of,
)

Read = Callable[[str], Any]

_FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# an unencoded + of an offset arrives as a blank
_BLANK_OFFSET = re.compile(r" (?=\d\d:\d\d$)")
_TEXTUAL = frozenset({"google.protobuf.Duration", "google.protobuf.FieldMask"})


class FieldError(ValueError):
    """A field path that a parameter cannot be bound to."""


class Parameter:
    """A field, possibly below messages, that is set from text."""

    __slots__ = ("_above", "_comma", "_field", "_read", "oneof", "path", "repeated")

    def __init__(
        self, above: tuple[str, ...], field: FieldDescriptor, *, canonical: bool = False
    ) -> None:
        self._above = above
        self._field = field
        self._read = _reader_of(field, canonical=canonical)
        self.path = (*above, field.name)
        self.repeated = field.is_repeated
        self._comma = rule_of(field).comma and not canonical
        oneof = field.containing_oneof
        # the oneof of an `optional` field has that one member only
        self.oneof = (above, oneof.name) if oneof and len(oneof.fields) > 1 else None

    def put(self, message: Any, name: str, texts: list[str]) -> None:
        """Set the field to one text, a repeated one to all; RefusedError if one is unreadable."""
        for step in self._above:
            message = getattr(message, step)
        try:
            if self._comma:
                texts = [item for text in texts for item in _items(text)]
            values = [self._read(text) for text in texts]
        except ValueError as error:
            raise invalid_parameter(name, str(error)) from None
        own = self._field.name
        if self.repeated:
            del getattr(message, own)[:]
            getattr(message, own).extend(values)
        elif self._field.type in MESSAGES:
            getattr(message, own).CopyFrom(values[0])
        else:
            setattr(message, own, values[0])


def path_parameter(
    descriptor: Descriptor, path: tuple[str, ...], *, canonical: bool = False
) -> Parameter:
    """The field that a path variable names by proto names; FieldError if it cannot be one."""
    found = _resolve(descriptor, path, lambda within, name: within.fields_by_name.get(name))
    where = f"{descriptor.full_name}: path field {'.'.join(path)!r}"
    if found is None:
        raise FieldError(f"{where} is unknown or reached through a field that is no message")
    if found[1].is_repeated:
        raise FieldError(f"{where} is repeated or a map")
    try:
        return Parameter(*found, canonical=canonical)
    except FieldError:
        raise FieldError(f"{where} is a message") from None


class QueryFields:
    """The fields of one request type that query parameters may set.

    `bound` holds field paths that path or body set: those, and all below them, are never set from
    the query. With `only` given, no other top-level field is. Parameters in `besides` set nothing
    and are known; other unknown ones are ignored, or refused.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        bound: frozenset[tuple[str, ...]],
        only: frozenset[str] | None = None,
        *,
        canonical: bool = False,
        ignore_unknown: bool = True,
        besides: frozenset[str] = frozenset(),
    ) -> None:
        self._canonical = canonical
        self._ignore_unknown = ignore_unknown
        self._besides = besides
        self._descriptor = descriptor
        self._bound = bound
        self._only = only
        self._known: dict[str, Parameter] = {}

    def top(self) -> list[FieldDescriptor]:
        """The top-level fields that a query may set by their own name, in order of declaration."""
        fields = []
        for field in self._descriptor.fields:
            try:
                if not rule_of(field).hidden and self._find(field.json_name) is not None:
                    fields.append(field)
            except RefusedError:
                # a message, of which only members can be set
                continue
        return fields

    def apply(self, message: Any, pairs: list[tuple[str, str]]) -> None:
        """Set every named field; RefusedError for a wrong value, or an unknown name."""
        # a field has two names; under both it is one parameter
        given: dict[tuple[str, ...], tuple[str, Parameter, list[str]]] = {}
        for name, text in pairs:
            parameter = self._known.get(name) or self._find(name)
            if parameter is not None:
                given.setdefault(parameter.path, (name, parameter, []))[2].append(text)
            elif not self._ignore_unknown and name not in self._besides:
                raise invalid_parameter(name, "is unknown, or set by the path or the body")
        oneofs: set[object] = set()
        for name, parameter, texts in given.values():
            if len(texts) > 1 and not parameter.repeated:
                raise invalid_parameter(name, "was given more than once")
            if parameter.oneof is not None:
                if parameter.oneof in oneofs:
                    raise invalid_parameter(name, "excludes another parameter")
                oneofs.add(parameter.oneof)
            parameter.put(message, name, texts)

    def _find(self, name: str) -> Parameter | None:
        lookup = _by_any_name if self._canonical else _by_shown_name
        found = _resolve(self._descriptor, tuple(name.split(".")), lookup)
        if found is None:
            if self._canonical and _through_a_value(self._descriptor, name.split(".")):
                raise invalid_parameter(name, "cannot be a query parameter")
            return None
        above, field = found
        path = (*above, field.name)
        if any(path[: len(bound)] == bound for bound in self._bound):
            return None
        if self._only is not None and path[0] not in self._only:
            return None
        try:
            # only known names are kept, so callers cannot make this grow
            parameter = self._known[name] = Parameter(above, field, canonical=self._canonical)
        except FieldError:
            raise invalid_parameter(name, "cannot be a query parameter") from None
        return parameter


def parse_query(query: bytes) -> list[tuple[str, str]]:
    """Pairs of a query string, decoded once and strictly; empty pairs are skipped."""
    pairs = []
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, text = part.partition("=")
            pairs.append((_decode(name), _decode(text)))
    return pairs


def _decode(text: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text and text.isascii():
        return text
    if _BAD_ESCAPE.search(text):
        raise _unreadable()
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode("utf-8")
    except UnicodeDecodeError:
        raise _unreadable() from None


def _unreadable() -> RefusedError:
    return RefusedError(400, "invalid_params", "The query is not percent-encoded UTF-8")


def _resolve(
    descriptor: Descriptor,
    path: tuple[str, ...],
    lookup: Callable[[Descriptor, str], FieldDescriptor | None],
) -> tuple[tuple[str, ...], FieldDescriptor] | None:
    above: list[str] = []
    within: Descriptor | None = descriptor
    for name in path[:-1]:
        field = lookup(within, name) if within is not None else None
        if field is None or field.type not in MESSAGES or field.is_repeated:
            return None
        above.append(field.name)
        within = field.message_type
    last = lookup(within, path[-1]) if within is not None else None
    return (tuple(above), last) if last is not None else None


def _through_a_value(descriptor: Descriptor, names: list[str]) -> bool:
    """True if a name leads through a field that has no members of its own."""
    within: Descriptor | None = descriptor
    for name in names[:-1]:
        field = _by_any_name(within, name) if within is not None else None
        if field is None:
            return False
        if field.type not in MESSAGES or field.is_repeated:
            return True
        within = field.message_type
    return False


def _by_any_name(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    for field in descriptor.fields:
        if name in (field.json_name, field.name):
            return field
    return None


def _by_shown_name(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    field = _by_any_name(descriptor, name)
    return None if field is None or rule_of(field).hidden else field


def _reader_of(field: FieldDescriptor, *, canonical: bool) -> Read:
    if field.type in MESSAGES:
        return _message_reader(field, canonical=canonical)
    if field.type in INTEGERS:
        return _integer_reader(*INTEGERS[field.type])
    if field.type in FLOATS:
        return _float_reader(FLOATS[field.type], not_finite=canonical)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _canonical_enum_reader(field) if canonical else _enum_reader(field)
    clearable = rule_of(field).clearable and not canonical
    return {
        FieldDescriptor.TYPE_STRING: _filled_text if clearable else _text,
        FieldDescriptor.TYPE_BOOL: _boolean,
        FieldDescriptor.TYPE_BYTES: _bytes,
    }[field.type]


def _items(text: str) -> list[str]:
    items = text.split(",")
    if "" in items:
        raise ValueError("holds an empty item")
    return items


def _text(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds the character U+0000")
    return text


def _filled_text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return _text(text)


def _boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def _bytes(text: str) -> bytes:
    found = bytes_of(text)
    if found is None:
        raise ValueError("must be base64")
    return found


def _integer_reader(low: int, high: int) -> Read:
    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError("must be an integer")
        if not low <= int(text) <= high:
            raise ValueError("is out of range")
        return int(text)

    return read


def _float_reader(bound: float, *, not_finite: bool) -> Read:
    def read(text: str) -> float:
        if not_finite and text in NOT_FINITE:
            return float(text)
        if not _FLOAT.fullmatch(text):
            raise ValueError("must be a number")
        value = float(text)
        if not -bound <= value <= bound or value in {float("inf"), float("-inf")}:
            raise ValueError("is out of range")
        return value

    return read


def _enum_reader(field: FieldDescriptor) -> Read:
    numbers = enum_numbers(enum_of(field))

    def read(text: str) -> int:
        if text not in numbers:
            raise ValueError("is not a known value")
        return numbers[text]

    return read


def _canonical_enum_reader(field: FieldDescriptor) -> Read:
    enum = enum_of(field)
    read_number = _integer_reader(*INTEGERS[FieldDescriptor.TYPE_INT32])

    def read(text: str) -> int:
        if (value := enum.values_by_name.get(text)) is not None:
            return int(value.number)
        number: int | None = read_number(text) if _INTEGER.fullmatch(text) else None
        if number is None or number not in enum.values_by_number:
            raise ValueError("is not a known value")
        return number

    return read


def _message_reader(field: FieldDescriptor, *, canonical: bool) -> Read:
    kind = message_of(field)
    make: Any = GetMessageClass(kind)
    if is_map(field):
        raise FieldError("a map")
    if kind.full_name == TIMESTAMP:

        def read_time(text: str) -> Any:
            moment = make()
            if not read_timestamp(_BLANK_OFFSET.sub("+", text), moment):
                raise ValueError("must be an RFC 3339 time with offset")
            return moment

        return read_time
    if kind.full_name in WRAPPERS:
        inner = _reader_of(kind.fields_by_name["value"], canonical=canonical)
        return lambda text: make(value=inner(text))
    if kind.full_name in _TEXTUAL:

        def read_known(text: str) -> Any:
            try:
                json_text: Any = text
                return json_format.ParseDict(json_text, make())
            except (json_format.ParseError, ValueError):
                raise ValueError("is malformed") from None

        return read_known
    raise FieldError("a message")
