"""Strict JSON: what orjson accepts and a wire contract must not.

orjson already refuses NaN, Infinity, lone surrogates, numbers beyond a double, invalid UTF-8 and
anything after the value. Left to find here: a member given twice, U+0000 and deep nesting.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

DEPTH_MAX = 64

# every member's key ends in such a place; some texts hold one as well
_KEY_END = re.compile(rb'"[ \t\n\r]*:')


class JsonError(ValueError):
    """Bytes that are not one strict JSON value; the text completes "the body …"."""


def parse(body: bytes) -> Any:
    """The value, with dicts for objects; integers beyond 64 bits come as floats."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise JsonError("is not valid JSON") from None
    # the text counts all members and maybe more, the tree counts those that survived: equal
    # numbers prove that no member came twice
    if isinstance(value, dict | list) and len(_KEY_END.findall(body)) != _members(value, 1):
        _refuse_duplicates(body)
    if b"\\u0000" in body and _holds_nul(value):
        raise JsonError("holds the character U+0000")
    return value


def _members(value: Any, depth: int) -> int:
    """Members in a tree; nesting is bounded on the way."""
    if depth > DEPTH_MAX:
        raise JsonError(f"is nested more than {DEPTH_MAX} levels deep")
    if type(value) is dict:
        count = len(value)
        children = value.values()
    else:
        count = 0
        children = value
    for child in children:
        if type(child) is dict or type(child) is list:
            count += _members(child, depth + 1)
    return count


def _refuse_duplicates(body: bytes) -> None:
    # numbers are not looked at: converting long ones would be slow
    json.loads(body, object_pairs_hook=_distinct, parse_int=len, parse_float=len)


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise JsonError("names a member twice")


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, list):
        return any(map(_holds_nul, value))
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(child) for name, child in value.items())
    return False
