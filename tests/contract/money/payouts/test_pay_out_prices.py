"""Test payouts and refunds where gas costs more than usual, or is charged in a token."""

from __future__ import annotations

from florin_sandbox.devnet.evm.schedule import GasSchedule
from florin_server.domain.payouts.payout import PayoutKind
from florin_server.money.ledger.store import ledger

from tests.support.chains import EmbeddedChains
from tests.support.evm_harness import TOKEN, to_account
from tests.support.fee_token import SETTINGS, choose_fee_token, make_tempo_chains
from tests.support.payout_actions import COIN
from tests.support.payout_harness import BUYER, TREASURY, TREASURY_KEY, open_payout_harness

PRICES = GasSchedule(97_920, 183_600, 64)


async def test_refund_and_payouts_of_token_and_coin_settle_at_raised_prices(tmp_path):
    async with open_payout_harness(tmp_path, evm=EmbeddedChains(PRICES)) as desk:
        await desk.wait_done(await desk.create_payout(150))
        await desk.book_owed(220)
        other = to_account("0x" + "b1" * 20)
        await desk.wait_done(
            await desk.create_payout(
                70, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=other
            )
        )
        new = to_account("0x" + "b2" * 20)
        await desk.book_owed(90, COIN)
        await desk.wait_done(
            await desk.create_payout(
                90, id="pout_2", kind=PayoutKind.BALANCE, payment_id=None, asset=COIN, account=new
            )
        )
        assert await desk.lab.balance(BUYER) == 150


async def test_refund_where_fees_are_charged_in_its_token_books_both_apart(tmp_path):
    async with open_payout_harness(tmp_path, evm=make_tempo_chains(), chain=SETTINGS) as desk:
        payout = await desk.create_payout(150)
        await desk.turn()
        waiting = await desk.get_payout(payout)
        assert "has not chosen" in (waiting.problem or "")
        await choose_fee_token(desk.lab, TREASURY_KEY)
        began = await desk.lab.balance(TREASURY.address)
        desk.lab.clock.advance(3600)
        await desk.wait_done(payout)
        assert await desk.lab.balance(BUYER) == 150
        spent = began - 150 - await desk.lab.balance(TREASURY.address)
        assert await desk.store.read(ledger.get_balance("expense:gas", TOKEN)) == spent > 0
