"""Schemas of messages: what the codec accepts in a request and writes in a response."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

from gateway_options.v1 import json_pb2
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from grpc_rest_gateway.jsonshape import (
    FLOAT_BOUNDS,
    INTEGER_BOUNDS,
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    JsonMember,
    find_union,
    get_enum_texts,
    get_enum_type,
    get_message_type,
    get_rule,
    is_map,
    list_members,
)
from grpc_rest_gateway.openapi.comments import ProtoComments
from grpc_rest_gateway.profiles import JsonProfile

JsonSchema: TypeAlias = dict[str, Any]

RESPONSE_TIME_PATTERN = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$"
# on a member of a request: the server reads a value that the schema refuses as absent
LENIENT_EXTENSION = "x-lenient"
_NO_CONTROL_PATTERN = (
    r"^[^\u0000-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]*$"
)
_REF = "#/components/schemas/"
_SCALAR_SCHEMAS: dict[int, JsonSchema] = {
    **{kind: {"type": "number", "format": "double"} for kind in FLOAT_BOUNDS},
    FieldDescriptor.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptor.TYPE_BYTES: {"type": "string", "contentEncoding": "base64"},
    FieldDescriptor.TYPE_STRING: {"type": "string"},
}
# the form of json_format: it writes 64-bit integers as text and reads both
_INT64_SCHEMA: JsonSchema = {"type": ["integer", "string"], "format": "int64"}
_KNOWN_TYPE_SCHEMAS: dict[str, JsonSchema] = {
    "google.protobuf.BoolValue": {"type": "boolean"},
    "google.protobuf.BytesValue": {"type": "string", "contentEncoding": "base64"},
    "google.protobuf.DoubleValue": {"type": "number"},
    "google.protobuf.FloatValue": {"type": "number"},
    "google.protobuf.Int32Value": {"type": "integer", "format": "int32"},
    "google.protobuf.Int64Value": _INT64_SCHEMA,
    "google.protobuf.StringValue": {"type": "string"},
    "google.protobuf.UInt32Value": {"type": "integer", "format": "int64"},
    "google.protobuf.UInt64Value": _INT64_SCHEMA,
    "google.protobuf.Duration": {"type": "string"},
    "google.protobuf.FieldMask": {"type": "string"},
    "google.protobuf.ListValue": {"type": "array"},
    "google.protobuf.Struct": {"type": "object"},
    "google.protobuf.Value": {},
}


class SchemaSide(StrEnum):
    """Direction of a message; its value is the suffix of the schema's name."""

    REQUEST = "Input"
    RESPONSE = ""
    SPARSE = "Sparse"


class SchemaOrigin(NamedTuple):
    """The message of a schema, by full name, and its form."""

    message: str
    side: SchemaSide
    excluded_fields: frozenset[str]


