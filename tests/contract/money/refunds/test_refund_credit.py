"""Test merchants' refund credit: for each, for a partner's merchants together, and for all."""

from __future__ import annotations

import pytest
from florin_server.accounts.store import merchants
from florin_server.domain.ledger.accounts import FEE
from florin_server.domain.payments.payment import Merchant
from florin_server.domain.payouts.payout import PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service.credit import has_credit_for
from florin_server.money.payouts.store import payouts
from florin_server.settings import Settings
from pydantic import ValidationError

from tests.support.evm_harness import TOKEN
from tests.support.payout_actions import get_waiting_reason
from tests.support.payout_harness import SHOP, open_payout_harness


async def test_merchant_refunds_up_to_its_configured_credit(tmp_path):
    async with open_payout_harness(tmp_path, refund_credit={TOKEN: 100}) as desk:
        first, second = (
            await desk.create_payout(60, live=True),
            await desk.create_payout(60, live=True),
        )
        await desk.wait_done(first)
        assert "lack 20 minor units" in await get_waiting_reason(desk, second)
        balance = await desk.create_payout(1, id="pout_1", kind=PayoutKind.BALANCE, live=True)
        await desk.turn()
        # credit applies to refunds only
        assert "lack 61 minor units" in await get_waiting_reason(desk, balance)
        assert await desk.store.read(ledger.get_balance(f"merchant:{SHOP}", TOKEN)) == 60
        assert await desk.store.read(ledger.check()) == []


async def test_merchants_of_a_partner_share_its_refund_credit(tmp_path):
    """A partner creates merchants freely, so four of them together owe no more than one could."""
    credit = {"partner": 100, "merchant": 60, "total": 130}
    async with open_payout_harness(tmp_path, refund_credit={TOKEN: credit}) as desk:
        for number, partner in enumerate(("prtn_one", "prtn_one", "prtn_one", "prtn_two")):
            name = f"mrch_{number}"
            shop = Merchant(name, partner, "Shop", "a@b.example", None, "active", True, 0)
            await desk.store.write(merchants.create(shop))
        refused = await desk.create_payout(61, live=True, merchant_id="mrch_0")
        await desk.turn()
        assert "merchant's balance and credit lack 1 minor units" in await get_waiting_reason(
            desk, refused
        )
        await desk.store.write(payouts.refuse(refused.id, 0))
        first = await desk.create_payout(60, live=True, merchant_id="mrch_0")
        await desk.turn()
        second = await desk.create_payout(60, live=True, merchant_id="mrch_1")
        await desk.turn()
        assert "partner's merchants lack 20 minor units" in await get_waiting_reason(desk, second)
        await desk.wait_done(first)
        desk.lab.clock.advance(61)
        await desk.turn(2)
        assert "partner's merchants lack 20 minor units" in await get_waiting_reason(desk, second)
        third = await desk.create_payout(40, live=True, merchant_id="mrch_2")
        await desk.wait_done(third)
        other = await desk.create_payout(31, live=True, merchant_id="mrch_3")
        await desk.turn()
        assert "credit of all partners lack 1 minor units" in await get_waiting_reason(desk, other)
        assert sum(await desk.transfers()) == 100
        # money owed to a merchant frees credit
        await desk.book_owed(60, merchant="mrch_0")
        desk.lab.clock.advance(61)
        await desk.wait_done(second)
        assert await desk.store.read(ledger.check()) == []


async def book_owed_fee(desk, merchant: str, fee: int) -> None:
    posting = LedgerPosting(f"merchant:{merchant}", FEE, TOKEN, fee)
    key = f"settle:{merchant}:{fee}"
    await desk.store.write(ledger.post(key, "settle", None, None, (posting,), 0))


async def test_owed_fees_count_against_the_credit(tmp_path):
    credit = {"partner": 100, "merchant": 60, "total": 130}
    async with open_payout_harness(tmp_path, refund_credit={TOKEN: credit}) as desk:
        for number, partner in enumerate(("prtn_one", "prtn_one", "prtn_two")):
            name = f"mrch_{number}"
            shop = Merchant(name, partner, "Shop", "a@b.example", None, "active", True, 0)
            await desk.store.write(merchants.create(shop))

        async def owes_at_most(merchant: str) -> int:
            """Return the largest fee for which the merchant has credit."""
            desk.lab.clock.advance(11)
            fits = [
                fee
                for fee in range(140)
                if await has_credit_for(desk.app, merchant, TOKEN, fee, live=True)
            ]
            assert fits == list(range(len(fits)))
            return len(fits) - 1

        assert [await owes_at_most(f"mrch_{number}") for number in range(3)] == [60, 60, 60]
        await book_owed_fee(desk, "mrch_0", 45)
        assert [await owes_at_most(f"mrch_{number}") for number in range(3)] == [15, 55, 60]
        await book_owed_fee(desk, "mrch_1", 50)
        assert [await owes_at_most(f"mrch_{number}") for number in range(3)] == [5, 5, 35]
        # a refund meets the same limits
        refused = await desk.create_payout(6, live=True, merchant_id="mrch_0")
        await desk.turn()
        assert "partner's merchants lack 1 minor units" in await get_waiting_reason(desk, refused)
        await desk.store.write(payouts.refuse(refused.id, 0))
        # what the merchant earned or paid counts first, also without credit for anybody else
        await desk.book_owed(40, merchant="mrch_1")
        assert [await owes_at_most(f"mrch_{number}") for number in range(3)] == [15, 45, 60]
        # a refund that waits counts as paid
        await desk.create_payout(7, live=True, merchant_id="mrch_0")
        assert await owes_at_most("mrch_0") == 8
        assert await has_credit_for(desk.app, "mrch_0", TOKEN, 10**30, live=False)
        assert await desk.store.read(ledger.check()) == []


@pytest.mark.parametrize(
    "credit", [{"partner": 1, "merchant": 2}, {"partner": 2, "total": 1}, -1, True, {"merchant": 1}]
)
async def test_refund_credit_that_makes_no_sense_is_refused_at_start(credit):
    with pytest.raises(ValidationError):
        Settings(refund_credit={TOKEN: credit})
