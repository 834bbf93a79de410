import os
import random
import re
from collections import Counter

import pytest
from florin_server.domain.ids import (
    RequestIds,
    base62,
    is_payment_id_shape,
    made_from,
    payment_id,
    random_base62,
    short_id,
)
from hypothesis import given
from hypothesis import strategies as st

NOW_US = 1_784_000_000_123_456


@given(st.integers(0, 62**9 - 1), st.integers(0, 62**9 - 1))
def test_base_62_sorts_as_its_numbers(one, other):
    assert (base62(one, 9) < base62(other, 9)) == (one < other)


@pytest.mark.parametrize("number", [-1, 62**3])
def test_base_62_refuses_what_does_not_fit(number):
    with pytest.raises(ValueError, match="does not fit"):
        base62(number, 3)


def test_base_62_fills_its_width():
    assert (base62(0, 3), base62(61, 3), base62(62, 3)) == ("000", "00z", "010")


def test_a_payment_id_has_the_documented_form():
    made = payment_id(NOW_US, os.urandom)
    assert re.fullmatch(r"pay_[A-Za-z0-9]{27}", made)
    assert is_payment_id_shape(made)


@given(st.integers(0, 2**53), st.integers(0, 2**53), st.binary(min_size=34, max_size=34))
def test_payment_ids_sort_by_the_millisecond_they_were_made_in(one_us, other_us, raw):
    one = payment_id(one_us, lambda count: raw[:count])
    other = payment_id(other_us, lambda count: raw[:count])
    assert (one < other) == (one_us // 1000 < other_us // 1000)


def test_payments_of_one_moment_have_different_ids():
    assert len({payment_id(NOW_US, os.urandom) for _ in range(1000)}) == 1000


def test_random_digits_are_all_equally_likely():
    source = random.Random(4217)
    drawn = Counter("".join(random_base62(50, source.randbytes) for _ in range(1240)))
    assert len(drawn) == 62
    assert all(850 < count < 1150 for count in drawn.values())


def test_other_ids_are_a_prefix_and_17_digits():
    assert re.fullmatch(r"mrch_[A-Za-z0-9]{17}", short_id("mrch_", os.urandom))


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
def test_ids_sort_by_the_millisecond_they_were_made_in(ms):
    for draw in (bytes, lambda count: b"\xff" * count):
        assert (
            payment_id(ms * 1000 + 999, draw)
            < made_from(ms + 1)
            <= payment_id((ms + 1) * 1000, draw)
        )


def test_no_id_was_made_before_time_began():
    assert made_from(-1) == made_from(0) == "pay_000000000"


def test_requests_are_told_apart_within_a_process_and_between_processes():
    one, other = RequestIds(os.urandom), RequestIds(os.urandom)
    made = [ids.make() for _ in range(5000) for ids in (one, other)]
    assert len(set(made)) == len(made)
    assert all(re.fullmatch(r"req_[A-Za-z0-9]{17}", each) for each in made)
