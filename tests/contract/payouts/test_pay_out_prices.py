"""Payouts and refunds where gas costs more than usual, or is charged in a token."""

from __future__ import annotations

from florin_server.devnet.evm.schedule import GasSchedule
from florin_server.domain.payouts.payout import PayoutKind
from florin_server.store.ledger import ledger

from tests.support.chains import OwnChain
from tests.support.evm_lab import TOKEN, account_of
from tests.support.fee_token import SETTINGS, choose, tempo
from tests.support.payout_lab import BUYER, TREASURY, TREASURY_KEY, office
from tests.support.payout_steps import COIN

PRICES = GasSchedule(97_920, 183_600, 64)


async def test_refund_and_payouts_of_token_and_coin_settle_at_raised_prices(tmp_path):
    async with office(tmp_path, evm=OwnChain(PRICES)) as desk:
        await desk.done(await desk.asked(150))
        await desk.owe(220)
        other = account_of("0x" + "b1" * 20)
        await desk.done(
            await desk.asked(
                70, id="pout_1", kind=PayoutKind.BALANCE, payment_id=None, account=other
            )
        )
        new = account_of("0x" + "b2" * 20)
        await desk.owe(90, COIN)
        await desk.done(
            await desk.asked(
                90, id="pout_2", kind=PayoutKind.BALANCE, payment_id=None, asset=COIN, account=new
            )
        )
        assert await desk.lab.balance(BUYER) == 150


async def test_refund_where_fees_are_charged_in_its_token_books_both_apart(tmp_path):
    async with office(tmp_path, evm=tempo(), chain=SETTINGS) as desk:
        payout = await desk.asked(150)
        await desk.turn()
        waiting = await desk.now(payout)
        assert "has not chosen" in (waiting.problem or "")
        await choose(desk.lab, TREASURY_KEY)
        began = await desk.lab.balance(TREASURY.address)
        desk.lab.clock.advance(3600)
        await desk.done(payout)
        assert await desk.lab.balance(BUYER) == 150
        spent = began - 150 - await desk.lab.balance(TREASURY.address)
        assert await desk.store.read(ledger.balance("expense:gas", TOKEN)) == spent > 0
