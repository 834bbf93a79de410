"""The effect of gateway_options.v1 on messages: members, enum texts, known types."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from gateway_options.v1 import json_pb2
from google.protobuf import json_format
from google.protobuf.descriptor import (
    Descriptor,
    EnumDescriptor,
    FieldDescriptor,
    OneofDescriptor,
)
from google.protobuf.timestamp_pb2 import Timestamp

from grpc_rest_gateway.profiles import JsonProfile

F = FieldDescriptor
INTEGER_BOUNDS: dict[int, tuple[int, int]] = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, 2**64 - 1)),
}
FLOAT_BOUNDS: dict[int, float] = {F.TYPE_FLOAT: 3.4028234663852886e38, F.TYPE_DOUBLE: float("inf")}
MESSAGE_FIELD_TYPES = (F.TYPE_MESSAGE, F.TYPE_GROUP)

TIMESTAMP_TYPE = "google.protobuf.Timestamp"
_WRAPPER_KINDS = (
    "Bool",
    "Int32",
    "Int64",
    "UInt32",
    "UInt64",
    "Float",
    "Double",
    "String",
    "Bytes",
)
WRAPPER_TYPES = frozenset(f"google.protobuf.{kind}Value" for kind in _WRAPPER_KINDS)
# in the form of json_format; none of them is a plain object of members
WELL_KNOWN_TYPES = WRAPPER_TYPES | {
    "google.protobuf.Duration",
    "google.protobuf.FieldMask",
    "google.protobuf.ListValue",
    "google.protobuf.Struct",
    "google.protobuf.Value",
}

_RFC3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:[Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class JsonMember:
    """One field as a JSON member in one profile."""

    field: FieldDescriptor
    name: str
    is_required: bool = False
    is_omitted_when_absent: bool = False
    holds_json: bool = False
    is_flattened: bool = False
    is_lenient: bool = False
    is_clearable: bool = False
    is_sparse: bool = False

    @property
    def message_type(self) -> Descriptor | None:
        """Return the type of a message field; None for other fields."""
        return self.field.message_type if self.field.type in MESSAGE_FIELD_TYPES else None


def get_rule(field: FieldDescriptor) -> json_pb2.FieldRule:
    """Return the options of a field."""
    return field.GetOptions().Extensions[json_pb2.field]


def list_members(descriptor: Descriptor, profile: JsonProfile) -> list[JsonMember]:
    """List the members of a message in order of declaration, without hidden ones."""
    members = []
    for field in descriptor.fields:
        rule = get_rule(field)
        if rule.hidden:
            continue
        members.append(
            JsonMember(
                field,
                field.json_name,
                rule.required,
                rule.absent == json_pb2.ABSENT_OMIT,
                rule.json_text == json_pb2.JSON_TEXT_VALUE
                or (
                    rule.json_text == json_pb2.JSON_TEXT_BY_PROFILE
                    and profile is JsonProfile.DEPLOYED
                ),
                rule.flatten,
                rule.lenient,
                rule.clearable,
                rule.sparse,
            )
        )
    return members


def check_shape(descriptor: Descriptor) -> None:
    """Raise ValueError if the options of a message contradict its fields."""
    names: list[str] = []
    for member in list_members(descriptor, JsonProfile.DEPLOYED):
        field, where = member.field, f"{descriptor.full_name}.{member.field.name}"
        if contradiction := _find_contradiction(member, get_rule(field)):
            raise ValueError(f"{where}: {contradiction}")
        if member.is_flattened and member.message_type is not None:
            names += [
                inner.name for inner in list_members(member.message_type, JsonProfile.DEPLOYED)
            ]
        else:
            names.append(member.name)
    if is_strict(descriptor) and find_union(descriptor) is not None:
        raise ValueError(f"{descriptor.full_name}: strict is for messages with members, not unions")
    if len(set(names)) != len(names):
        raise ValueError(f"{descriptor.full_name}: two fields have the same JSON name")
    find_union(descriptor)


def _find_contradiction(member: JsonMember, rule: json_pb2.FieldRule) -> str:
    field, message = member.field, member.message_type
    if member.holds_json and field.type != F.TYPE_STRING:
        return "json_text is for text fields"
    if member.is_flattened and (message is None or field.is_repeated):
        return "flatten is for single message fields"
    if message is not None and message.full_name == "google.protobuf.Any":
        return "google.protobuf.Any has no JSON here"
    if rule.comma and (not field.is_repeated or is_map(field)):
        return "comma is for repeated fields"
    if member.is_clearable and not (field.has_presence and field.type == F.TYPE_STRING):
        return "clearable is for text fields with presence"
    if member.is_clearable and (member.is_required or member.holds_json or rule.min_chars):
        return "clearing sets empty text, which another option forbids"
    if member.is_sparse and not _has_members(field):
        return "sparse is for fields with members below"
    return ""


def _has_members(field: FieldDescriptor) -> bool:
    if field.type not in MESSAGE_FIELD_TYPES:
        return False
    message = get_message_type(field)
    if is_map(field):
        return _has_members(message.fields_by_name["value"])
    return message.full_name != TIMESTAMP_TYPE and message.full_name not in WELL_KNOWN_TYPES


def find_union(descriptor: Descriptor) -> OneofDescriptor | None:
    """Return the oneof of a message that is shown as {type, data}; None for other messages."""
    if not descriptor.GetOptions().Extensions[json_pb2.message].union:
        return None
    if len(descriptor.oneofs) != 1 or len(descriptor.oneofs[0].fields) != len(descriptor.fields):
        raise ValueError(f"{descriptor.full_name}: a union is exactly one oneof")
    return descriptor.oneofs[0]


def is_strict(descriptor: Descriptor) -> bool:
    """Return True if unknown members of the message are refused."""
    return bool(descriptor.GetOptions().Extensions[json_pb2.message].strict)


def get_message_type(field: FieldDescriptor) -> Descriptor:
    """Return the type of a message field."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} is not a message field")
    return field.message_type


