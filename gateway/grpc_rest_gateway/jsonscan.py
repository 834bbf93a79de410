"""Strict JSON: refuse input that orjson accepts and a wire contract must not.

orjson already refuses NaN, Infinity, lone surrogates, numbers beyond a double, invalid UTF-8 and
anything after the value. This module finds duplicate members, U+0000 and deep nesting.
"""

from __future__ import annotations

import json
import re
from typing import Any

import orjson

DEPTH_MAX = 64

# every member's key ends in such a place; some texts contain such a place too
_KEY_END = re.compile(rb'"[ \t\n\r]*:')


class StrictJsonError(ValueError):
    """Bytes that are not one strict JSON value; the message completes "the body …"."""


def parse_json(body: bytes) -> Any:
    """Return the value, with dicts for objects; integers beyond 64 bits become floats."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError:
        raise StrictJsonError("is not valid JSON") from None
    # the text counts all members and possibly more, the tree counts the remaining ones: equal
    # counts prove that no member was given twice
    if isinstance(value, dict | list) and len(_KEY_END.findall(body)) != _count_members(value, 1):
        _reject_duplicates(body)
    if b"\\u0000" in body and _has_nul(value):
        raise StrictJsonError("contains the character U+0000")
    return value


def _count_members(value: Any, depth: int) -> int:
    """Count the members in a tree; limit its depth on the way."""
    if depth > DEPTH_MAX:
        raise StrictJsonError(f"is nested more than {DEPTH_MAX} levels deep")
    if type(value) is dict:
        count = len(value)
        children = value.values()
    else:
        count = 0
        children = value
    for child in children:
        if type(child) is dict or type(child) is list:
            count += _count_members(child, depth + 1)
    return count


def _reject_duplicates(body: bytes) -> None:
    # numbers are not parsed: converting long numbers would be slow
    json.loads(body, object_pairs_hook=_require_distinct_names, parse_int=len, parse_float=len)


def _require_distinct_names(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        raise StrictJsonError("contains a member twice")


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, list):
        return any(map(_has_nul, value))
    if isinstance(value, dict):
        return any("\0" in name or _has_nul(child) for name, child in value.items())
    return False
