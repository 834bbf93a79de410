"""Bounds and fees are amounts in currencies: they hold for every asset and every unit."""

from __future__ import annotations

from typing import Any

import pytest
from florin_server.domain.money import MINOR_UNITS_MAX
from florin_server.settings import Settings
from florin_server.settings.amounts import CurrencyAmounts
from pydantic import ValidationError

from tests.support.api import ApiCallError
from tests.support.operator import get_balance
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import INSTANT_SOLANA
from tests.support.wallet import EvmTestWallet

ETHER = "eip155:31337/slip44:60"
COIN = f"caip19/{ETHER}"
RATES = {ETHER: {"USD": "2500", "EUR": "2000", "VND": "62500000"}}


async def create(desk: ServiceHarness, unit: str, value: int, **more: Any) -> Any:
    """Return the new payment's id, or the refusal."""
    body = {"amount": {"unit": unit, "value": str(value)}, **more}
    try:
        return (await desk.rest.create(body))["paymentId"]
    except ApiCallError as refused:
        return refused


def assert_refused(result: Any, text: str, http: int = 400) -> None:
    assert isinstance(result, ApiCallError), result
    assert (result.http, text in result.message) == (http, True), result


def token_of(desk: ServiceHarness) -> str:
    return f"caip19/{desk.env['FLORIN_EVM_ASSET']}"


async def least_of(desk: ServiceHarness, unit: str, least: int) -> None:
    """Assert that a unit has exactly this least amount."""
    result = await create(desk, unit, least - 1)
    assert_refused(result, "at least")
    assert result.details["minAmount"] == str(least)
    assert isinstance(await create(desk, unit, least), str)


@pytest.mark.parametrize(
    ("setting", "dollars", "euros", "token", "coin"),
    [
        # a plain number counts minor units, of a token's peg or the first currency with a rate too
        (100, 100, 100, 1_000_000, 4 * 10**14),
        ("0.50 USD", 50, 40, 500_000, 2 * 10**14),
        ({"EUR": "0.40", "USD": "0.60"}, 60, 40, 500_000, 2 * 10**14),
    ],
)
async def test_least_amount_holds_for_every_unit(tmp_path, setting, dollars, euros, token, coin):
    """A millionth of a dollar, requested in a token, was settled with the operator's gas."""
    async with open_service(tmp_path / "home", amount_min=setting, rates=RATES) as desk:
        assert_refused(await create(desk, token_of(desk), 1), "at least")
        await least_of(desk, "iso4217/USD", dollars)
        await least_of(desk, "iso4217/EUR", euros)
        await least_of(desk, token_of(desk), token)
        await least_of(desk, COIN, coin)


async def test_least_amount_without_a_rate_is_refused_and_not_zero(tmp_path):
    async with open_service(
        tmp_path / "home", amount_min="0.50 EUR", solana=INSTANT_SOLANA
    ) as desk:
        assert_refused(await create(desk, "iso4217/USD", 10**6), "USD has no price here")
        assert_refused(await create(desk, token_of(desk), 10**9), "has no price here")
        assert isinstance(await create(desk, "iso4217/EUR", 50), str)


async def test_outage_of_prices_is_no_invalid_request(tmp_path):
    pair = {"kind": "http", "source": "one", "base": "eth", "quote": "usd"}
    prices = {
        "http": {"one": {"url": "http://127.0.0.1:9/{base}", "path": ["price"]}},
        "pairs": {ETHER: {"USD": [pair], "GBP": [pair], "EUR": [pair]}},
    }
    async with open_service(tmp_path / "home", amount_min="0.50 USD", prices=prices) as desk:
        # it can be paid as soon as its price is known again
        result = await create(desk, "iso4217/GBP", 10**6)
        assert_refused(result, "The price of GBP is not known", 503)
        assert isinstance(await create(desk, "iso4217/USD", 50), str)
    async with open_service(tmp_path / "home", prices=prices) as desk:
        assert isinstance(await create(desk, "iso4217/GBP", 50), str)


async def fee_of(desk: ServiceHarness, payment_id: str, asset: str) -> int:
    wallet = EvmTestWallet()
    results = await desk.rest.options(payment_id, [wallet.account])
    (option,) = [
        each_option for each_option in results["options"] if each_option["amount"]["unit"] == asset
    ]
    query = "SELECT fee_fixed, fee FROM payment_option WHERE id = ?"
    ((fixed, fee),) = desk.select(query, option["id"])
    assert int(fixed) == int(fee)
    return int(fee)


@pytest.mark.parametrize(
    ("setting", "token_fee", "coin_fee"),
    [
        # as before for tokens with six decimals
        (100_000, 100_000, 4 * 10**13),
        ("0.10 USD", 100_000, 4 * 10**13),
        ({"EUR": "0.08"}, 100_000, 4 * 10**13),
        ({"EUR": "0.01", "USD": "0.10"}, 100_000, 4 * 10**13),
    ],
)
async def test_fixed_fee_is_the_same_value_in_every_asset(tmp_path, setting, token_fee, coin_fee):
    """It was 100,000 wei, which is nothing, for buyers who paid in coin."""
    async with open_service(tmp_path / "home", fee_fixed=setting, rates=RATES) as desk:
        created = await create(desk, "iso4217/USD", 1250)
        assert await fee_of(desk, created, token_of(desk)) == token_fee
        assert await fee_of(desk, created, COIN) == coin_fee
        in_coin = await create(desk, COIN, 10**17)
        expected = coin_fee if not isinstance(setting, dict) or len(setting) == 1 else None
        if expected is not None:
            assert await fee_of(desk, in_coin, COIN) == expected


