"""What the options of gateway_options.v1 make of a message: members, enum texts, known types."""

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

from florin_gateway.profiles import Profile

F = FieldDescriptor
INTEGERS: dict[int, tuple[int, int]] = {
    **dict.fromkeys((F.TYPE_INT32, F.TYPE_SINT32, F.TYPE_SFIXED32), (-(2**31), 2**31 - 1)),
    **dict.fromkeys((F.TYPE_UINT32, F.TYPE_FIXED32), (0, 2**32 - 1)),
    **dict.fromkeys((F.TYPE_INT64, F.TYPE_SINT64, F.TYPE_SFIXED64), (-(2**63), 2**63 - 1)),
    **dict.fromkeys((F.TYPE_UINT64, F.TYPE_FIXED64), (0, 2**64 - 1)),
}
FLOATS: dict[int, float] = {F.TYPE_FLOAT: 3.4028234663852886e38, F.TYPE_DOUBLE: float("inf")}
MESSAGES = (F.TYPE_MESSAGE, F.TYPE_GROUP)

TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPED = ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
WRAPPERS = frozenset(f"google.protobuf.{kind}Value" for kind in _WRAPPED)
# shown as json_format shows them; none of them is a plain object of members
KNOWN = WRAPPERS | {
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
class Member:
    """One field as a JSON member of one profile."""

    field: FieldDescriptor
    name: str
    required: bool = False
    omitted: bool = False
    holds_json: bool = False
    flatten: bool = False
    lenient: bool = False
    clearable: bool = False
    sparse: bool = False

    @property
    def message(self) -> Descriptor | None:
        """Type of a message field."""
        return self.field.message_type if self.field.type in MESSAGES else None


def rule_of(field: FieldDescriptor) -> json_pb2.FieldRule:
    """The options of a field."""
    return field.GetOptions().Extensions[json_pb2.field]


def members_of(descriptor: Descriptor, profile: Profile) -> list[Member]:
    """The members of a message in the order of declaration, without hidden ones."""
    members = []
    for field in descriptor.fields:
        rule = rule_of(field)
        if rule.hidden:
            continue
        members.append(
            Member(
                field,
                field.json_name,
                rule.required,
                rule.absent == json_pb2.ABSENT_OMIT,
                rule.json_text == json_pb2.JSON_TEXT_VALUE
                or (
                    rule.json_text == json_pb2.JSON_TEXT_BY_PROFILE and profile is Profile.DEPLOYED
                ),
                rule.flatten,
                rule.lenient,
                rule.clearable,
                rule.sparse,
            )
        )
    return members


def check_shape(descriptor: Descriptor) -> None:
    """ValueError if the options of a message contradict its fields."""
    names: list[str] = []
    for member in members_of(descriptor, Profile.DEPLOYED):
        field, where = member.field, f"{descriptor.full_name}.{member.field.name}"
        if contradiction := _contradiction(member, rule_of(field)):
            raise ValueError(f"{where}: {contradiction}")
        if member.flatten and member.message is not None:
            names += [inner.name for inner in members_of(member.message, Profile.DEPLOYED)]
        else:
            names.append(member.name)
    if is_strict(descriptor) and union_of(descriptor) is not None:
        raise ValueError(f"{descriptor.full_name}: strict is for messages with members, not unions")
    if len(set(names)) != len(names):
        raise ValueError(f"{descriptor.full_name}: two fields have the same JSON name")
    union_of(descriptor)


def _contradiction(member: Member, rule: json_pb2.FieldRule) -> str:
    field, message = member.field, member.message
    if member.holds_json and field.type != F.TYPE_STRING:
        return "json_text is for text fields"
    if member.flatten and (message is None or field.is_repeated):
        return "flatten is for single message fields"
    if message is not None and message.full_name == "google.protobuf.Any":
        return "google.protobuf.Any has no JSON here"
    if rule.comma and (not field.is_repeated or is_map(field)):
        return "comma is for repeated fields"
    if member.clearable and not (field.has_presence and field.type == F.TYPE_STRING):
        return "clearable is for text fields with presence"
    if member.clearable and (member.required or member.holds_json or rule.min_chars):
        return "what is cleared is empty, which another option forbids"
    if member.sparse and not _has_members(field):
        return "sparse is for fields with members below"
    return ""


def _has_members(field: FieldDescriptor) -> bool:
    if field.type not in MESSAGES:
        return False
    message = message_of(field)
    if is_map(field):
        return _has_members(message.fields_by_name["value"])
    return message.full_name != TIMESTAMP and message.full_name not in KNOWN


def union_of(descriptor: Descriptor) -> OneofDescriptor | None:
    """The oneof of a message that is shown as {type, data}."""
    if not descriptor.GetOptions().Extensions[json_pb2.message].union:
        return None
    if len(descriptor.oneofs) != 1 or len(descriptor.oneofs[0].fields) != len(descriptor.fields):
        raise ValueError(f"{descriptor.full_name}: a union is exactly one oneof")
    return descriptor.oneofs[0]


def is_strict(descriptor: Descriptor) -> bool:
    """True if members that a message does not have are refused."""
    return bool(descriptor.GetOptions().Extensions[json_pb2.message].strict)


def message_of(field: FieldDescriptor) -> Descriptor:
    """Type of a message field."""
    if field.message_type is None:
        raise TypeError(f"{field.full_name} is no message")
    return field.message_type


def enum_of(field: FieldDescriptor) -> EnumDescriptor:
    """Type of an enum field."""
    if field.enum_type is None:
        raise TypeError(f"{field.full_name} is no enum")
    return field.enum_type


def is_map(field: FieldDescriptor) -> bool:
    """True for a map field."""
    return field.type in MESSAGES and bool(message_of(field).GetOptions().map_entry)


def enum_texts(enum: EnumDescriptor) -> dict[int, str | None]:
    """JSON by number: lower snake case without the type's prefix; zero without own text is null."""
    prefix = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", enum.name).upper()
    texts: dict[int, str | None] = {}
    for value in enum.values:
        own = value.GetOptions().Extensions[json_pb2.json_value]
        text = own or value.name.removeprefix(prefix + "_").lower()
        texts.setdefault(value.number, text if own or value.number else None)
    return texts


def enum_numbers(enum: EnumDescriptor) -> dict[str, int]:
    """Number by JSON text."""
    return {text: number for number, text in enum_texts(enum).items() if text is not None}


def timestamp_text(value: Timestamp) -> str:
    """RFC 3339 in UTC with exactly three digits of a second; finer ones are cut."""
    moment = _EPOCH + timedelta(seconds=value.seconds, milliseconds=value.nanos // 1_000_000)
    return moment.isoformat(timespec="milliseconds")[:23] + "Z"


def read_timestamp(text: str, into: Timestamp) -> bool:
    """Read RFC 3339 with an offset; False if the text is no such time."""
    if not _RFC3339.fullmatch(text):
        return False
    try:
        into.FromJsonString(text.upper())
    except ValueError:
        return False
    return True


def read_known(value: Any, into: Any) -> bool:
    """Read a well-known type; False if the value is none of it."""
    try:
        json_format.ParseDict(value, into)
    except (json_format.ParseError, ValueError, TypeError, AttributeError):
        return False
    return True


show_known: Callable[[Any], Any] = json_format.MessageToDict


def bytes_of(text: str) -> bytes | None:
    """Bytes in either base64 alphabet, padded or not."""
    plain = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except (binascii.Error, ValueError):
        return None


def key_of(text: str, kind: int) -> Any:
    """A map key from its text; None if it is none of the type."""
    if kind == F.TYPE_STRING:
        return text
    if kind == F.TYPE_BOOL:
        return {"true": True, "false": False}.get(text)
    low, high = INTEGERS[kind]
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
        return None
    return int(text) if low <= int(text) <= high else None
