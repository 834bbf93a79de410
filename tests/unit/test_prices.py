"""Rates are exact, and what a buyer pays is rounded up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from florin_server.config import Settings
from florin_server.rails.prices import FixedPrices, Rate, parse_decimal
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

ETHER = "eip155:31337/slip44:60"


@pytest.mark.parametrize(
    ("price", "value", "cost"),
    [
        ("2500", 1250, 5 * 10**15),
        ("2500.00", 1250, 5 * 10**15),
        ("0.5", 1, 2 * 10**16),
        ("3000", 1, 3_333_333_333_334),
        ("0.000001", 1, 10**22),
    ],
)
def test_cents_in_wei(price, value, cost):
    assert Rate(price, "test", 0).cost(value, 2, 18) == cost


@given(
    st.integers(1, 10**30 - 1),
    st.integers(0, 30),
    st.integers(1, 10**12),
    st.integers(0, 4),
    st.integers(0, 18),
)
def test_the_cost_is_the_least_that_is_enough(digits, scale, value, currency, asset):
    text = f"{digits:0{scale + 1}}"
    price = f"{text[:-scale]}.{text[-scale:]}" if scale else text
    cost = Rate(price, "test", 0).cost(value, currency, asset)
    one = Fraction(digits, 10**scale) / 10**asset
    owed = Fraction(value, 10**currency)
    assert cost * one >= owed > (cost - 1) * one


@pytest.mark.parametrize(
    "text", ["", "0", "0.00", "-1", "1e3", "1.", ".5", "1,5", " 1", "1\n", "NaN", "١", "1" * 31]
)
def test_what_is_no_price_is_refused(text):
    with pytest.raises(ValueError, match="not a decimal number|above zero"):
        parse_decimal(text)
    with pytest.raises(ValidationError):
        Settings(rates={ETHER: {"USD": text}})


def test_settings_name_assets_and_currencies():
    rates = Settings(rates={ETHER: {"USD": "2500.5"}}).rates
    assert rates == {ETHER: {"USD": "2500.5"}}
    for bad in ({"ether": {"USD": "1"}}, {ETHER: {"usd": "1"}}, {ETHER: {"USD": 1.5}}):
        with pytest.raises(ValidationError):
            Settings(rates=bad)


def test_fixed_prices_hold_at_any_time():
    prices = FixedPrices({ETHER: {"USD": "2500.5"}})
    assert prices.rate(ETHER, "USD", 7) == Rate("2500.5", "settings", 7)
    assert prices.rate(ETHER, "EUR", 7) is None
    assert prices.rate("eip155:1/slip44:60", "USD", 7) is None
