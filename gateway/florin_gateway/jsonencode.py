"""Encoders compiled from descriptors: one generated function per message type, message to dict."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from florin_gateway.jsonshape import (
    KNOWN,
    MESSAGES,
    TIMESTAMP,
    Member,
    check_shape,
    enum_of,
    enum_texts,
    is_map,
    members_of,
    message_of,
    show_known,
    timestamp_text,
    union_of,
)
from florin_gateway.profiles import Profile


class Encoders:
    """The encoders of one profile.

    A generated function looks like this, members in order of declaration:

        def encode_lab_v1_Parcel(m):
            has = m.HasField
            d = {'accountCaip10': m.account_caip10, …}
            …
            return d

    Below a sparse field every member that would be null is left out; a type that stands in such a
    place has a second function.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._names: dict[str, Any] = {
            "timestamp": timestamp_text,
            "known": show_known,
            "base64": _base64,
            "value": _json_value,
            "keys": _map_key,
        }

    def of(self, descriptor: Descriptor) -> Callable[[Any], Any]:
        """The encoder of a message type."""
        encoder: Callable[[Any], Any] = self._names[self._function(descriptor, sparse=False)]
        return encoder

    def _function(self, descriptor: Descriptor, *, sparse: bool) -> str:
        if descriptor.full_name == TIMESTAMP:
            return "timestamp"
        if descriptor.full_name in KNOWN:
            return "known"
        name = ("sparse_" if sparse else "encode_") + descriptor.full_name.replace(".", "_")
        if name not in self._names:
            check_shape(descriptor)
            # reserved first: a type may hold itself
            self._names[name] = None
            union = union_of(descriptor)
            lines = (
                self._union(union.name, union.fields, sparse)
                if union
                else self._object(descriptor, sparse)
            )
            source = "\n    ".join([f"def {name}(m):", *lines])
            # the text is made of descriptors alone, and names in it pass through repr
            exec(compile(source, f"<encoder of {descriptor.full_name}>", "exec"), self._names)  # noqa: S102
        return name

    def _union(self, oneof: str, fields: Any, sparse: bool) -> list[str]:
        lines = [f"kind = m.WhichOneof({oneof!r})"]
        for field in fields:
            data = self._value(Member(field, "data", sparse=sparse), f"m.{field.name}")
            lines.append(f"if kind == {field.name!r}:")
            lines.append(f"    return {{'type': {field.json_name!r}, 'data': {data}}}")
        return [*lines, "return None"]

    def _object(self, descriptor: Descriptor, sparse: bool) -> list[str]:
        lines = ["has = m.HasField", "d = {}"]
        always: list[str] = []

        def flush() -> None:
            if always:
                fresh = lines[-1] == "d = {}"
                text = "{" + ", ".join(always) + "}"
                lines[-1:] = [f"d = {text}"] if fresh else [lines[-1], f"d.update({text})"]
                always.clear()

        for own in members_of(descriptor, self._profile):
            member = replace(own, sparse=True) if sparse else own
            field, shown = member.field, self._member(member)
            there = f"has({field.name!r})"
            if member.flatten:
                flush()
                lines += [f"if {there}:", f"    d.update({shown})"]
            elif field.has_presence and (sparse or member.omitted or member.clearable):
                flush()
                lines += [f"if {there}:", f"    d[{member.name!r}] = {shown}"]
            elif field.has_presence:
                always.append(f"{member.name!r}: {shown} if {there} else None")
            elif sparse and _may_be_null(member):
                flush()
                lines += [f"if m.{field.name}:", f"    d[{member.name!r}] = {shown}"]
            else:
                always.append(f"{member.name!r}: {shown}")
        flush()
        return [*lines, "return d"]

    def _member(self, member: Member) -> str:
        field, source = member.field, f"m.{member.field.name}"
        if is_map(field):
            entry = message_of(field)
            key, held = entry.fields_by_name["key"], entry.fields_by_name["value"]
            value = self._value(replace(member, field=held, holds_json=False), f"{source}[k]")
            shown = "k" if key.type == FieldDescriptor.TYPE_STRING else "keys(k)"
            return f"{{{shown}: {value} for k in {source}}}"
        if field.is_repeated:
            value = self._value(member, "x")
            return f"[*{source}]" if value == "x" else f"[{value} for x in {source}]"
        # null clears, in both directions
        return f"{source} or None" if member.clearable else self._value(member, source)

    def _value(self, member: Member, source: str) -> str:
        field = member.field
        if field.type in MESSAGES:
            return f"{self._function(message_of(field), sparse=member.sparse)}({source})"
        if field.type == FieldDescriptor.TYPE_ENUM:
            enum = enum_of(field)
            table = "texts_" + enum.full_name.replace(".", "_")
            self._names[table] = enum_texts(enum)
            # a value that only a newer server knows is shown by its number
            return f"{table}.get({source}, {source})"
        if field.type == FieldDescriptor.TYPE_BYTES:
            return f"base64({source})"
        return f"value({source})" if member.holds_json else source


def _may_be_null(member: Member) -> bool:
    """True for a field without presence whose zero is shown as null."""
    field = member.field
    if field.is_repeated:
        return False
    if field.type == FieldDescriptor.TYPE_ENUM:
        return enum_texts(enum_of(field)).get(0) is None
    return member.holds_json


def _json_value(text: str) -> Any:
    return orjson.Fragment(text) if text else None


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _map_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
