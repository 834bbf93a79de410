"""Money of blocked payers that the operator returns: on their account, and never twice."""

from __future__ import annotations

import pytest
from florin_server.domain.payouts.held_money import HeldMoney, HeldState
from florin_server.domain.payouts.payout import PayoutKind, PayoutStatus
from florin_server.domain.settlement.chain_txs import Posting
from florin_server.flows.payouts import payouts
from florin_server.store.ledger import ledger
from florin_server.store.payouts import held_money

from tests.support.evm_lab import CHAIN, TOKEN, account_of
from tests.support.payout_lab import BUYER, SHOP, Office, office


@pytest.fixture
async def desk(tmp_path):
    async with office(tmp_path) as running:
        yield running


def held_row(desk: Office, **changes) -> HeldMoney:
    made = {
        "id": "held_1",
        "payment_id": "pay_held",
        "chain_id": CHAIN,
        "asset": TOKEN,
        "payer": account_of(BUYER),
        "value": 150,
        "held": 150,
        "fee": 0,
        "settled_value": None,
        "tx_hash": "0x" + "cc" * 32,
        "event": "one",
        "late": False,
        "why": "blocked by the settings",
        "since_us": desk.lab.clock.now_us(),
        "state": HeldState.RETURNED,
    }
    return HeldMoney(**{**made, **changes})


async def held_return(desk: Office, **changes):
    """A payout that returns held money."""
    one = held_row(desk, **changes)
    await desk.store.write(held_money.put(one))
    came = Posting(f"wallet:{desk.lab.rail.treasury}", one.account, TOKEN, 150)
    await desk.store.write(ledger.post(held_money.key_of(one), "held", None, None, (came,), 0))
    kind = {"id": "pout_1", "kind": PayoutKind.RETURN, "backed": True, "held_id": one.id}
    return await desk.asked(150, **kind)


async def test_held_money_goes_back_on_its_payers_account(desk):
    payout = await held_return(desk)
    await desk.done(payout)
    assert await desk.transfers() == [150]
    for account in (f"held:{account_of(BUYER)}", f"merchant:{SHOP}"):
        assert await desk.store.read(ledger.balance(account, TOKEN)) == 0


@pytest.mark.parametrize("insists", [False, True])
async def test_held_money_goes_to_a_blocked_payer_only_if_the_operator_insists(desk, insists):
    desk.app.blocked.add([BUYER])
    payout = await held_return(desk, even_if_blocked=insists)
    if insists:
        await desk.done(payout)
    else:
        await desk.turn()
        assert (await desk.now(payout)).problem == "the account that it goes to is blocked"
    assert await desk.transfers() == [150] * insists


async def test_money_that_a_reorganisation_undid_is_not_returned(desk):
    payout = await held_return(desk, state=HeldState.UNDONE)
    await desk.turn(3)
    told = await desk.now(payout)
    assert (told.status, told.tx_id) == (PayoutStatus.WAITING, None)
    assert told.problem == "a reorganisation undid that the money came which it returns"
    await payouts.refuse(desk.app, payout.id)
    assert await desk.store.read(held_money.get("held_1")) is None
    assert await desk.transfers() == []
