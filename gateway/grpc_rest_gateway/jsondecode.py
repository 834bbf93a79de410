"""Decoders compiled from descriptors: one generated function per message type.

A decoder fills a message from a parsed object. It does not stop at the first fault: it records each
fault with its path, up to a limit, so that a caller gets all of them at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from grpc_rest_gateway.errors import RequestIssue
from grpc_rest_gateway.jsonshape import (
    FLOAT_BOUNDS,
    INTEGER_BOUNDS,
    MESSAGE_FIELD_TYPES,
    TIMESTAMP_TYPE,
    WELL_KNOWN_TYPES,
    JsonMember,
    check_shape,
    decode_base64,
    find_union,
    get_enum_numbers,
    get_enum_type,
    get_message_type,
    is_map,
    is_strict,
    list_members,
    parse_known_type,
    parse_map_key,
    parse_timestamp,
)
from grpc_rest_gateway.profiles import JsonProfile

ISSUES_MAX = 20
# length to which an error shortens the name of an unknown member
_NAME_MAX = 64

MessageDecoder = Callable[[Any, Any, list[RequestIssue]], None]


class DecoderCompiler:
    """The decoders of one profile.

    A generated function takes the parsed value, the message and the faults; of one member it has:

            x = v.get('data')
            if x is None:
                pass
            elif type(x) is str:
                m.data = x
            else:
                f.append(I('data', 'must be a string'))
    """

    def __init__(self, profile: JsonProfile) -> None:
        self._profile = profile
        self._namespace: dict[str, Any] = {
            "I": RequestIssue,
            "below": _prefix_paths,
            "bytes_of": decode_base64,
            "json_of": _format_json,
            "timestamp": parse_timestamp,
            "known": parse_known_type,
            "key_of": parse_map_key,
            "inf": math.inf,
        }

    def get_decoder(
        self, descriptor: Descriptor, excluded_fields: frozenset[str] = frozenset()
    ) -> MessageDecoder:
        """Return the decoder of a message type without some of its fields, given by proto name."""
        decoder: MessageDecoder = self._namespace[
            self._compile_function(descriptor, excluded_fields)
        ]
        return decoder

    def _compile_function(
        self, descriptor: Descriptor, excluded_fields: frozenset[str] = frozenset()
    ) -> str:
        plain = "fill_" + descriptor.full_name.replace(".", "_")
        name = "_without_".join([plain, *sorted(excluded_fields)])
        if name not in self._namespace:
            check_shape(descriptor)
            # registered before it is built: a type can contain itself
            self._namespace[name] = None
            union = find_union(descriptor)
            lines = ["if type(v) is not dict:", "    f.append(I('', 'must be an object'))"]
            lines.append("    return")
            if union is not None:
                lines += self._render_union(union.fields)
            members = [
                member
                for member in (list_members(descriptor, self._profile) if union is None else ())
                if member.field.name not in excluded_fields
            ]
            if is_strict(descriptor):
                lines += self._render_unknown_check(name, members)
            for member in members:
                lines += self._render_member(member)
            source = "\n    ".join([f"def {name}(v, m, f):", *lines])
            # the source contains descriptor data only, and its names pass through repr
            exec(compile(source, f"<decoder of {descriptor.full_name}>", "exec"), self._namespace)  # noqa: S102
        return name

    def _render_union(self, fields: Any) -> list[str]:
        lines = ["kind = v.get('type')", "x = v.get('data')"]
        lines += ["if kind is None:", "    f.append(I('type', 'is required'))", "    return"]
        for field in fields:
            member = JsonMember(field, "data", is_required=True)
            lines.append(f"if kind == {field.json_name!r}:")
            lines += _indent([*self._render_single(member), "return"])
        return [*lines, "f.append(I('type', 'is not a known value'))"]

    def _render_unknown_check(self, name: str, members: list[JsonMember]) -> list[str]:
        """Refuse members that the message does not have."""
        names: set[str] = set()
        for member in members:
            if member.is_flattened and member.message_type is not None:
                names |= {inner.name for inner in list_members(member.message_type, self._profile)}
            else:
                names.add(member.name)
        table = "known_" + name
        self._namespace[table] = frozenset(names)
        return [
            "for k in v:",
            f"    if k not in {table}:",
            f"        f.append(I(k[:{_NAME_MAX}], 'is unknown'))",
            f"        if len(f) >= {ISSUES_MAX}:",
            "            break",
        ]

    def _render_member(self, member: JsonMember) -> list[str]:
        if member.is_flattened and member.message_type is not None:
            return self._render_flattened(member, member.message_type)
        lines = [f"x = v.get({member.name!r})"]
        return lines + (
            self._render_collection(member)
            if member.field.is_repeated
            else self._render_single(member)
        )

    def _render_flattened(self, member: JsonMember, message: Descriptor) -> list[str]:
        names = frozenset(inner.name for inner in list_members(message, self._profile))
        table = "members_" + message.full_name.replace(".", "_")
        self._namespace[table] = names
        field = member.field.name
        lines = [f"m.{field}.SetInParent()", f"{self._compile_function(message)}(v, m.{field}, f)"]
        if member.is_required:
            return lines
        return [f"if not {table}.isdisjoint(v):", *_indent(lines)]

    def _render_single(self, member: JsonMember) -> list[str]:
        absent = (
            [f"f.append(I({member.name!r}, 'is required'))"] if member.is_required else ["pass"]
        )
        wrong = absent if member.is_lenient else None
        kind, test, use, fault = self._render_value(member, member.name)
        if member.is_clearable:
            absent = [f"if {member.name!r} in v:", f"    m.{member.field.name} = ''"]
            test, fault = "x", "must not be empty"
        lines = ["if x is None:", *_indent(absent), f"elif {kind}:"]
        if test:
            refused = wrong or [f"f.append(I({member.name!r}, {fault!r}))"]
            use = [f"if {test}:", *_indent(use), "else:", *_indent(refused)]
        lines += _indent(use)
        mistyped = wrong or [f"f.append(I({member.name!r}, {_format_type_fault(member)!r}))"]
        return [*lines, "else:", *_indent(mistyped)] if kind != "True" else lines

    def _render_collection(self, member: JsonMember) -> list[str]:
        absent = (
            [f"f.append(I({member.name!r}, 'is required'))"] if member.is_required else ["pass"]
        )
        mapped = is_map(member.field)
        container, what = ("dict", "an object") if mapped else ("list", "an array")
        mistyped = (
            absent if member.is_lenient else [f"f.append(I({member.name!r}, 'must be {what}'))"]
        )
        body = self._render_map(member) if mapped else self._render_list(member)
        lines = ["if x is None:", *_indent(absent), f"elif type(x) is {container}:"]
        return [*lines, *_indent(body), "else:", *_indent(mistyped)]

    def _render_list(self, member: JsonMember) -> list[str]:
        path = f"{member.name!r} + f'[{{i}}]'"
        kind, test, use, fault = self._render_value(member, path, target="append")
        lines = [f"append = m.{member.field.name}.append", "for i, x in enumerate(x):"]
        if member.message_type is not None:
            lines[0] = f"add = m.{member.field.name}.add"
        if test:
            use = [f"if {test}:", *_indent(use), "else:", f"    f.append(I({path}, {fault!r}))"]
        step = [f"if {kind}:", *_indent(use), "else:"]
        step += [f"    f.append(I({path}, {_format_type_fault(member)!r}))"]
        step += [f"if len(f) >= {ISSUES_MAX}:", "    break"]
        return lines + _indent(step)

    def _render_map(self, member: JsonMember) -> list[str]:
        entry = get_message_type(member.field)
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        inner = JsonMember(value, member.name)
        path = f"{member.name + '.'!r} + k[:{_NAME_MAX}]"
        kind, test, use, fault = self._render_value(
            inner, path, target=f"m.{member.field.name}[key]"
        )
        if test:
            use = [f"if {test}:", *_indent(use), "else:", f"    f.append(I({path}, {fault!r}))"]
        step = [f"key = key_of(k, {key.type})", "if key is None:"]
        step += [f"    f.append(I({path}, 'is not a valid key'))", f"elif {kind}:", *_indent(use)]
        step += ["else:", f"    f.append(I({path}, {_format_type_fault(inner)!r}))"]
        step += [f"if len(f) >= {ISSUES_MAX}:", "    break"]
        return ["for k, x in x.items():", *_indent(step)]

    def _render_value(
        self, member: JsonMember, path: str, target: str = ""
    ) -> tuple[str, str, list[str], str]:
        """Return how to read one value `x`: type test, content test, use, content fault.

        `path` is an expression if `target` is given, else the member's name.
        """
        field = member.field
        quoted = path if target else repr(path)
        if field.type in MESSAGE_FIELD_TYPES:
            return self._render_message(field, quoted, target)
        if member.holds_json:
            return "True", "", [_render_assignment(field, "json_of(x)", target)], ""
        if field.type in INTEGER_BOUNDS:
            low, high = INTEGER_BOUNDS[field.type]
            use = [_render_assignment(field, "x", target)]
            return "type(x) is int", f"{low} <= x <= {high}", use, "is out of range"
        if field.type in FLOAT_BOUNDS:
            bound = FLOAT_BOUNDS[field.type]
            kind = "(type(x) is float or type(x) is int)"
            use = [_render_assignment(field, "x", target)]
            return kind, f"-{bound!r} <= x <= {bound!r}", use, "is out of range"
        if field.type == FieldDescriptor.TYPE_ENUM:
            enum = get_enum_type(field)
            table = "numbers_" + enum.full_name.replace(".", "_")
            self._namespace[table] = get_enum_numbers(enum)
            use = [_render_assignment(field, f"{table}[x]", target)]
            return "type(x) is str", f"x in {table}", use, "is not a known value"
        if field.type == FieldDescriptor.TYPE_BYTES:
            use = [_render_assignment(field, "t", target)]
            return "type(x) is str", "(t := bytes_of(x)) is not None", use, "is not base64"
        kind = "bool" if field.type == FieldDescriptor.TYPE_BOOL else "str"
        return f"type(x) is {kind}", "", [_render_assignment(field, "x", target)], ""

    def _render_message(
        self, field: FieldDescriptor, path: str, target: str
    ) -> tuple[str, str, list[str], str]:
        place = target if target.startswith("m.") else f"m.{field.name}"
        new = "s = add()" if target == "append" else f"s = {place}"
        begin = [new] if target else [new, "s.SetInParent()"]
        message = get_message_type(field)
        name = message.full_name
        if name == TIMESTAMP_TYPE or name in WELL_KNOWN_TYPES:
            reader, kind = (
                ("timestamp", "type(x) is str") if name == TIMESTAMP_TYPE else ("known", "True")
            )
            failed = [f"if not {reader}(x, s):", f"    f.append(I({path}, 'is malformed'))"]
            return kind, "", [*begin, *failed], ""
        fill = [f"n = len(f); {self._compile_function(message)}(x, s, f)"]
        return "type(x) is dict", "", [*begin, *fill, f"if len(f) > n: below(f, n, {path})"], ""


def _render_assignment(field: FieldDescriptor, value: str, target: str) -> str:
    if target == "append":
        return f"append({value})"
    return f"{target or 'm.' + field.name} = {value}"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _format_type_fault(member: JsonMember) -> str:
    kind = member.field.type
    if kind in MESSAGE_FIELD_TYPES:
        timestamp = get_message_type(member.field).full_name == TIMESTAMP_TYPE
        return "must be an RFC 3339 time" if timestamp else "must be an object"
    if kind in INTEGER_BOUNDS:
        return "must be an integer"
    if kind in FLOAT_BOUNDS:
        return "must be a number"
    return "must be a boolean" if kind == FieldDescriptor.TYPE_BOOL else "must be a string"


def _prefix_paths(faults: list[RequestIssue], start: int, name: str) -> None:
    """Put the parent's name before the paths of its own faults."""
    for at in range(start, len(faults)):
        path, message = faults[at]
        faults[at] = RequestIssue(f"{name}.{path}" if path else name, message)


def _format_json(value: Any) -> str:
    """Return compact JSON text; fractions and integers beyond 64 bits become doubles."""
    return orjson.dumps(value).decode()
