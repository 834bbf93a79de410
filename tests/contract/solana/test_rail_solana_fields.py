"""Fields that nodes leave out, write in another form, or contradict."""

from __future__ import annotations

import pytest
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.solana.reading.node import number
from florin_server.rails.solana.settings import SolanaCoin
from florin_server.rails.types import RailUnavailable

from tests.support.solana import COIN, RENT, SolanaWallet
from tests.support.solana_answers import changed
from tests.support.solana_kit import wallet
from tests.support.solana_lab import FINAL, RELAYER, open_lab, settings


@pytest.fixture
async def lab():
    async with open_lab() as lab:
        yield lab


@pytest.fixture
def buyer() -> SolanaWallet:
    return SolanaWallet()


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
    item, _ = await lab.accepted(buyer)
    tx = await lab.sent(item)
    await lab.slots(FINAL)

    def spoil(result):
        _spoiled(result, at, name, value)
        if name == "preBalances":
            _spoiled(result, at, "postBalances", value)

    lab.between.changes["getTransaction"] = changed(spoil)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)
    mined = (await lab.rail.observer.mined([tx.hash]))[tx.hash]
    assert mined.success
    is_unknown = name == "fee"
    assert (mined.gas_cost is None, mined.gas_used is None) == (is_unknown, is_unknown)
    if name in {"fee", "preBalances"}:
        assert mined.rent == 0


@pytest.mark.parametrize("form", [str, float])
async def test_numbers_written_as_texts_or_floats_are_read(lab, buyer, form):
    item, _ = await lab.accepted(buyer)
    tx = await lab.sent(item)
    await lab.slots(FINAL)

    def rewrite(result):
        meta = result["meta"]
        result["slot"], meta["fee"] = form(result["slot"]), form(meta["fee"])
        meta["preBalances"] = [form(one) for one in meta["preBalances"]]

    lab.between.changes["getTransaction"] = changed(rewrite)
    (paid,) = await lab.rail.observer.find([item])
    assert lab.rail.terms.proves(item.option, paid)
    assert (await lab.rail.observer.mined([tx.hash]))[tx.hash].gas_cost == 10_200


@pytest.mark.parametrize("value", [2.0**53, 0.5, "1e3", "-1", "٣", "1" * 21, True, [1], None])
def test_numbers_that_are_not_exact_are_no_numbers(value):
    with pytest.raises(RailUnavailable):
        number(value)


@pytest.mark.parametrize("name", ["preTokenBalances", "postTokenBalances", "err"])
@pytest.mark.parametrize("value", [..., None])
async def test_field_that_decides_is_never_guessed(lab, buyer, name, value):
    if (name, value) == ("err", None):
        return
    item, _ = await lab.accepted(buyer)
    await lab.sent(item)
    await lab.slots(FINAL)
    lab.between.changes["getTransaction"] = changed(
        lambda result: _spoiled(result, "meta", name, value)
    )
    with pytest.raises(RailUnavailable):
        await lab.rail.observer.find([item])
    lab.between.changes.clear()
    rail = SolanaRail(settings(), RELAYER, lab.between)
    assert len(await rail.observer.find([item])) == 1


async def test_finalized_tag_beside_a_count_of_confirmations_is_no_proof(lab, buyer):
    item, _ = await lab.accepted(buyer)
    tx = await lab.sent(item)

    def claim(result):
        result["value"][0]["confirmationStatus"] = "finalized"

    lab.between.changes["getSignatureStatuses"] = changed(claim)
    found = await lab.rail.observer.evidence.mined([tx.hash])
    assert found == {}
    assert "getTransaction" not in lab.between.asked


async def test_payment_in_coin_waits_for_a_node_that_tells_balances(buyer):
    async with open_lab(coin=SolanaCoin()) as lab:
        await lab.node.fund(wallet(91), tokens=[], lamports=RENT)
        item, _ = await lab.accepted(buyer, asset_id=COIN)
        await lab.sent(item)
        await lab.slots(FINAL)

        def spoil(result):
            result["meta"]["preBalances"] = result["meta"]["postBalances"] = None
            result["meta"]["preTokenBalances"] = result["meta"]["postTokenBalances"] = None

        lab.between.changes["getTransaction"] = changed(spoil)
        with pytest.raises(RailUnavailable, match="balances"):
            await lab.rail.observer.find([item])
        lab.between.changes.clear()
        rail = SolanaRail(settings(coin=SolanaCoin()), RELAYER, lab.between)
        assert len(await rail.observer.find([item])) == 1
