"""Test fields that nodes omit, format differently, or contradict."""

from __future__ import annotations

import pytest
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.node import parse_number
from florin_server.rails.solana.settings import SolanaCoinSettings
from florin_server.rails.types import RailUnavailable

from tests.support.solana import COIN, RENT, SolanaTestWallet
from tests.support.solana_answers import make_result_change
from tests.support.solana_devnet import make_wallet
from tests.support.solana_rail_harness import FINAL, RELAYER, make_chain_settings, open_lab


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaTestWallet:
    return SolanaTestWallet()


def _spoiled(result, at, name, value):
    place = result if at is None else result[at]
    if value is ...:
        place.pop(name, None)
    else:
        place[name] = value


@pytest.mark.parametrize(
    ("at", "name", "value"),
    [
        ("meta", "fee", ...),
        ("meta", "fee", None),
        ("meta", "fee", "much"),
        ("meta", "fee", -1),
        ("meta", "fee", 5000.5),
        ("meta", "logMessages", None),
        ("meta", "innerInstructions", None),
        ("meta", "innerInstructions", ...),
        ("meta", "preBalances", ...),
        ("meta", "computeUnitsConsumed", ...),
        ("meta", "loadedAddresses", ...),
        ("meta", "rewards", None),
        (None, "blockTime", None),
        (None, "version", ...),
    ],
)
async def test_field_that_no_decision_needs_may_be_missing(lab, buyer, at, name, value):
    item, _ = await lab.create_item(buyer)
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)

    def spoil(result):
        _spoiled(result, at, name, value)
        if name == "preBalances":
            _spoiled(result, at, "postBalances", value)

    lab.transport.changes["getTransaction"] = make_result_change(spoil)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)
    mined = (await lab.rail.observer.find_mined([tx.hash]))[tx.hash]
    assert mined.success
    is_unknown = name == "fee"
    assert (mined.gas_cost is None, mined.gas_used is None) == (is_unknown, is_unknown)
    if name in {"fee", "preBalances"}:
        assert mined.rent == 0


@pytest.mark.parametrize("form", [str, float])
async def test_numbers_written_as_texts_or_floats_are_read(lab, buyer, form):
    item, _ = await lab.create_item(buyer)
    tx = await lab.submit_item(item)
    await lab.slots(FINAL)

    def rewrite(result):
        meta = result["meta"]
        result["slot"], meta["fee"] = form(result["slot"]), form(meta["fee"])
        meta["preBalances"] = [form(pre_balance) for pre_balance in meta["preBalances"]]

    lab.transport.changes["getTransaction"] = make_result_change(rewrite)
    (paid,) = await lab.rail.observer.find_settlement_events([item])
    assert lab.rail.terms.is_proven(item.option, paid)
    assert (await lab.rail.observer.find_mined([tx.hash]))[tx.hash].gas_cost == 10_200


@pytest.mark.parametrize("value", [2.0**53, 0.5, "1e3", "-1", "٣", "1" * 21, True, [1], None])
def test_numbers_that_are_not_exact_are_no_numbers(value):
    with pytest.raises(RailUnavailable):
        parse_number(value)


@pytest.mark.parametrize("name", ["preTokenBalances", "postTokenBalances", "err"])
@pytest.mark.parametrize("value", [..., None])
async def test_field_that_decides_is_never_guessed(lab, buyer, name, value):
    if (name, value) == ("err", None):
        return
    item, _ = await lab.create_item(buyer)
    await lab.submit_item(item)
    await lab.slots(FINAL)
    lab.transport.changes["getTransaction"] = make_result_change(
        lambda result: _spoiled(result, "meta", name, value)
    )
    with pytest.raises(RailUnavailable):
        await lab.rail.observer.find_settlement_events([item])
    lab.transport.changes.clear()
    rail = SolanaRail(make_chain_settings(), RELAYER, lab.transport)
    assert len(await rail.observer.find_settlement_events([item])) == 1


async def test_finalized_tag_beside_a_count_of_confirmations_is_no_proof(lab, buyer):
    item, _ = await lab.create_item(buyer)
    tx = await lab.submit_item(item)

    def claim(result):
        result["value"][0]["confirmationStatus"] = "finalized"

    lab.transport.changes["getSignatureStatuses"] = make_result_change(claim)
    found_result = await lab.rail.observer.evidence.find_mined([tx.hash])
    assert found_result == {}
    assert "getTransaction" not in lab.transport.methods


async def test_coin_payment_waits_for_a_node_that_returns_balances(buyer):
    async with open_lab(coin=SolanaCoinSettings()) as lab:
        await lab.node.fund(make_wallet(91), tokens=[], lamports=RENT)
        item, _ = await lab.create_item(buyer, asset_id=COIN)
        await lab.submit_item(item)
        await lab.slots(FINAL)

        def spoil(result):
            result["meta"]["preBalances"] = result["meta"]["postBalances"] = None
            result["meta"]["preTokenBalances"] = result["meta"]["postTokenBalances"] = None

        lab.transport.changes["getTransaction"] = make_result_change(spoil)
        with pytest.raises(RailUnavailable, match="balances"):
            await lab.rail.observer.find_settlement_events([item])
        lab.transport.changes.clear()
        rail = SolanaRail(make_chain_settings(coin=SolanaCoinSettings()), RELAYER, lab.transport)
        assert len(await rail.observer.find_settlement_events([item])) == 1
