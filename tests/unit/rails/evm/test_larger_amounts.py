"""Test which settings for larger amounts' longer waits are accepted and refused."""

from __future__ import annotations

import pytest
from florin_server.rails.evm.settings import EvmAssetSettings, EvmChainSettings, EvmCoinSettings
from pydantic import ValidationError

SETTLER, TREASURY, TOKEN = ("0x" + part * 20 for part in ("ab", "fe", "cd"))
ZERO_ADDRESS = "0x" + "00" * 20
BASE, UNKNOWN = 8453, 424_242
DOLLAR = EvmAssetSettings(address=TOKEN, name="Dollar", symbol="tUSD", decimals=6, peg="USD")
COIN = EvmCoinSettings(name="Ether", symbol="ETH")


def step(after_s: int, **amounts: str):
    return {"from_amount": amounts or {"tUSD": "1000"}, "final_after_s": after_s}


def chain(*steps, chain_id: int = UNKNOWN, **changes) -> EvmChainSettings:
    values = {
        "chain_id": chain_id,
        "name": "Test",
        "settler": SETTLER,
        "treasury": TREASURY,
        "assets": (DOLLAR,),
        "final_after_s": 10,
        "larger_amounts": steps,
    }
    return EvmChainSettings(**values | changes)


@pytest.mark.parametrize(
    ("value", "after_s"),
    [(0, 10), (999_999_999, 10), (10**9, 60), (10**10 - 1, 60), (10**10, 600), (2**255, 600)],
)
def test_amount_waits_as_the_last_entry_that_it_reaches(value, after_s):
    settings = chain(step(60), step(600, tUSD="10000"))
    assert settings.final_after(TOKEN, value) == after_s


def test_coin_is_counted_by_its_own_amount_and_a_removed_asset_as_the_largest():
    amounts = {"tUSD": "1000", "ETH": "0.25"}
    settings = chain(step(60, **amounts), coin=COIN)
    assert settings.final_after(ZERO_ADDRESS, 25 * 10**16 - 1) == 10
    assert settings.final_after(ZERO_ADDRESS, 25 * 10**16) == 60
    assert settings.final_after("0x" + "ef" * 20, 1) == 60
    assert chain().final_after("0x" + "ef" * 20, 1) == 10


def test_amount_with_more_digits_than_its_asset_is_rounded_down():
    assert chain(step(60, tUSD="0.0000019")).final_after(TOKEN, 1) == 60


@pytest.mark.parametrize(
    ("steps", "changes", "reason"),
    [
        ([step(10)], {}, "final_after_s is 10, and 10 for smaller amounts"),
        ([step(60), step(30, tUSD="5000")], {}, "final_after_s is 30, and 60 for smaller"),
        ([step(60), step(90)], {}, "the amount of tUSD must be above"),
        ([step(60, tUSD="0")], {}, "the amount of tUSD must be above 0"),
        ([step(60, tUSD="-1")], {}, "String should match pattern"),
        ([step(3601)], {}, "less than or equal to 3600"),
        ([step(60)], {"coin": COIN}, "from_amount names no amount of ETH"),
        ([step(60, tUSD="1", USDX="1")], {}, "the chain has no asset USDX"),
        ([step(60)], {"final_after_s": 0}, "final_after_s, which is not set"),
        ([step(60 + index, tUSD=str(index + 1)) for index in range(5)], {}, "at most 4 items"),
        # the minimum that is safe on Base applies to the smallest amounts
        ([step(60)], {"chain_id": BASE, "final_after_s": 9}, "Base takes 10 at least, not 9"),
        ([step(60)], {"chain_id": BASE, "confirmations": 4}, "Base takes 5 at least, not 4"),
        (
            [step(60)],
            {"chain_id": 137, "final_after_s": 30, "finality_tag": "safe"},
            "Polygon takes 'finalized', not 'safe'",
        ),
    ],
)
def test_settings_that_would_wait_for_less_are_refused(steps, changes, reason):
    with pytest.raises(ValidationError, match=reason):
        chain(*steps, **changes)


def test_network_of_the_registry_takes_its_own_rule_and_longer_ones():
    assert chain(step(60), chain_id=BASE).final_after(TOKEN, 1) == 10
    longer = chain(step(60), chain_id=BASE, final_after_s=20, finality_tag="safe")
    assert longer.final_after(TOKEN, 1) == 20
