"""Cursors: the start of the next page of a list, as opaque text.

A cursor contains a position (the sort values of the last row) and a digest of its list: scope,
filters and order. It protects nothing: each page checks again what the caller can see.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from typing import Any

from florin_server.domain.errors import ApiError, ErrorCode, FieldIssue

Position = tuple[str | int, ...]

# the documented bound of the text
CURSOR_MAX = 512
# enough that no two lists of one caller look alike, and no mistake passes
_LIST_BYTES = 12
_CHECK_BYTES = 6
# the range of numbers in every database engine
_NUMBERS = range(-(2**63), 2**63)
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode_cursor(position: Position, binding: bytes | str) -> str:
    """Write a cursor; `binding` names the list: scope, filters and order, but not the page size.

    ValueError if the position is too long for a cursor.
    """
    held = _digest(binding, _LIST_BYTES) + _JSON.encode(position).encode()
    text = urlsafe_b64encode(held + _digest(held, _CHECK_BYTES)).rstrip(b"=").decode()
    if len(text) > CURSOR_MAX:
        raise ValueError("position is too long for a cursor")
    return text


def decode_cursor(text: str, binding: bytes | str, *kinds: type[str | int]) -> tuple[Any, ...]:
    """Return the position in a cursor that `encode_cursor` wrote for the same list.

    It has one value of each of the kinds, in this order. ApiError invalid_params if the cursor
    is damaged or belongs to another list.
    """
    held = _verify_digest(text)
    if held[:_LIST_BYTES] != _digest(binding, _LIST_BYTES):
        raise _cursor_error(
            "belongs to other filters or another order: repeat the filters of the first page"
        )
    try:
        position = json.loads(held[_LIST_BYTES:])
    except (ValueError, RecursionError) as error:
        raise damaged_cursor_error() from error
    if not isinstance(position, list) or [type(value) for value in position] != [*kinds]:
        raise damaged_cursor_error()
    if not all(map(_is_storable, position)):
        raise damaged_cursor_error()
    return tuple(position)


def _verify_digest(text: str) -> bytes:
    """Return the bytes of a cursor, without their check; the same bytes have one text only."""
    if len(text) > CURSOR_MAX:
        raise damaged_cursor_error()
    try:
        everything = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (Error, UnicodeError) as error:
        raise damaged_cursor_error() from error
    held, check = everything[:-_CHECK_BYTES], everything[-_CHECK_BYTES:]
    same_text = urlsafe_b64encode(everything).rstrip(b"=").decode() == text
    if not same_text or check != _digest(held, _CHECK_BYTES):
        raise damaged_cursor_error()
    return held


def _is_storable(value: str | int) -> bool:
    if isinstance(value, int):
        return value in _NUMBERS
    # databases do not accept lone surrogates and NUL
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def _digest(of: bytes | str, size: int) -> bytes:
    return sha256(of.encode() if isinstance(of, str) else of).digest()[:size]


def damaged_cursor_error() -> ApiError:
    """Return the error for an invalid cursor, or a position that its list cannot have."""
    return _cursor_error("is damaged: start again from the first page")


def _cursor_error(why: str) -> ApiError:
    return ApiError(ErrorCode.INVALID_PARAMS, f"cursor {why}", issues=(FieldIssue("cursor", why),))
