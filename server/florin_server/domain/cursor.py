"""Cursors: where the next page of a list begins, as opaque text.

A cursor holds a position (the values that the list is sorted by, of the last row that was told)
and a digest of the list that it belongs to: scope, filters and order. It keeps nobody out: what a
caller may see is decided anew for each page.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error
from hashlib import sha256
from typing import Any

from florin_server.domain.errors import Code, FlorinError, Issue

Position = tuple[str | int, ...]

# the documented bound of the text
CURSOR_MAX = 512
# enough that two lists of one caller never look alike, and that a slip never passes
_LIST_BYTES = 12
_CHECK_BYTES = 6
# what every engine keeps as a number
_NUMBERS = range(-(2**63), 2**63)
_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


def encode(position: Position, binding: bytes | str) -> str:
    """Writes a cursor; `binding` names the list: scope, filters and order, but not the page size.

    ValueError if the position is too long for a cursor.
    """
    held = _digest(binding, _LIST_BYTES) + _JSON.encode(position).encode()
    text = urlsafe_b64encode(held + _digest(held, _CHECK_BYTES)).rstrip(b"=").decode()
    if len(text) > CURSOR_MAX:
        raise ValueError("position is too long for a cursor")
    return text


def decode(text: str, binding: bytes | str, *kinds: type[str | int]) -> tuple[Any, ...]:
    """Reads the position of a cursor that `encode` wrote for the same list.

    It has one value of each of the kinds, in this order. FlorinError invalid_params if the cursor
    is damaged, or belongs to another list.
    """
    held = _checked(text)
    if held[:_LIST_BYTES] != _digest(binding, _LIST_BYTES):
        raise _refusal("belongs to other filters or another order")
    try:
        position = json.loads(held[_LIST_BYTES:])
    except (ValueError, RecursionError) as error:
        raise damaged() from error
    if not isinstance(position, list) or [type(value) for value in position] != [*kinds]:
        raise damaged()
    if not all(map(_can_be_kept, position)):
        raise damaged()
    return tuple(position)


def _checked(text: str) -> bytes:
    """The bytes of a cursor, without their check; there is one text for the same bytes."""
    if len(text) > CURSOR_MAX:
        raise damaged()
    try:
        everything = urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (Error, UnicodeError) as error:
        raise damaged() from error
    held, check = everything[:-_CHECK_BYTES], everything[-_CHECK_BYTES:]
    same_text = urlsafe_b64encode(everything).rstrip(b"=").decode() == text
    if not same_text or check != _digest(held, _CHECK_BYTES):
        raise damaged()
    return held


def _can_be_kept(value: str | int) -> bool:
    if isinstance(value, int):
        return value in _NUMBERS
    # lone surrogates and NUL are no text to a database
    return "\0" not in value and not any("\ud800" <= char <= "\udfff" for char in value)


def _digest(of: bytes | str, size: int) -> bytes:
    return sha256(of.encode() if isinstance(of, str) else of).digest()[:size]


def damaged() -> FlorinError:
    """A cursor that is none, or holds a position that its list cannot have."""
    return _refusal("is damaged")


def _refusal(why: str) -> FlorinError:
    return FlorinError(Code.INVALID_PARAMS, f"cursor {why}", issues=(Issue("cursor", why),))
