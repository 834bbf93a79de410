"""Path and query parameters: parse texts into fields of a request."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_to_bytes

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message_factory import GetMessageClass

from grpc_rest_gateway.errors import RefusedError, make_invalid_parameter_error
from grpc_rest_gateway.jsoncanonical import NON_FINITE_TEXTS
from grpc_rest_gateway.jsonshape import (
    FLOAT_BOUNDS,
    INTEGER_BOUNDS,
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    WRAPPER_TYPES,
    decode_base64,
    get_enum_numbers,
    get_enum_type,
    get_message_type,
    get_rule,
    is_map,
    parse_timestamp,
)

TextParser = Callable[[str], Any]

_FLOAT = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
# an unencoded + of an offset arrives as a space
_BLANK_OFFSET = re.compile(r" (?=\d\d:\d\d$)")
_TEXT_MESSAGE_TYPES = frozenset({"google.protobuf.Duration", "google.protobuf.FieldMask"})


class FieldError(ValueError):
    """A field path to which no parameter can be bound."""


class FieldParameter:
    """A field, possibly below messages, that is set from text."""

    __slots__ = (
        "_field",
        "_is_comma_separated",
        "_parent_path",
        "_parse",
        "is_repeated",
        "oneof_key",
        "path",
    )

    def __init__(
        self, parent_path: tuple[str, ...], field: FieldDescriptor, *, is_canonical: bool = False
    ) -> None:
        self._parent_path = parent_path
        self._field = field
        self._parse = _make_parser(field, is_canonical=is_canonical)
        self.path = (*parent_path, field.name)
        self.is_repeated = field.is_repeated
        self._is_comma_separated = get_rule(field).comma and not is_canonical
        oneof = field.containing_oneof
        # the oneof of an `optional` field has a single member
        self.oneof_key = (parent_path, oneof.name) if oneof and len(oneof.fields) > 1 else None

    def set_value(self, message: Any, name: str, texts: list[str]) -> None:
        """Set the field to one text, a repeated field to all.

        Raise RefusedError for invalid text.
        """
        for step in self._parent_path:
            message = getattr(message, step)
        try:
            if self._is_comma_separated:
                texts = [item for text in texts for item in _split_items(text)]
            values = [self._parse(text) for text in texts]
        except ValueError as error:
            raise make_invalid_parameter_error(name, str(error)) from None
        own = self._field.name
        if self.is_repeated:
            del getattr(message, own)[:]
            getattr(message, own).extend(values)
        elif self._field.type in MESSAGE_FIELD_TYPES:
            getattr(message, own).CopyFrom(values[0])
        else:
            setattr(message, own, values[0])


def get_path_parameter(
    descriptor: Descriptor, path: tuple[str, ...], *, is_canonical: bool = False
) -> FieldParameter:
    """Return the field of a path variable, by proto names; FieldError if it is unsuitable."""
    field = _find_field(descriptor, path, lambda within, name: within.fields_by_name.get(name))
    where = f"{descriptor.full_name}: path field {'.'.join(path)!r}"
    if field is None:
        raise FieldError(f"{where} is unknown or below a field that is not a message")
    if field[1].is_repeated:
        raise FieldError(f"{where} is repeated or a map")
    try:
        return FieldParameter(*field, is_canonical=is_canonical)
    except FieldError:
        raise FieldError(f"{where} is a message") from None


class QueryFields:
    """The fields of one request type that query parameters can set.

    `bound_paths` has field paths that path or body set: the query never sets them, or fields below
    them. If `allowed_fields` is given, the query sets no other top-level field. Parameters in
    `extra_names` are known but set nothing. Other unknown parameters are ignored, or refused.
    """

    def __init__(
        self,
        descriptor: Descriptor,
        bound_paths: frozenset[tuple[str, ...]],
        allowed_fields: frozenset[str] | None = None,
        *,
        is_canonical: bool = False,
        ignore_unknown: bool = True,
        extra_names: frozenset[str] = frozenset(),
    ) -> None:
        self._is_canonical = is_canonical
        self._ignore_unknown = ignore_unknown
        self._extra_names = extra_names
        self._descriptor = descriptor
        self._bound_paths = bound_paths
        self._allowed_fields = allowed_fields
        self._parameters: dict[str, FieldParameter] = {}

    def list_fields(self) -> list[FieldDescriptor]:
        """List the top-level fields that a query can set by name, in order of declaration."""
        fields = []
        for field in self._descriptor.fields:
            try:
                if not get_rule(field).hidden and self._find_parameter(field.json_name) is not None:
                    fields.append(field)
            except RefusedError:
                # a message, of which a query sets only members
                continue
        return fields

    def set_fields(self, message: Any, pairs: list[tuple[str, str]]) -> None:
        """Set every named field; raise RefusedError for an invalid value or an unknown name."""
        # a field has two names; both name one parameter
        sent_parameters: dict[tuple[str, ...], tuple[str, FieldParameter, list[str]]] = {}
        for name, text in pairs:
            parameter = self._parameters.get(name) or self._find_parameter(name)
            if parameter is not None:
                sent_parameters.setdefault(parameter.path, (name, parameter, []))[2].append(text)
            elif not self._ignore_unknown and name not in self._extra_names:
                raise make_invalid_parameter_error(
                    name, "is unknown, or set by the path or the body"
                )
        oneofs: set[object] = set()
        for name, parameter, texts in sent_parameters.values():
            if len(texts) > 1 and not parameter.is_repeated:
                raise make_invalid_parameter_error(name, "was given more than once")
            if parameter.oneof_key is not None:
                if parameter.oneof_key in oneofs:
                    raise make_invalid_parameter_error(name, "conflicts with another parameter")
                oneofs.add(parameter.oneof_key)
            parameter.set_value(message, name, texts)

    def _find_parameter(self, name: str) -> FieldParameter | None:
        lookup = _find_by_any_name if self._is_canonical else _find_by_visible_name
        field_path = _find_field(self._descriptor, tuple(name.split(".")), lookup)
        if field_path is None:
            if self._is_canonical and _crosses_value_field(self._descriptor, name.split(".")):
                raise make_invalid_parameter_error(name, "cannot be a query parameter")
            return None
        above, field = field_path
        path = (*above, field.name)
        if any(path[: len(bound)] == bound for bound in self._bound_paths):
            return None
        if self._allowed_fields is not None and path[0] not in self._allowed_fields:
            return None
        try:
            # only known names are cached, so that callers cannot fill the memory
            parameter = self._parameters[name] = FieldParameter(
                above, field, is_canonical=self._is_canonical
            )
        except FieldError:
            raise make_invalid_parameter_error(name, "cannot be a query parameter") from None
        return parameter


def parse_query(query: bytes) -> list[tuple[str, str]]:
    """Parse the pairs of a query string, decoded once and strictly; skip empty pairs."""
    pairs = []
    for part in query.decode("latin-1").split("&"):
        if part:
            name, _, text = part.partition("=")
            pairs.append((_decode_text(name), _decode_text(text)))
    return pairs


def _decode_text(text: str) -> str:
    if "+" in text:
        text = text.replace("+", " ")
    if "%" not in text and text.isascii():
        return text
    if _BAD_ESCAPE.search(text):
        raise _make_unreadable_query_error()
    try:
        return unquote_to_bytes(text.encode("latin-1")).decode("utf-8")
    except UnicodeDecodeError:
        raise _make_unreadable_query_error() from None


def _make_unreadable_query_error() -> RefusedError:
    return RefusedError(400, "invalid_params", "The query is not percent-encoded UTF-8")


def _find_field(
    descriptor: Descriptor,
    path: tuple[str, ...],
    lookup: Callable[[Descriptor, str], FieldDescriptor | None],
) -> tuple[tuple[str, ...], FieldDescriptor] | None:
    above: list[str] = []
    within: Descriptor | None = descriptor
    for name in path[:-1]:
        field = lookup(within, name) if within is not None else None
        if field is None or field.type not in MESSAGE_FIELD_TYPES or field.is_repeated:
            return None
        above.append(field.name)
        within = field.message_type
    last = lookup(within, path[-1]) if within is not None else None
    return (tuple(above), last) if last is not None else None


def _crosses_value_field(descriptor: Descriptor, names: list[str]) -> bool:
    """Return True if a name leads through a field that has no members."""
    within: Descriptor | None = descriptor
    for name in names[:-1]:
        field = _find_by_any_name(within, name) if within is not None else None
        if field is None:
            return False
        if field.type not in MESSAGE_FIELD_TYPES or field.is_repeated:
            return True
        within = field.message_type
    return False


def _find_by_any_name(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    for field in descriptor.fields:
        if name in (field.json_name, field.name):
            return field
    return None


def _find_by_visible_name(descriptor: Descriptor, name: str) -> FieldDescriptor | None:
    field = _find_by_any_name(descriptor, name)
    return None if field is None or get_rule(field).hidden else field


def _make_parser(field: FieldDescriptor, *, is_canonical: bool) -> TextParser:
    if field.type in MESSAGE_FIELD_TYPES:
        return _make_message_parser(field, is_canonical=is_canonical)
    if field.type in INTEGER_BOUNDS:
        return _make_integer_parser(*INTEGER_BOUNDS[field.type])
    if field.type in FLOAT_BOUNDS:
        return _make_float_parser(FLOAT_BOUNDS[field.type], allows_non_finite=is_canonical)
    if field.type == FieldDescriptor.TYPE_ENUM:
        return _make_canonical_enum_parser(field) if is_canonical else _make_enum_parser(field)
    clearable = get_rule(field).clearable and not is_canonical
    return {
        FieldDescriptor.TYPE_STRING: _parse_nonempty_text if clearable else _parse_text,
        FieldDescriptor.TYPE_BOOL: _parse_boolean,
        FieldDescriptor.TYPE_BYTES: _parse_bytes,
    }[field.type]


def _split_items(text: str) -> list[str]:
    items = text.split(",")
    if "" in items:
        raise ValueError("contains an empty item")
    return items


def _parse_text(text: str) -> str:
    if "\0" in text:
        raise ValueError("contains the character U+0000")
    return text


def _parse_nonempty_text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return _parse_text(text)


def _parse_boolean(text: str) -> bool:
    if text not in {"true", "false"}:
        raise ValueError("must be true or false")
    return text == "true"


def _parse_bytes(text: str) -> bytes:
    base64 = decode_base64(text)
    if base64 is None:
        raise ValueError("must be base64")
    return base64


def _make_integer_parser(low: int, high: int) -> TextParser:
    def read(text: str) -> int:
        if not _INTEGER.fullmatch(text):
            raise ValueError("must be an integer")
        if not low <= int(text) <= high:
            raise ValueError("is out of range")
        return int(text)

    return read


def _make_float_parser(bound: float, *, allows_non_finite: bool) -> TextParser:
    def read(text: str) -> float:
        if allows_non_finite and text in NON_FINITE_TEXTS:
            return float(text)
        if not _FLOAT.fullmatch(text):
            raise ValueError("must be a number")
        value = float(text)
        if not -bound <= value <= bound or value in {float("inf"), float("-inf")}:
            raise ValueError("is out of range")
        return value

    return read


def _make_enum_parser(field: FieldDescriptor) -> TextParser:
    numbers = get_enum_numbers(get_enum_type(field))

    def read(text: str) -> int:
        if text not in numbers:
            raise ValueError("is not a known value")
        return numbers[text]

    return read


def _make_canonical_enum_parser(field: FieldDescriptor) -> TextParser:
    enum = get_enum_type(field)
    read_number = _make_integer_parser(*INTEGER_BOUNDS[FieldDescriptor.TYPE_INT32])

    def read(text: str) -> int:
        if (value := enum.values_by_name.get(text)) is not None:
            return int(value.number)
        number: int | None = read_number(text) if _INTEGER.fullmatch(text) else None
        if number is None or number not in enum.values_by_number:
            raise ValueError("is not a known value")
        return number

    return read


def _make_message_parser(field: FieldDescriptor, *, is_canonical: bool) -> TextParser:
    kind = get_message_type(field)
    make: Any = GetMessageClass(kind)
    if is_map(field):
        raise FieldError("a map")
    if kind.full_name == TIMESTAMP_TYPE:

        def read_time(text: str) -> Any:
            moment = make()
            if not parse_timestamp(_BLANK_OFFSET.sub("+", text), moment):
                raise ValueError("must be an RFC 3339 time with offset")
            return moment

        return read_time
    if kind.full_name in WRAPPER_TYPES:
        inner = _make_parser(kind.fields_by_name["value"], is_canonical=is_canonical)
        return lambda text: make(value=inner(text))
    if kind.full_name in _TEXT_MESSAGE_TYPES:

        def read_known(text: str) -> Any:
            try:
                json_text: Any = text
                return json_format.ParseDict(json_text, make())
            except (json_format.ParseError, ValueError):
                raise ValueError("is malformed") from None

        return read_known
    raise FieldError("a message")
