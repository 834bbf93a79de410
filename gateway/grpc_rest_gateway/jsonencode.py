"""Encoders compiled from descriptors: one generated function per message type, message to dict."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from grpc_rest_gateway.jsonshape import (
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    WELL_KNOWN_TYPES,
    JsonMember,
    check_shape,
    find_union,
    format_known_type,
    format_timestamp,
    get_enum_texts,
    get_enum_type,
    get_message_type,
    is_map,
    list_members,
)
from grpc_rest_gateway.profiles import JsonProfile


class EncoderCompiler:
    """The encoders of one profile.

    A generated function looks like this, members in order of declaration:

        def encode_lab_v1_Parcel(m):
            has = m.HasField
            d = {'accountCaip10': m.account_caip10, …}
            …
            return d

    Below a sparse field every member that would be null is left out; a type in such a place has
    a second function.
    """

    def __init__(self, profile: JsonProfile) -> None:
        self._profile = profile
        self._namespace: dict[str, Any] = {
            "timestamp": format_timestamp,
            "known": format_known_type,
            "base64": _encode_base64,
            "value": _to_json_fragment,
            "keys": _format_map_key,
        }

    def get_encoder(self, descriptor: Descriptor) -> Callable[[Any], Any]:
        """Return the encoder of a message type."""
        encoder: Callable[[Any], Any] = self._namespace[
            self._compile_function(descriptor, is_sparse=False)
        ]
        return encoder

    def _compile_function(self, descriptor: Descriptor, *, is_sparse: bool) -> str:
        if descriptor.full_name == TIMESTAMP_TYPE:
            return "timestamp"
        if descriptor.full_name in WELL_KNOWN_TYPES:
            return "known"
        name = ("sparse_" if is_sparse else "encode_") + descriptor.full_name.replace(".", "_")
        if name not in self._namespace:
            check_shape(descriptor)
            # registered before it is built: a type can contain itself
            self._namespace[name] = None
            union = find_union(descriptor)
            lines = (
                self._render_union(union.name, union.fields, is_sparse)
                if union
                else self._render_object(descriptor, is_sparse)
            )
            source = "\n    ".join([f"def {name}(m):", *lines])
            # the source contains descriptor data only, and its names pass through repr
            exec(compile(source, f"<encoder of {descriptor.full_name}>", "exec"), self._namespace)  # noqa: S102
        return name

    def _render_union(self, oneof: str, fields: Any, is_sparse: bool) -> list[str]:
        lines = [f"kind = m.WhichOneof({oneof!r})"]
        for field in fields:
            data = self._render_value(
                JsonMember(field, "data", is_sparse=is_sparse), f"m.{field.name}"
            )
            lines.append(f"if kind == {field.name!r}:")
            lines.append(f"    return {{'type': {field.json_name!r}, 'data': {data}}}")
        return [*lines, "return None"]

    def _render_object(self, descriptor: Descriptor, is_sparse: bool) -> list[str]:
        lines = ["has = m.HasField", "d = {}"]
        always: list[str] = []

        def flush() -> None:
            if always:
                fresh = lines[-1] == "d = {}"
                text = "{" + ", ".join(always) + "}"
                lines[-1:] = [f"d = {text}"] if fresh else [lines[-1], f"d.update({text})"]
                always.clear()

        for own in list_members(descriptor, self._profile):
            member = replace(own, is_sparse=True) if is_sparse else own
            field, shown = member.field, self._render_member(member)
            there = f"has({field.name!r})"
            if member.is_flattened:
                flush()
                lines += [f"if {there}:", f"    d.update({shown})"]
            elif field.has_presence and (
                is_sparse or member.is_omitted_when_absent or member.is_clearable
            ):
                flush()
                lines += [f"if {there}:", f"    d[{member.name!r}] = {shown}"]
            elif field.is_repeated and member.is_omitted_when_absent:
                flush()
                lines += [f"if m.{field.name}:", f"    d[{member.name!r}] = {shown}"]
            elif field.has_presence:
                always.append(f"{member.name!r}: {shown} if {there} else None")
            elif is_sparse and _is_null_when_zero(member):
                flush()
                lines += [f"if m.{field.name}:", f"    d[{member.name!r}] = {shown}"]
            else:
                always.append(f"{member.name!r}: {shown}")
        flush()
        return [*lines, "return d"]

    def _render_member(self, member: JsonMember) -> str:
        field, source = member.field, f"m.{member.field.name}"
        if is_map(field):
            entry = get_message_type(field)
            key, held = entry.fields_by_name["key"], entry.fields_by_name["value"]
            value = self._render_value(
                replace(member, field=held, holds_json=False), f"{source}[k]"
            )
            shown = "k" if key.type == FieldDescriptor.TYPE_STRING else "keys(k)"
            # maps have no order of their own: equal messages are equal JSON
            return f"{{{shown}: {value} for k in sorted({source})}}"
        if field.is_repeated:
            value = self._render_value(member, "x")
            return f"[*{source}]" if value == "x" else f"[{value} for x in {source}]"
        # null means clear, in both directions
        return f"{source} or None" if member.is_clearable else self._render_value(member, source)

    def _render_value(self, member: JsonMember, source: str) -> str:
        field = member.field
        if field.type in MESSAGE_FIELD_TYPES:
            function = self._compile_function(get_message_type(field), is_sparse=member.is_sparse)
            return f"{function}({source})"
        if field.type == FieldDescriptor.TYPE_ENUM:
            enum = get_enum_type(field)
            table = "texts_" + enum.full_name.replace(".", "_")
            self._namespace[table] = get_enum_texts(enum)
            # a value that only a newer server knows appears as its number
            return f"{table}.get({source}, {source})"
        if field.type == FieldDescriptor.TYPE_BYTES:
            return f"base64({source})"
        return f"value({source})" if member.holds_json else source


def _is_null_when_zero(member: JsonMember) -> bool:
    """Return True for a field without presence whose zero is shown as null."""
    field = member.field
    if field.is_repeated:
        return False
    if field.type == FieldDescriptor.TYPE_ENUM:
        return get_enum_texts(get_enum_type(field)).get(0) is None
    return member.holds_json


def _to_json_fragment(text: str) -> Any:
    return orjson.Fragment(text) if text else None


def _encode_base64(value: bytes) -> str:
    return base64.b64encode(value).decode("ascii")


def _format_map_key(key: Any) -> str:
    return str(key).lower() if isinstance(key, bool) else str(key)
