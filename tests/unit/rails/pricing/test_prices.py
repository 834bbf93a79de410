"""Test that rates are exact, and that a buyer's amount is rounded up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from florin_server.app.chains.prices import build_market
from florin_server.rails.pricing.prices import FixedPrices, PriceRate, parse_decimal
from florin_server.settings import Settings
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
    assert PriceRate(price, "test", 0).compute_cost(value, 2, 18) == cost


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
    cost = PriceRate(price, "test", 0).compute_cost(value, currency, asset)
    item = Fraction(digits, 10**scale) / 10**asset
    owed = Fraction(value, 10**currency)
    assert cost * item >= owed > (cost - 1) * item


@pytest.mark.parametrize(
    "text", ["", "0", "0.00", "-1", "1e3", "1.", ".5", "1,5", " 1", "1\n", "NaN", "١", "1" * 31]
)
def test_invalid_price_is_refused(text):
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
    assert prices.find_rate(ETHER, "USD", 7) == PriceRate("2500.5", "settings", 7)
    assert prices.find_rate(ETHER, "EUR", 7) is None
    assert prices.find_rate("eip155:1/slip44:60", "USD", 7) is None


# assets without a rate


def settings_with(tmp_path, **changes) -> Settings:
    chain = {
        "chain_id": 10_001,
        "name": "Far Away",
        "rpc_url": "http://127.0.0.1:1",
        "treasury": "0x" + "77" * 20,
        "settler": "0x" + "55" * 20,
        "coin": {"name": "Ether", "symbol": "ETH"},
        "assets": [
            {"address": "0x" + digit * 40, "name": name, "symbol": name, "decimals": 6, **more}
            for digit, name, more in (
                ("a", "tUSD", {"peg": "USD", "method": "permit2"}),
                ("B", "tGOLD", {"method": "permit2"}),
            )
        ],
    }
    return Settings(home=tmp_path, chains=[chain], **changes)


FAR_ETHER, GOLD = "eip155:10001/slip44:60", f"eip155:10001/erc20:0x{'b' * 40}"


def test_assets_without_a_rate_are_logged_at_startup(tmp_path, caplog):
    build_market(settings_with(tmp_path), {})
    assert [record.getMessage() for record in caplog.records] == [
        "Far Away: tGOLD is not offered for prices in a currency: the settings have no rate for "
        + GOLD,
        "Far Away: ETH is not offered for prices in a currency: the settings have no rate for "
        + FAR_ETHER,
    ]


def test_single_rate_or_price_source_is_enough(tmp_path, caplog):
    fixed = {"kind": "fixed", "price": "9"}
    settings = settings_with(
        tmp_path,
        rates={FAR_ETHER: {"EUR": "2500"}},
        prices={"pairs": {GOLD: {"USD": [fixed]}}},
    )
    build_market(settings, {})
    assert caplog.text == ""
