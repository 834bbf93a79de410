"""Schemas of messages: what the codec reads in a request and writes in an answer."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, TypeAlias

from gateway_options.v1 import json_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from florin_gateway.jsonshape import (
    FLOATS,
    INTEGERS,
    MESSAGES,
    TIMESTAMP,
    Member,
    enum_of,
    enum_texts,
    is_map,
    members_of,
    message_of,
    rule_of,
    union_of,
)
from florin_gateway.openapi.comments import Comments
from florin_gateway.profiles import Profile

Schema: TypeAlias = dict[str, Any]

ANSWERED_TIME = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
_NO_CONTROL = r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]*$"
_REF = "#/components/schemas/"
_KINDS: dict[int, Schema] = {
    **{kind: {"type": "number", "format": "double"} for kind in FLOATS},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
}
# as json_format shows them; of 64 bits it makes a text and reads both
_WIDE: Schema = {"type": ["integer", "string"], "format": "int64"}
_KNOWN: dict[str, Schema] = {
    "google.protobuf.BoolValue": {"type": "boolean"},
    "google.protobuf.BytesValue": {"type": "string", "contentEncoding": "base64"},
    "google.protobuf.DoubleValue": {"type": "number"},
    "google.protobuf.FloatValue": {"type": "number"},
    "google.protobuf.Int32Value": {"type": "integer", "format": "int32"},
    "google.protobuf.Int64Value": _WIDE,
    "google.protobuf.StringValue": {"type": "string"},
    "google.protobuf.UInt32Value": {"type": "integer", "format": "int64"},
    "google.protobuf.UInt64Value": _WIDE,
    "google.protobuf.Duration": {"type": "string"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
}


class Side(StrEnum):
    """Where a message stands; its value is what the name of the schema ends with."""

    REQUEST = "Input"
    ANSWER = ""
    SPARSE = "Sparse"


class Schemas:
    """The component schemas of all messages that were asked for, by name."""

    def __init__(self, comments: Comments) -> None:
        self.components: dict[str, Schema] = {}
        self._comments = comments
        self._origin: dict[str, object] = {}

    def answer(self, descriptor: Descriptor) -> Schema:
        """An answer of this type."""
        return self._message(descriptor, Side.ANSWER)

    def body(self, descriptor: Descriptor, without: frozenset[str]) -> Schema:
        """A request body of this type, without the fields of these proto names."""
        return self._component(descriptor, descriptor.name, Side.REQUEST, without)

    def parameter(self, field: FieldDescriptor) -> Schema:
        """A path or query parameter that is read into this field."""
        value = self._bounded(field)
        if field.is_repeated:
            return {"type": "array", "items": value, **_counts(field)}
        return value

    def described(self, name: str, schema: Schema) -> Schema:
        """The schema with the comment on a full name."""
        text = self._comments.of(name)
        return {"description": text, **schema} if text else schema

    def _message(self, descriptor: Descriptor, side: Side) -> Schema:
        return self._component(descriptor, descriptor.name + side, side, frozenset())

    def _component(
        self, descriptor: Descriptor, name: str, side: Side, without: frozenset[str]
    ) -> Schema:
        origin = (descriptor.full_name, side, without)
        if self._origin.setdefault(name, origin) != origin:
            raise ValueError(f"two schemas have the name {name}")
        if name not in self.components:
            # reserved first: a type may hold itself
            self.components[name] = {}
            shape = (
                self._union(descriptor, side)
                if union_of(descriptor)
                else self._object(descriptor, side, without)
            )
            self.components[name] = self.described(descriptor.full_name, shape)
        return {"$ref": _REF + name}

    def _union(self, descriptor: Descriptor, side: Side) -> Schema:
        kinds = []
        for field in descriptor.fields:
            members = {"type": {"const": field.json_name}, "data": self._value(field, side)}
            kinds.append(
                self.described(
                    field.full_name,
                    {"type": "object", "required": ["type", "data"], "properties": members},
                )
            )
        return {"oneOf": kinds}

    def _object(self, descriptor: Descriptor, side: Side, without: frozenset[str]) -> Schema:
        properties: dict[str, Schema] = {}
        required: list[str] = []
        for member in members_of(descriptor, Profile.SPEC):
            if member.field.name in without:
                continue
            if member.flatten:
                inner = self._object(message_of(member.field), side, frozenset())
                properties |= inner["properties"]
                required += inner.get("required", []) if member.required else []
                continue
            properties[member.name] = self._member(member, side)
            if _always(member, side):
                required.append(member.name)
        shape: Schema = {"type": "object", "properties": properties}
        return {**shape, "required": required} if required else shape

    def _member(self, member: Member, side: Side) -> Schema:
        field = member.field
        inner = Side.SPARSE if side is Side.ANSWER and member.sparse else side
        schema = self._several(field, inner) if field.is_repeated else self._value(field, inner)
        text = self._comments.of(field.full_name)
        if member.lenient and side is Side.REQUEST:
            schema = {"anyOf": [schema, {}]}
            text += " A value of another kind reads as absent."
        elif _nullable(member, side):
            schema = _or_null(schema)
        if field.GetOptions().deprecated:
            schema = {**schema, "deprecated": True}
        return {"description": text.strip(), **schema} if text else schema

    def _several(self, field: FieldDescriptor, side: Side) -> Schema:
        if is_map(field):
            held = message_of(field).fields_by_name["value"]
            return {"type": "object", "additionalProperties": self._value(held, side)}
        bounds = _counts(field) if side is Side.REQUEST else {}
        return {"type": "array", "items": self._value(field, side), **bounds}

    def _value(self, field: FieldDescriptor, side: Side) -> Schema:
        if field.type in MESSAGES:
            message = message_of(field)
            if message.full_name == TIMESTAMP:
                return self._time(side)
            if message.full_name in _KNOWN:
                return dict(_KNOWN[message.full_name])
            return self._message(message, side)
        kind = rule_of(field).json_text
        if kind == json_pb2.JSON_TEXT_VALUE:
            return {}
        if kind == json_pb2.JSON_TEXT_BY_PROFILE:
            text = {"type": "string", "contentMediaType": "application/json"}
            return {"oneOf": [text, {"type": ["array", "object"]}]}
        return self._bounded(field) if side is Side.REQUEST else self._plain(field)

    def _time(self, side: Side) -> Schema:
        schema = {"type": "string", "format": "date-time"}
        return schema if side is Side.REQUEST else {**schema, "pattern": ANSWERED_TIME}

    def _bounded(self, field: FieldDescriptor) -> Schema:
        """A value that is read, with the bounds that the server checks."""
        rule = rule_of(field)
        if field.type in MESSAGES:
            return self._value(field, Side.REQUEST)
        schema = self._plain(field)
        if field.type in INTEGERS:
            low, high = INTEGERS[field.type]
            small = high < 2**53
            if rule.HasField("minimum") or small:
                schema["minimum"] = rule.minimum if rule.HasField("minimum") else low
            if rule.HasField("maximum") or small:
                schema["maximum"] = rule.maximum if rule.HasField("maximum") else high
        if field.type == FieldDescriptor.TYPE_STRING:
            # an empty text counts as missing
            filled = (rule.required or rule.clearable) and not field.is_repeated
            fewest = max(rule.min_chars, 1 if filled else 0)
            schema |= {"minLength": fewest} if fewest else {}
            schema |= {"maxLength": rule.max_chars} if rule.max_chars else {}
            if rule.pattern:
                schema["pattern"] = f"^(?:{rule.pattern})$"
            elif rule.no_control:
                schema["pattern"] = _NO_CONTROL
        return schema

    def _plain(self, field: FieldDescriptor) -> Schema:
        """A value without bounds."""
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._enum(enum_of(field))
        if field.type in INTEGERS:
            small = INTEGERS[field.type][1] < 2**32
            return {"type": "integer", "format": "int32" if small else "int64"}
        return dict(_KINDS[field.type])

    def _enum(self, enum: EnumDescriptor) -> Schema:
        """A text; zero is none, unless it has one of its own."""
        texts = {n: text for n, text in enum_texts(enum).items() if text is not None}
        lines = [self._comments.of(enum.full_name)]
        for number, text in texts.items():
            value = enum.values_by_number[number]
            lines.append(f"- `{text}`: {self._comments.of(f'{enum.full_name}.{value.name}')}")
        shape: Schema = {"type": "string", "enum": list(texts.values())}
        self.components[enum.name] = {"description": "\n".join(lines), **shape}
        return {"$ref": _REF + enum.name}


def _counts(field: FieldDescriptor) -> Schema:
    rule = rule_of(field)
    fewest = {"minItems": rule.min_items} if rule.min_items else {}
    return fewest | ({"maxItems": rule.max_items} if rule.max_items else {})


def _always(member: Member, side: Side) -> bool:
    """True if the member must be there."""
    if side is Side.REQUEST or member.required:
        return member.required
    if side is Side.SPARSE and (member.field.has_presence or _zero_is_null(member)):
        return False
    return not (member.omitted and member.field.has_presence)


def _nullable(member: Member, side: Side) -> bool:
    """True if null may stand for the member."""
    if member.required or side is Side.SPARSE:
        return False
    if side is Side.REQUEST or _zero_is_null(member):
        return True
    return member.field.has_presence and not member.omitted


def _zero_is_null(member: Member) -> bool:
    field = member.field
    if field.type != FieldDescriptor.TYPE_ENUM or field.is_repeated:
        return False
    return enum_texts(enum_of(field)).get(0) is None


def _or_null(schema: Schema) -> Schema:
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"oneOf": [schema, {"type": "null"}]} if schema else schema