def get_enum_type(field: FieldDescriptor) -> EnumDescriptor:
    """Return the type of an enum field."""
    if field.enum_type is None:
        raise TypeError(f"{field.full_name} is not an enum field")
    return field.enum_type


def is_map(field: FieldDescriptor) -> bool:
    """Return True for a map field."""
    return field.type in MESSAGE_FIELD_TYPES and bool(
        get_message_type(field).GetOptions().map_entry
    )


def get_enum_texts(enum: EnumDescriptor) -> dict[int, str | None]:
    """Return JSON texts by number: lower snake case without the type's prefix.

    Zero is null by default.
    """
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", enum.name).upper()
    texts: dict[int, str | None] = {}
    for value in enum.values:
        own = value.GetOptions().Extensions[json_pb2.json_value]
        text = own or value.name.removeprefix(prefix + "_").lower()
        texts.setdefault(value.number, text if own or value.number else None)
    return texts


def get_enum_numbers(enum: EnumDescriptor) -> dict[str, int]:
    """Return numbers by JSON text."""
    return {text: number for number, text in get_enum_texts(enum).items() if text is not None}


def format_timestamp(value: Timestamp) -> str:
    """Format as RFC 3339 in UTC with exactly three fractional digits.

    Finer digits are truncated.
    """
    moment = _EPOCH + timedelta(seconds=value.seconds, milliseconds=value.nanos // 1_000_000)
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def parse_timestamp(text: str, target: Timestamp) -> bool:
    """Parse RFC 3339 with an offset; return False if the text is not such a time."""
    if not _RFC3339.fullmatch(text):
        return False
    try:
        target.FromJsonString(text.upper())
    except ValueError:
        return False
    return True


def parse_known_type(value: Any, target: Any) -> bool:
    """Parse a well-known type; return False if the value is invalid for it."""
    try:
        json_format.ParseDict(value, target)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        return False
    return True


format_known_type: Callable[[Any], Any] = json_format.MessageToDict


def decode_base64(text: str) -> bytes | None:
    """Decode either base64 alphabet, padded or not; return None for invalid text."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def parse_map_key(text: str, kind: int) -> Any:
    """Parse a map key from its text; return None if it is invalid for the type."""
    if kind == F.TYPE_STRING:
        return text
    if kind == F.TYPE_BOOL:
        return {"true": True, "false": False}.get(text)
    low, high = INTEGER_BOUNDS[kind]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    return int(text) if low <= int(text) <= high else None
