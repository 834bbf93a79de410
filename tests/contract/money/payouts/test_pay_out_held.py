"""Test returns of held money: booked to the blocked payer, and never paid twice."""

from __future__ import annotations

import pytest
from florin_server.domain.payouts.held_money import HeldMoney, HeldMoneyState
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service import payouts
from florin_server.money.payouts.store import held_money

from tests.support.evm_harness import CHAIN, TOKEN, to_account
from tests.support.payout_harness import BUYER, SHOP, PayoutHarness, open_payout_harness


@pytest.fixture
async def desk(tmp_path):
    async with open_payout_harness(tmp_path) as running:
        yield running


def held_row(desk: PayoutHarness, **changes) -> HeldMoney:
    created = {
        "id": "held_1",
        "payment_id": "pay_held",
        "chain_id": CHAIN,
        "asset": TOKEN,
        "payer": to_account(BUYER),
        "value": 150,
        "held": 150,
        "fee": 0,
        "settled_value": None,
        "tx_hash": "0x" + "cc" * 32,
        "event": "one",
        "late": False,
        "why": "blocked by the settings",
        "since_us": desk.lab.clock.now_us(),
        "state": HeldMoneyState.RETURNED,
    }
    return HeldMoney(**{**created, **changes})


async def held_return(desk: PayoutHarness, **changes):
    """Create a payout that returns held money."""
    item = held_row(desk, **changes)
    await desk.store.write(held_money.put(item))
    came = LedgerPosting(f"wallet:{desk.lab.rail.treasury}", item.account, TOKEN, 150)
    await desk.store.write(
        ledger.post(held_money.format_journal_key(item), "held", None, None, (came,), 0)
    )
    kind = {"id": "pout_1", "kind": PayoutKind.RETURN, "backed": True, "held_id": item.id}
    return await desk.create_payout(150, **kind)


async def test_held_money_goes_back_on_its_payers_account(desk):
    payout = await held_return(desk)
    await desk.wait_done(payout)
    assert await desk.transfers() == [150]
    for account in (f"held:{to_account(BUYER)}", f"merchant:{SHOP}"):
        assert await desk.store.read(ledger.get_balance(account, TOKEN)) == 0


@pytest.mark.parametrize("insists", [False, True])
async def test_held_money_goes_to_a_blocked_payer_only_if_the_operator_insists(desk, insists):
    desk.app.blocklist.add([BUYER])
    payout = await held_return(desk, even_if_blocked=insists)
    if insists:
        await desk.wait_done(payout)
    else:
        await desk.turn()
        assert (await desk.get_payout(payout)).problem == "its destination is blocked"
    assert await desk.transfers() == [150] * insists


async def test_money_that_a_reorganisation_undid_is_not_returned(desk):
    payout = await held_return(desk, state=HeldMoneyState.UNDONE)
    await desk.turn(3)
    result = await desk.get_payout(payout)
    assert (result.status, result.tx_id) == (PayoutStatus.WAITING, None)
    assert result.problem == "a reorganization removed the money that it returns"
    await payouts.refuse(desk.app, payout.id)
    assert await desk.store.read(held_money.find("held_1")) is None
    assert await desk.transfers() == []
