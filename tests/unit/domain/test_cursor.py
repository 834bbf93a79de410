"""Test that cursors decode to what was encoded, and that all other texts are refused."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from hashlib import sha256

import pytest
from florin_server.domain.cursor import CURSOR_MAX, decode_cursor, encode_cursor
from florin_server.domain.errors import ApiError, ErrorCode
from hypothesis import assume, given
from hypothesis import strategies as st

_TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
_NUMBERS = st.integers(-(2**63), 2**63 - 1)
_POSITIONS = st.lists(_TEXTS | _NUMBERS, max_size=4).map(tuple)
_BINDINGS = st.binary(max_size=64) | _TEXTS


def _refused(text: str, binding: bytes | str, *kinds: type[str | int]) -> str:
    with pytest.raises(ApiError) as caught:
        decode_cursor(text, binding, *kinds)
    assert caught.value.code is ErrorCode.INVALID_PARAMS
    assert [issue.field for issue in caught.value.issues] == ["cursor"]
    return caught.value.message


@given(position=_POSITIONS, binding=_BINDINGS)
def test_a_position_comes_back_for_the_same_list(
    position: tuple[str | int, ...], binding: bytes | str
) -> None:
    text = encode_cursor(position, binding)
    assert len(text) <= CURSOR_MAX
    assert text.replace("-", "a").replace("_", "a").isalnum()
    assert decode_cursor(text, binding, *map(type, position)) == position


@given(position=_POSITIONS, ours=_BINDINGS, other=_BINDINGS)
def test_a_cursor_of_another_list_is_refused(
    position: tuple[str | int, ...], ours: bytes | str, other: bytes | str
) -> None:
    as_bytes = [item.encode() if isinstance(item, str) else item for item in (ours, other)]
    assume(as_bytes[0] != as_bytes[1])
    message = _refused(encode_cursor(position, ours), other, *map(type, position))
    assert (
        message
        == "cursor belongs to other filters or another order: repeat the filters of the first page"
    )


@given(position=_POSITIONS, data=st.data())
def test_cursor_with_a_changed_character_is_damaged(
    position: tuple[str | int, ...], data: st.DataObject
) -> None:
    text = encode_cursor(position, "list")
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters()) + text[at + 1 :]
    assume(changed != text)
    assert (
        _refused(changed, "list", *map(type, position))
        == "cursor is damaged: start again from the first page"
    )


@given(text=st.text(max_size=CURSOR_MAX + 1))
def test_any_other_text_is_damaged(text: str) -> None:
    assert _refused(text, "list", str) == "cursor is damaged: start again from the first page"


def _forged(held: str) -> str:
    """Forge a cursor with knowledge of the format."""
    content = sha256(b"list").digest()[:12] + held.encode("utf-8", "surrogatepass")
    return urlsafe_b64encode(content + sha256(content).digest()[:6]).rstrip(b"=").decode()


@pytest.mark.parametrize(
    "held",
    [
        "",
        "{}",
        "[",
        '"pay_1"',
        "[]",
        "[1]",
        "[null]",
        "[true]",
        '["a","b"]',
        '["\\ud800"]',
        '["\\udfff"]',
        '["\\u0000"]',
        "[[" * 100,
    ],
)
def test_a_forged_position_of_another_kind_is_damaged(held: str) -> None:
    assert (
        _refused(_forged(held), "list", str) == "cursor is damaged: start again from the first page"
    )


def test_a_forged_number_that_no_engine_keeps_is_damaged() -> None:
    assert decode_cursor(_forged(json.dumps([2**63 - 1])), "list", int) == (2**63 - 1,)
    assert (
        _refused(_forged(json.dumps([2**63])), "list", int)
        == "cursor is damaged: start again from the first page"
    )


def test_a_cursor_that_is_too_long_is_damaged_and_never_written() -> None:
    with pytest.raises(ValueError, match="too long"):
        encode_cursor(("x" * CURSOR_MAX,), "list")
    assert (
        _refused(_forged(json.dumps(["x" * CURSOR_MAX])), "list", str)
        == "cursor is damaged: start again from the first page"
    )


def test_the_longest_cursor_is_written_and_read():
    longest = ("a" * 362,)
    text = encode_cursor(longest, "list")
    assert len(text) == CURSOR_MAX
    assert decode_cursor(text, "list", str) == longest
    with pytest.raises(ValueError, match="too long"):
        encode_cursor(("a" * 363,), "list")


def test_damaged_cursor_is_reported_on_its_field():
    with pytest.raises(ApiError) as caught:
        decode_cursor("damaged", "list", str)
    assert [issue.message for issue in caught.value.issues] == [
        "is damaged: start again from the first page"
    ]