class SchemaRegistry:
    """The component schemas of all requested messages, by name."""

    def __init__(self, comments: ProtoComments) -> None:
        self.components: dict[str, JsonSchema] = {}
        self._comments = comments
        self._origins: dict[str, SchemaOrigin] = {}

    def build_response(self, descriptor: Descriptor) -> JsonSchema:
        """Return the schema of a response of this type."""
        return self._reference_message(descriptor, SchemaSide.RESPONSE)

    def build_body(self, descriptor: Descriptor, excluded_fields: frozenset[str]) -> JsonSchema:
        """Return the schema of a request body of this type, except fields with the given names.

        `excluded_fields` are proto names.
        """
        return self._register_component(
            descriptor, descriptor.name, SchemaSide.REQUEST, excluded_fields
        )

    def build_parameter(self, field: FieldDescriptor) -> JsonSchema:
        """Return the schema of a path or query parameter that is read into this field."""
        value = self._build_bounded(field)
        if field.is_repeated:
            return {"type": "array", "items": value, **_build_item_bounds(field)}
        return value

    def add_description(self, name: str, schema: JsonSchema) -> JsonSchema:
        """Return the schema with the comment on a full name as its description."""
        text = self._comments.get_comment(name)
        return {"description": text, **schema} if text else schema

    def _reference_message(self, descriptor: Descriptor, side: SchemaSide) -> JsonSchema:
        return self._register_component(descriptor, descriptor.name + side, side, frozenset())

    def _register_component(
        self, descriptor: Descriptor, name: str, side: SchemaSide, excluded_fields: frozenset[str]
    ) -> JsonSchema:
        name = self._choose_name(name, SchemaOrigin(descriptor.full_name, side, excluded_fields))
        if name not in self.components:
            # registered before it is built: a type can contain itself
            self.components[name] = {}
            shape = (
                self._build_union(descriptor, side)
                if find_union(descriptor)
                else self._build_object(descriptor, side, excluded_fields)
            )
            self.components[name] = self.add_description(descriptor.full_name, shape)
        return {"$ref": _REF + name}

    def _choose_name(self, name: str, origin: SchemaOrigin) -> str:
        """Return the name of a schema; a type that is a body and a response has two."""
        number, chosen = 1, name
        while (existing := self._origins.setdefault(chosen, origin)) != origin:
            if existing.message != origin.message:
                raise ValueError(f"two schemas have the name {name}")
            number += 1
            chosen = f"{name}_{number}"
        return chosen

    def _build_union(self, descriptor: Descriptor, side: SchemaSide) -> JsonSchema:
        kinds = []
        for field in descriptor.fields:
            members = {"type": {"const": field.json_name}, "data": self._build_value(field, side)}
            kinds.append(
                self.add_description(
                    field.full_name,
                    {"type": "object", "required": ["type", "data"], "properties": members},
                )
            )
        return {"oneOf": kinds}

    def _build_object(
        self, descriptor: Descriptor, side: SchemaSide, excluded_fields: frozenset[str]
    ) -> JsonSchema:
        properties: dict[str, JsonSchema] = {}
        required: list[str] = []
        for member in list_members(descriptor, JsonProfile.SPEC):
            if member.field.name in excluded_fields:
                continue
            if member.is_flattened:
                inner = self._build_object(get_message_type(member.field), side, frozenset())
                properties |= inner["properties"]
                required += inner.get("required", []) if member.is_required else []
                continue
            properties[member.name] = self._build_member(member, side)
            if _is_always_present(member, side):
                required.append(member.name)
        shape: JsonSchema = {"type": "object", "properties": properties}
        return {**shape, "required": required} if required else shape

    def _build_member(self, member: JsonMember, side: SchemaSide) -> JsonSchema:
        field = member.field
        inner = SchemaSide.SPARSE if side is SchemaSide.RESPONSE and member.is_sparse else side
        schema = (
            self._build_collection(field, inner)
            if field.is_repeated
            else self._build_value(field, inner)
        )
        text = self._comments.get_comment(field.full_name)
        is_lenient = member.is_lenient and side is SchemaSide.REQUEST
        if is_lenient:
            text += " A value of a different type counts as absent."
        if is_lenient or _is_nullable(member, side):
            schema = _make_nullable(schema)
        if is_lenient:
            # "any value" as an alternative would hide the type from generators of clients
            schema = {**schema, LENIENT_EXTENSION: True}
        if field.GetOptions().deprecated:
            schema = {**schema, "deprecated": True}
        return {"description": text.strip(), **schema} if text else schema

    def _build_collection(self, field: FieldDescriptor, side: SchemaSide) -> JsonSchema:
        if is_map(field):
            return self._build_map(field, side)
        bounds = _build_item_bounds(field) if side is SchemaSide.REQUEST else {}
        return {"type": "array", "items": self._build_value(field, side), **bounds}

    def _build_map(self, field: FieldDescriptor, side: SchemaSide) -> JsonSchema:
        held = get_message_type(field).fields_by_name["value"]
        schema: JsonSchema = {
            "type": "object",
            "additionalProperties": self._build_value(held, side),
        }
        if side is not SchemaSide.REQUEST:
            return schema
        rule = get_rule(field)
        if held.type == FieldDescriptor.TYPE_STRING:
            # the bounds of the values are on the map's own field
            schema["additionalProperties"] = _build_text_schema(rule)
        if rule.max_key_chars:
            schema["propertyNames"] = {"minLength": 1, "maxLength": rule.max_key_chars}
            schema["propertyNames"] |= {"pattern": _NO_CONTROL_PATTERN} if rule.no_control else {}
        if rule.max_items:
            schema["maxProperties"] = rule.max_items
        return schema

    def _build_value(self, field: FieldDescriptor, side: SchemaSide) -> JsonSchema:
        if field.type in MESSAGE_FIELD_TYPES:
            message = get_message_type(field)
            if message.full_name == TIMESTAMP_TYPE:
                return self._build_time(side)
            if message.full_name in _KNOWN_TYPE_SCHEMAS:
                return dict(_KNOWN_TYPE_SCHEMAS[message.full_name])
            return self._reference_message(message, side)
        kind = get_rule(field).json_text
        if kind == json_pb2.JSON_TEXT_VALUE:
            return {}
        if kind == json_pb2.JSON_TEXT_BY_PROFILE:
            text = {"type": "string", "contentMediaType": "application/json"}
            # separate: generators of clients expect the items of an array beside its type
            structures: list[JsonSchema] = [
                {"type": "array", "items": {}},
                {"type": "object", "additionalProperties": True},
            ]
            return {"oneOf": [text, *structures]}
        return (
            self._build_bounded(field)
            if side is SchemaSide.REQUEST
            else self._build_unbounded(field)
        )

    def _build_time(self, side: SchemaSide) -> JsonSchema:
        schema = {"type": "string", "format": "date-time"}
        return (
            schema if side is SchemaSide.REQUEST else {**schema, "pattern": RESPONSE_TIME_PATTERN}
        )

    def _build_bounded(self, field: FieldDescriptor) -> JsonSchema:
        """Return the schema of an input value, with the bounds that the server checks."""
        rule = get_rule(field)
        if field.type in MESSAGE_FIELD_TYPES:
            return self._build_value(field, SchemaSide.REQUEST)
        schema = self._build_unbounded(field)
        if field.type in INTEGER_BOUNDS:
            low, high = INTEGER_BOUNDS[field.type]
            small = high < 2**53
            if rule.HasField("minimum") or small:
                schema["minimum"] = rule.minimum if rule.HasField("minimum") else low
            if rule.HasField("maximum") or small:
                schema["maximum"] = rule.maximum if rule.HasField("maximum") else high
        if field.type == FieldDescriptor.TYPE_STRING:
            # empty text counts as missing
            filled = (rule.required or rule.clearable) and not field.is_repeated
            schema |= _build_text_schema(rule, 1 if filled else 0)
        return schema

    def _build_unbounded(self, field: FieldDescriptor) -> JsonSchema:
        """Return the schema of a value without bounds."""
        if field.type == FieldDescriptor.TYPE_ENUM:
            return self._register_enum(get_enum_type(field))
        if field.type in INTEGER_BOUNDS:
            small = INTEGER_BOUNDS[field.type][1] < 2**32
            return {"type": "integer", "format": "int32" if small else "int64"}
        return dict(_SCALAR_SCHEMAS[field.type])

    def _register_enum(self, enum: EnumDescriptor) -> JsonSchema:
        """Return the schema of an enum as text; zero has no text, unless it defines its own."""
        texts = {n: text for n, text in get_enum_texts(enum).items() if text is not None}
        lines = [self._comments.get_comment(enum.full_name)]
        for number, text in texts.items():
            value = enum.values_by_number[number]
            lines.append(
                f"- `{text}`: {self._comments.get_comment(f'{enum.full_name}.{value.name}')}"
            )
        shape: JsonSchema = {"type": "string", "enum": list(texts.values())}
        self.components[enum.name] = {"description": "\n".join(lines), **shape}
        return {"$ref": _REF + enum.name}


