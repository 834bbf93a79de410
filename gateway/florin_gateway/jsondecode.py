"""Decoders compiled from descriptors: one generated function per message type.

A decoder fills a message from a parsed object. It does not stop at the first fault: it notes each
with its path and goes on, up to a limit, so that a caller learns of all at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import orjson
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from florin_gateway.errors import Issue
from florin_gateway.jsonshape import (
    FLOATS,
    INTEGERS,
    KNOWN,
    MESSAGES,
    TIMESTAMP,
    Member,
    bytes_of,
    check_shape,
    enum_numbers,
    enum_of,
    is_map,
    is_strict,
    key_of,
    members_of,
    message_of,
    read_known,
    read_timestamp,
    union_of,
)
from florin_gateway.profiles import Profile

ISSUES_MAX = 20
# characters of an unknown member that its refusal repeats
_NAME_MAX = 64

Decoder = Callable[[Any, Any, list[Issue]], None]


class Decoders:
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

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self._names: dict[str, Any] = {
            "I": Issue,
            "below": _below,
            "bytes_of": bytes_of,
            "json_of": _json_of,
            "timestamp": read_timestamp,
            "known": read_known,
            "key_of": key_of,
            "inf": math.inf,
        }

    def of(self, descriptor: Descriptor, without: frozenset[str] = frozenset()) -> Decoder:
        """The decoder of a message type that leaves out some of its fields, by proto name."""
        decoder: Decoder = self._names[self._function(descriptor, without)]
        return decoder

    def _function(self, descriptor: Descriptor, without: frozenset[str] = frozenset()) -> str:
        plain = "fill_" + descriptor.full_name.replace(".", "_")
        name = "_without_".join([plain, *sorted(without)])
        if name not in self._names:
            check_shape(descriptor)
            # reserved first: a type may hold itself
            self._names[name] = None
            union = union_of(descriptor)
            lines = ["if type(v) is not dict:", "    f.append(I('', 'must be an object'))"]
            lines.append("    return")
            if union is not None:
                lines += self._union(union.fields)
            members = [
                member
                for member in (members_of(descriptor, self._profile) if union is None else ())
                if member.field.name not in without
            ]
            if is_strict(descriptor):
                lines += self._unknown(name, members)
            for member in members:
                lines += self._member(member)
            source = "\n    ".join([f"def {name}(v, m, f):", *lines])
            # the text is made of descriptors alone, and names in it pass through repr
            exec(compile(source, f"<decoder of {descriptor.full_name}>", "exec"), self._names)  # noqa: S102
        return name

    def _union(self, fields: Any) -> list[str]:
        lines = ["kind = v.get('type')", "x = v.get('data')"]
        lines += ["if kind is None:", "    f.append(I('type', 'is required'))", "    return"]
        for field in fields:
            member = Member(field, "data", required=True)
            lines.append(f"if kind == {field.json_name!r}:")
            lines += _indented([*self._single(member), "return"])
        return [*lines, "f.append(I('type', 'is not a known value'))"]

    def _unknown(self, name: str, members: list[Member]) -> list[str]:
        """Refuse members that the message does not have."""
        names: set[str] = set()
        for member in members:
            if member.flatten and member.message is not None:
                names |= {inner.name for inner in members_of(member.message, self._profile)}
            else:
                names.add(member.name)
        table = "known_" + name
        self._names[table] = frozenset(names)
        return [
            "for k in v:",
            f"    if k not in {table}:",
            f"        f.append(I(k[:{_NAME_MAX}], 'is unknown'))",
            f"        if len(f) >= {ISSUES_MAX}:",
            "            break",
        ]

    def _member(self, member: Member) -> list[str]:
        if member.flatten and member.message is not None:
            return self._flattened(member, member.message)
        lines = [f"x = v.get({member.name!r})"]
        return lines + (self._several(member) if member.field.is_repeated else self._single(member))

    def _flattened(self, member: Member, message: Descriptor) -> list[str]:
        names = frozenset(inner.name for inner in members_of(message, self._profile))
        table = "members_" + message.full_name.replace(".", "_")
        self._names[table] = names
        field = member.field.name
        lines = [f"m.{field}.SetInParent()", f"{self._function(message)}(v, m.{field}, f)"]
        if member.required:
            return lines
        return [f"if not {table}.isdisjoint(v):", *_indented(lines)]

    def _single(self, member: Member) -> list[str]:
        absent = [f"f.append(I({member.name!r}, 'is required'))"] if member.required else ["pass"]
        wrong = absent if member.lenient else None
        kind, test, use, fault = self._reading(member, member.name)
        if member.clearable:
            absent = [f"if {member.name!r} in v:", f"    m.{member.field.name} = ''"]
            test, fault = "x", "must not be empty"
        lines = ["if x is None:", *_indented(absent), f"elif {kind}:"]
        if test:
            refused = wrong or [f"f.append(I({member.name!r}, {fault!r}))"]
            use = [f"if {test}:", *_indented(use), "else:", *_indented(refused)]
        lines += _indented(use)
        mistyped = wrong or [f"f.append(I({member.name!r}, {_expected(member)!r}))"]
        return [*lines, "else:", *_indented(mistyped)] if kind != "True" else lines

    def _several(self, member: Member) -> list[str]:
        absent = [f"f.append(I({member.name!r}, 'is required'))"] if member.required else ["pass"]
        mapped = is_map(member.field)
        container, what = ("dict", "an object") if mapped else ("list", "an array")
        mistyped = absent if member.lenient else [f"f.append(I({member.name!r}, 'must be {what}'))"]
        body = self._map(member) if mapped else self._list(member)
        lines = ["if x is None:", *_indented(absent), f"elif type(x) is {container}:"]
        return [*lines, *_indented(body), "else:", *_indented(mistyped)]

    def _list(self, member: Member) -> list[str]:
        path = f"{member.name!r} + f'[{{i}}]'"
        kind, test, use, fault = self._reading(member, path, into="append")
        lines = [f"append = m.{member.field.name}.append", "for i, x in enumerate(x):"]
        if member.message is not None:
            lines[0] = f"add = m.{member.field.name}.add"
        if test:
            use = [f"if {test}:", *_indented(use), "else:", f"    f.append(I({path}, {fault!r}))"]
        step = [f"if {kind}:", *_indented(use), "else:"]
        step += [f"    f.append(I({path}, {_expected(member)!r}))"]
        step += [f"if len(f) >= {ISSUES_MAX}:", "    break"]
        return lines + _indented(step)

    def _map(self, member: Member) -> list[str]:
        entry = message_of(member.field)
        key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
        inner = Member(value, member.name)
        path = f"{member.name + '.'!r} + k"
        kind, test, use, fault = self._reading(inner, path, into=f"m.{member.field.name}[key]")
        if test:
            use = [f"if {test}:", *_indented(use), "else:", f"    f.append(I({path}, {fault!r}))"]
        step = [f"key = key_of(k, {key.type})", "if key is None:"]
        step += [f"    f.append(I({path}, 'is not a valid key'))", f"elif {kind}:", *_indented(use)]
        step += ["else:", f"    f.append(I({path}, {_expected(inner)!r}))"]
        step += [f"if len(f) >= {ISSUES_MAX}:", "    break"]
        return ["for k, x in x.items():", *_indented(step)]

    def _reading(
        self, member: Member, path: str, into: str = ""
    ) -> tuple[str, str, list[str], str]:
        """How to read one value `x`: test of its type, test of its content, use, content fault.

        `path` is an expression where `into` is given, else the member's name.
        """
        field = member.field
        quoted = path if into else repr(path)
        if field.type in MESSAGES:
            return self._reading_message(field, quoted, into)
        if member.holds_json:
            return "True", "", [_store(field, "json_of(x)", into)], ""
        if field.type in INTEGERS:
            low, high = INTEGERS[field.type]
            use = [_store(field, "x", into)]
            return "type(x) is int", f"{low} <= x <= {high}", use, "is out of range"
        if field.type in FLOATS:
            bound = FLOATS[field.type]
            kind = "(type(x) is float or type(x) is int)"
            use = [_store(field, "x", into)]
            return kind, f"-{bound!r} <= x <= {bound!r}", use, "is out of range"
        if field.type == FieldDescriptor.TYPE_ENUM:
            enum = enum_of(field)
            table = "numbers_" + enum.full_name.replace(".", "_")
            self._names[table] = enum_numbers(enum)
            use = [_store(field, f"{table}[x]", into)]
            return "type(x) is str", f"x in {table}", use, "is not a known value"
        if field.type == FieldDescriptor.TYPE_BYTES:
            use = [_store(field, "t", into)]
            return "type(x) is str", "(t := bytes_of(x)) is not None", use, "is not base64"
        kind = "bool" if field.type == FieldDescriptor.TYPE_BOOL else "str"
        return f"type(x) is {kind}", "", [_store(field, "x", into)], ""

    def _reading_message(
        self, field: FieldDescriptor, path: str, into: str
    ) -> tuple[str, str, list[str], str]:
        place = into if into.startswith("m.") else f"m.{field.name}"
        new = "s = add()" if into == "append" else f"s = {place}"
        begin = [new] if into else [new, "s.SetInParent()"]
        message = message_of(field)
        name = message.full_name
        if name == TIMESTAMP or name in KNOWN:
            reader, kind = (
                ("timestamp", "type(x) is str") if name == TIMESTAMP else ("known", "True")
            )
            failed = [f"if not {reader}(x, s):", f"    f.append(I({path}, 'is malformed'))"]
            return kind, "", [*begin, *failed], ""
        fill = [f"n = len(f); {self._function(message)}(x, s, f)"]
        return "type(x) is dict", "", [*begin, *fill, f"if len(f) > n: below(f, n, {path})"], ""


def _store(field: FieldDescriptor, value: str, into: str) -> str:
    if into == "append":
        return f"append({value})"
    return f"{into or 'm.' + field.name} = {value}"


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _expected(member: Member) -> str:
    kind = member.field.type
    if kind in MESSAGES:
        timestamp = message_of(member.field).full_name == TIMESTAMP
        return "must be an RFC 3339 time" if timestamp else "must be an object"
    if kind in INTEGERS:
        return "must be an integer"
    if kind in FLOATS:
        return "must be a number"
    return "must be a boolean" if kind == FieldDescriptor.TYPE_BOOL else "must be a string"


def _below(faults: list[Issue], start: int, name: str) -> None:
    """Put the parent's name before the paths of its own faults."""
    for at in range(start, len(faults)):
        path, message = faults[at]
        faults[at] = Issue(f"{name}.{path}" if path else name, message)


def _json_of(value: Any) -> str:
    """Compact text of a JSON value; fractions and integers beyond 64 bits read as doubles."""
    return orjson.dumps(value).decode()