async def test_share_of_a_payment_is_rounded_up_on_chain_and_in_the_books(tmp_path):
    """Rounded down, up to a unit of each payment would go to the merchant instead."""
    async with open_service(tmp_path / "home", fee_basis_points=100) as desk:
        unit = token_of(desk)
        for value, fee in ((1, 1), (101, 2), (199, 2), (200, 2)):
            before = await income(desk)
            offer = await desk.offer(amount={"unit": unit, "value": str(value)})
            query = "SELECT fee FROM payment_option WHERE payment_id = ?"
            assert [int(row[0]) for row in desk.select(query, offer.payment_id)] == [fee]
            await desk.confirm(offer)
            assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
            assert await income(desk) - before == fee


async def income(desk: ServiceHarness) -> int:
    """Return the operator's income in the dollar token."""
    asset = desk.env["FLORIN_EVM_ASSET"]
    return -await get_balance(desk, "income:fee", asset)


async def test_asset_in_which_the_fixed_fee_is_unknown_is_not_offered(tmp_path, caplog):
    async with open_service(
        tmp_path / "home", fee_fixed="0.10 GBP", rates={ETHER: {"GBP": "2000"}}
    ) as desk:
        created = await create(desk, "iso4217/USD", 1250)
        results = await desk.rest.options(created, [EvmTestWallet().account])
        assert results["options"] == []
        assert any("fee_fixed cannot be converted" in line for line in caplog.messages)


async def test_weak_currencies_are_bounded_by_value_and_not_by_units(tmp_path):
    """2,600,000,000 dong are 100,000 dollars."""
    currencies = ("USD", "VND", "IDR", "KWD")
    rates = {ETHER: {**RATES[ETHER], "IDR": "41000000"}}
    async with open_service(tmp_path / "home", currencies=currencies, rates=rates) as desk:
        assert isinstance(await create(desk, "iso4217/VND", 2_600_000_000), str)
        # 100 million dollars are 2.5 million million dong
        most = 2_500_000_000_000
        assert isinstance(await create(desk, "iso4217/VND", most), str)
        for unit, value in (("VND", most + 1), ("IDR", 164 * 10**12 + 1), ("USD", 10**10 + 1)):
            result = await create(desk, f"iso4217/{unit}", value)
            assert_refused(result, "must be at most")
            assert result.details["maxAmount"] == str(value - 1)
        assert_refused(await create(desk, "iso4217/KWD", 5), "no enabled asset has a price in KWD")
        payment_id = await create(desk, "iso4217/VND", 625_000)
        result = await desk.rest.options(payment_id, [EvmTestWallet().account])
        assert [option["amount"]["value"] for option in result["options"]] == [str(10**16)]
        assert (await desk.rest.detail(payment_id))["amount"]["value"] == "625000"


async def test_largest_amount_without_a_rate_fits_every_store(tmp_path):
    async with open_service(tmp_path / "home", solana=INSTANT_SOLANA) as desk:
        payment_id = await create(desk, "iso4217/EUR", MINOR_UNITS_MAX)
        results = await desk.rest.options(payment_id, [EvmTestWallet().account])
        assert results["options"] == []
        assert_refused(await create(desk, "iso4217/EUR", MINOR_UNITS_MAX + 1), "must be at most")


async def test_currency_that_nothing_can_pay_is_refused_at_creation(tmp_path):
    """GBP is enabled by default; without a rate it never had an option."""
    async with open_service(tmp_path / "home") as desk:
        result = await create(desk, "iso4217/GBP", 1250)
        assert_refused(result, "amount.unit: no enabled asset has a price in GBP")
        # its outcome needs no asset
        outcome = await create(desk, "iso4217/GBP", 1250, referenceId="florin_test:succeeded")
        assert isinstance(outcome, str), outcome
        assert (await desk.rest.status(outcome))["status"] == "succeeded"
        for unit in ("USD", "EUR"):
            assert isinstance(await create(desk, f"iso4217/{unit}", 1250), str)
    async with open_service(tmp_path / "home", rates={ETHER: {"GBP": "2000"}}) as desk:
        assert isinstance(await create(desk, "iso4217/GBP", 1250), str)


@pytest.mark.parametrize("name", ["amount_min", "fee_fixed"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.50 USD", {"USD": 50}),
        ("2 KWD", {"KWD": 2000}),
        ("10 JPY", {"JPY": 10}),
        ('{"USD": "0.50", "EUR": "0.45"}', {"USD": 50, "EUR": 45}),
        ("7", 7),
    ],
)
def test_amounts_are_read_from_the_environment(monkeypatch, name, text, expected):
    monkeypatch.setenv(f"FLORIN_{name.upper()}", text)
    result = getattr(Settings(), name)
    assert result == (expected if isinstance(expected, int) else CurrencyAmounts(expected))


@pytest.mark.parametrize("name", ["amount_min", "fee_fixed"])
@pytest.mark.parametrize(
    "bad",
    [
        *(
            "",
            "USD",
            "0.5",
            "0.505 USD",
            "0.5 JPY",
            "-1 USD",
            "1e3 USD",
            "1 XXX",
            "1 usd",
            "{",
            "٣ USD",
        ),
        *({}, {"USD": 0.5}, {"USD": "x"}, {"usd": "1"}, [], None, True, 0.5, -1),
    ],
)
def test_amounts_of_a_wrong_form_are_refused_at_start(name, bad):
    with pytest.raises(ValidationError, match=name):
        Settings(**{name: bad})