def _build_text_schema(rule: json_pb2.FieldRule, fewest: int = 0) -> JsonSchema:
    """Return the schema of a text of a request, with at least `fewest` characters."""
    schema: JsonSchema = {"type": "string"}
    fewest = max(rule.min_chars, fewest)
    schema |= {"minLength": fewest} if fewest else {}
    schema |= {"maxLength": rule.max_chars} if rule.max_chars else {}
    if rule.pattern:
        schema["pattern"] = f"^(?:{rule.pattern})$"
    elif rule.no_control:
        schema["pattern"] = _NO_CONTROL_PATTERN
    return schema


def _build_item_bounds(field: FieldDescriptor) -> JsonSchema:
    rule = get_rule(field)
    fewest = {"minItems": rule.min_items} if rule.min_items else {}
    return fewest | ({"maxItems": rule.max_items} if rule.max_items else {})


def _is_always_present(member: JsonMember, side: SchemaSide) -> bool:
    """Return True if the member must be present."""
    if side is SchemaSide.REQUEST or member.is_required:
        return member.is_required
    if side is SchemaSide.SPARSE and (member.field.has_presence or _is_null_when_zero(member)):
        return False
    can_be_absent = member.field.has_presence or member.field.is_repeated
    return not (member.is_omitted_when_absent and can_be_absent)


def _is_nullable(member: JsonMember, side: SchemaSide) -> bool:
    """Return True if the member can be null."""
    if member.is_required or side is SchemaSide.SPARSE:
        return False
    if side is SchemaSide.REQUEST or _is_null_when_zero(member):
        return True
    return member.field.has_presence and not member.is_omitted_when_absent


def _is_null_when_zero(member: JsonMember) -> bool:
    field = member.field
    if field.type != FieldDescriptor.TYPE_ENUM or field.is_repeated:
        return False
    return get_enum_texts(get_enum_type(field)).get(0) is None


def _make_nullable(schema: JsonSchema) -> JsonSchema:
    if isinstance(schema.get("type"), str):
        return {**schema, "type": [schema["type"], "null"]}
    return {"oneOf": [schema, {"type": "null"}]} if schema else schema
