"""Test which texts count as JSON."""

from __future__ import annotations

import json

import pytest
from grpc_rest_gateway.jsonscan import DEPTH_MAX, StrictJsonError, parse_json
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "{",
        "{}{}",
        "{} x",
        "{'a':1}",
        '{"a":1,}',
        "[1,]",
        "{a:1}",
        '{"a":01}',
        '{"a":+1}',
        '{"a":.5}',
        '{"a":NaN}',
        '{"a":Infinity}',
        '{"a":-Infinity}',
        '{"a":1e999}',
        '"\\ud800"',
        '"\\udc00\\ud800"',
        '{"\\ud800":1}',
        '"a\nb"',
        "// x\n{}",
        "\ufeff{}",
        "True",
        "undefined",
    ],
)
def test_invalid_json_is_refused(text):
    with pytest.raises(StrictJsonError, match="is not valid JSON"):
        parse_json(text.encode())


@pytest.mark.parametrize(
    "body", [b'"\xff"', b'"\xed\xa0\x80"', b'{"a":\x00}', "{}".encode("utf-16")]
)
def test_invalid_utf8_is_refused(body):
    with pytest.raises(StrictJsonError):
        parse_json(body)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":1}',
        '{"a":1,"b":2,"a":null}',
        '{"a" :1,"a"\t\n:2}',
        '{"a":1,"\\u0061":2}',
        '{"x":{"a":1,"a":2}}',
        '[{"a":[{"b":1,"b":{}}]}]',
        '{"":1,"":2}',
        '{"a":"\\":","a":1}',
        '{"a":":x","a":":y"}',
    ],
)
def test_duplicate_member_is_refused(text):
    with pytest.raises(StrictJsonError, match="twice"):
        parse_json(text.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"a":{"a":{"a":1}}}',
        '[{"a":1},{"a":1}]',
        '{"a":"\\":","b":"x\\":y"}',
        '{"a":[":",":x"," :"]}',
        '{"a\\"":1,"a":2}',
        '{"a":"b\\\\","b":1}',
    ],
)
def test_colons_and_quotes_in_texts_are_no_members(text):
    assert parse_json(text.encode()) == json.loads(text)


def test_an_integer_beyond_64_bits_is_no_integer_any_more():
    assert parse_json(b"[18446744073709551615,18446744073709551616]") == [2**64 - 1, 2.0**64]


@pytest.mark.parametrize("text", ['"\\u0000"', '{"a":["x\\u0000"]}', '{"\\u0000":1}'])
def test_the_character_nul_is_refused(text):
    with pytest.raises(StrictJsonError, match=r"U\+0000"):
        parse_json(text.encode())


def test_a_text_about_nul_is_fine():
    assert parse_json(b'{"a":"\\\\u0000"}') == {"a": "\\u0000"}


@pytest.mark.parametrize(("opened", "closed"), [("[", "]"), ('{"a":', "}")])
def test_nesting_is_bounded(opened, closed):
    middle = "1"
    fits = opened * DEPTH_MAX + middle + closed * DEPTH_MAX
    assert parse_json(fits.encode()) is not None
    for depth in (DEPTH_MAX + 1, 1000, 100_000):
        with pytest.raises(StrictJsonError):
            parse_json((opened * depth + middle + closed * depth).encode())


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_every_value_comes_back(value, indent, escaped):
    assert parse_json(json.dumps(value, indent=indent, ensure_ascii=escaped).encode()) == value


@given(st.lists(st.tuples(st.sampled_from(['a"', "b\\", ":", "c", '":']), VALUES), max_size=4))
def test_members_are_distinct_exactly_if_it_parses(pairs):
    text = "{" + ",".join(f"{json.dumps(name)}:{json.dumps(value)}" for name, value in pairs) + "}"
    if len({name for name, _ in pairs}) == len(pairs):
        assert parse_json(text.encode()) == dict(pairs)
    else:
        with pytest.raises(StrictJsonError, match="twice"):
            parse_json(text.encode())
