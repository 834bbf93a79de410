import os
import random
import re
from collections import Counter

import pytest
from florin_server.domain.ids import (
    RequestIdGenerator,
    encode_base62,
    generate_base62,
    generate_payment_id,
    generate_short_id,
    get_payment_id_floor,
    is_payment_id_shape,
)
from hypothesis import given
from hypothesis import strategies as st

NOW_US = 1_784_000_000_123_456


@given(st.integers(0, 62**9 - 1), st.integers(0, 62**9 - 1))
def test_base_62_sorts_as_its_numbers(number, other_number):
    assert (encode_base62(number, 9) < encode_base62(other_number, 9)) == (number < other_number)


@pytest.mark.parametrize("number", [-1, 62**3])
def test_base_62_refuses_a_number_that_does_not_fit(number):
    with pytest.raises(ValueError, match="does not fit"):
        encode_base62(number, 3)


def test_base_62_fills_its_width():
    assert (encode_base62(0, 3), encode_base62(61, 3), encode_base62(62, 3)) == (
        "000",
        "00z",
        "010",
    )


def test_a_payment_id_has_the_documented_form():
    created = generate_payment_id(NOW_US, os.urandom)
    assert re.fullmatch(r"pay_[A-Za-z0-9]{27}", created)
    assert is_payment_id_shape(created)


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.binary(min_size=34, max_size=34))
def test_payment_ids_sort_by_their_creation_millisecond(one_us, other_us, raw):
    text = generate_payment_id(one_us, lambda count: raw[:count])
    other = generate_payment_id(other_us, lambda count: raw[:count])
    assert (text < other) == (one_us // 1000 < other_us // 1000)


def test_payment_ids_of_the_same_instant_differ():
    assert len({generate_payment_id(NOW_US, os.urandom) for _ in range(1000)}) == 1000


def test_random_digits_are_all_equally_likely():
    source = random.Random(4217)
    drawn = Counter("".join(generate_base62(50, source.randbytes) for _ in range(1240)))
    assert len(drawn) == 62
    assert all(850 < count < 1150 for count in drawn.values())


def test_other_ids_are_a_prefix_and_17_digits():
    assert re.fullmatch(r"mrch_[A-Za-z0-9]{17}", generate_short_id("mrch_", os.urandom))


@pytest.mark.parametrize("text", ["pay_x", "pay_" + "a" * 60, "pay_a-b_c", "pay__"])
def test_texts_of_payment_id_shape(text):
    assert is_payment_id_shape(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "pay_",
        "pay",
        "Pay_x",
        "pay_x\n",
        " pay_x",
        "pay_x/",
        "pay_" + "a" * 61,
        "pay_é",
        "xpay_x",
        "pay_x.y",
        "pay_%41",
    ],
)
def test_texts_that_no_payment_can_have_as_id(text):
    assert not is_payment_id_shape(text)


@pytest.mark.parametrize("ms", [0, 1, 1_784_000_000_123, 62**9 - 2])
def test_payment_id_floor_separates_milliseconds(ms):
    for draw in (bytes, lambda count: b"\xff" * count):
        assert (
            generate_payment_id(ms * 1000 + 999, draw)
            < get_payment_id_floor(ms + 1)
            <= generate_payment_id((ms + 1) * 1000, draw)
        )


def test_payment_id_floor_of_a_negative_time_is_zero():
    assert get_payment_id_floor(-1) == get_payment_id_floor(0) == "pay_000000000"


def test_request_ids_are_unique_within_and_between_processes():
    request_ids, other = RequestIdGenerator(os.urandom), RequestIdGenerator(os.urandom)
    created = [ids.make() for _ in range(5000) for ids in (request_ids, other)]
    assert len(set(created)) == len(created)
    assert all(re.fullmatch(r"req_[A-Za-z0-9]{17}", each) for each in created)
