"""Test that a payment's refunds add up, in any units and order."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import pytest
from florin_server.domain.payouts import refund_amounts
from florin_server.domain.payouts.refund_amounts import sum_refunds
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as st

from tests.support.refund_rules import (
    CENTS,
    ETHER,
    USD,
    WEI,
    check_step,
    count_failed_refunds,
    make_payment,
    play_steps,
    round_up,
    sum_only_the_newest,
)

AMOUNTS = st.integers(1, 10**6) | st.integers(1, 10**30)
# unit, share of the rest in thousandths (above 1000: too much), extra units, fails
STEPS = st.lists(
    st.tuples(
        st.sampled_from([ETHER, USD, None]), st.integers(0, 1100), st.integers(0, 2), st.booleans()
    ),
    max_size=12,
)


@given(AMOUNTS, AMOUNTS, STEPS)
@example(WEI, CENTS, [(USD, 333, 0, False), (ETHER, 500, 1, False), (USD, 1000, 0, False)])
@example(WEI, CENTS, [(USD, 1000, 0, True), (None, 0, 0, False), (ETHER, 0, 1, False)])
def test_refunds_in_any_units_never_exceed_the_paid_amount(paid, value, steps):
    play_steps(paid, value, steps)


@given(st.integers(0, 4), AMOUNTS, st.lists(st.integers(0, 10**6), max_size=10))
@example(2, WEI, [1, 2, 1249])
def test_currency_parts_of_the_whole_amount_return_everything(decimals, paid, cuts):
    value = 125 * 10**decimals // 10
    paid += value  # at least one token unit per currency unit
    bounds = sorted({0, value, *(cut % value for cut in cuts)})
    subject, refunds = make_payment(paid, value), []
    for low, high in pairwise(bounds):
        refunds.append(check_step(subject, refunds, USD, high - low))
    assert sum(item.value for item in refunds) == paid
    assert sum_refunds(subject, refunds).refundable == 0


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("sum_refunds", sum_only_the_newest),
        ("sum_refunds", count_failed_refunds),
        ("split_refund", round_up),
    ],
)
def test_planted_fault_in_refund_amounts_is_detected(
    monkeypatch, name: str, planted: Callable[..., object]
):
    monkeypatch.setattr(refund_amounts, name, planted)
    search = given(AMOUNTS, AMOUNTS, STEPS)(play_steps)
    search = settings(max_examples=2000, phases=[Phase.generate], database=None)(search)
    with pytest.raises(AssertionError):
        search()
