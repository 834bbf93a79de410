from fractions import Fraction

import pytest
from florin_server.domain.caip import parse_asset
from florin_server.domain.money import (
    CURRENCIES,
    FiatUnit,
    TokenUnit,
    compute_share,
    convert_up,
    format_minor_units,
    parse_unit,
    suggest_unit,
)
from hypothesis import given
from hypothesis import strategies as st

ASSET = "eip155:8453/erc20:0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"
DECIMALS = st.integers(0, 40)


@given(st.integers(0, 10**78 - 1), DECIMALS, DECIMALS)
def test_conversion_is_the_exact_worth_rounded_up(value, before, after):
    worth = Fraction(value, 10**before)
    converted = convert_up(value, before, after)
    assert Fraction(converted, 10**after) >= worth
    assert converted == 0 or Fraction(converted - 1, 10**after) < worth


@given(st.integers(0, 10**30), DECIMALS, DECIMALS)
def test_conversion_to_more_digits_and_back_changes_nothing(value, before, more):
    assert convert_up(convert_up(value, before, before + more), before + more, before) == value


@pytest.mark.parametrize(
    ("value", "before", "after", "converted"),
    [(1, 2, 6, 10_000), (1, 6, 2, 1), (10_000, 6, 2, 1), (10_001, 6, 2, 2), (0, 6, 2, 0)],
)
def test_conversion_by_example(value, before, after, converted):
    assert convert_up(value, before, after) == converted


@pytest.mark.parametrize("arguments", [(-1, 2, 6), (1, -1, 6), (1, 2, -1), (1, 2, 256)])
def test_conversion_refuses_invalid_arguments(arguments):
    with pytest.raises(ValueError, match="is"):
        convert_up(*arguments)


@pytest.mark.parametrize(
    ("code", "decimals"),
    [
        ("USD", 2),
        ("EUR", 2),
        ("GBP", 2),
        ("JPY", 0),
        ("KRW", 0),
        ("ISK", 0),
        ("CLP", 0),
        ("KWD", 3),
        ("BHD", 3),
        ("TND", 3),
        ("CHF", 2),
        ("HUF", 2),
        ("MGA", 2),
    ],
)
def test_minor_digits_follow_iso_4217(code, decimals):
    assert CURRENCIES[code].decimals == decimals


def test_every_currency_has_a_code_and_a_name():
    for code, currency in CURRENCIES.items():
        assert code == currency.code == currency.symbol
        assert len(code) == 3
        assert code.isascii()
        assert code.isupper()
        assert currency.name == currency.name.strip() != ""


def test_no_currency_is_listed_twice():
    names = [currency.name for currency in CURRENCIES.values()]
    assert len(set(names)) == len(names) == 155


@pytest.mark.parametrize("text", ["iso4217/USD", f"caip19/{ASSET}"])
def test_a_unit_reads_back_as_it_was_written(text):
    assert str(parse_unit(text)) == text


def test_a_unit_is_fiat_or_a_token():
    assert parse_unit("iso4217/JPY") == FiatUnit("JPY")
    assert parse_unit(f"caip19/{ASSET}") == TokenUnit(parse_asset(ASSET))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "USD",
        "iso4217/",
        "iso4217/usd",
        "iso4217/USDX",
        "iso4217/XXX",
        "ISO4217/USD",
        "iso4217/USD\n",
        "caip19/",
        "caip19/eip155:1",
        ASSET,
        f"caip19/caip19/{ASSET}",
    ],
)
def test_invalid_unit_is_refused(text):
    with pytest.raises(ValueError, match="no"):
        parse_unit(text)


def test_a_token_has_255_decimals_at_most():
    assert convert_up(10**255, 255, 0) == 1
    assert convert_up(1, 0, 255) == 10**255
    for decimals in (-1, 256):
        with pytest.raises(ValueError, match="no number of decimals"):
            convert_up(1, decimals, 2)
        with pytest.raises(ValueError, match="no number of decimals"):
            convert_up(1, 2, decimals)


@given(st.integers(0, 10**78 - 1), st.integers(0, 255))
def test_formatted_amount_is_exact(value, decimals):
    text = format_minor_units(value, decimals)
    assert Fraction(text) == Fraction(value, 10**decimals)
    assert len(text.partition(".")[2]) == decimals


def test_amounts_have_a_digit_before_the_point():
    assert [format_minor_units(1, 0), format_minor_units(1, 2), format_minor_units(1250, 2)] == [
        "1",
        "0.01",
        "12.50",
    ]


@pytest.mark.parametrize(
    ("value", "basis_points", "share"),
    [
        *((0, 100, 0), (1, 1, 1), (100, 100, 1), (101, 100, 2), (199, 100, 2), (200, 100, 2)),
        *((10_001, 1, 2), (7, 10_000, 7), (7, 0, 0), (2**256 - 1, 1, (2**256 - 1) // 10_000 + 1)),
    ],
)
def test_share_of_an_amount_is_rounded_up(value, basis_points, share):
    assert compute_share(value, basis_points) == share


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("USD", "iso4217/USD"),
        ("usd", "iso4217/USD"),
        ("ISO4217/usd", "iso4217/USD"),
        ("iso-4217:EUR", "iso4217/EUR"),
        (ASSET, f"caip19/{ASSET}"),
        ("XYZ", None),
        ("dollars", None),
        ("iso4217/", None),
        ("caip19/x", None),
        ("", None),
    ],
)
def test_nearest_unit_is_suggested(text, unit):
    assert suggest_unit(text) == unit
    if unit is not None:
        assert str(parse_unit(unit)) == unit
