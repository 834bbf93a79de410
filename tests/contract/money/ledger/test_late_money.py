"""Money that comes too late, or twice: it is recorded, returned, and reported to the operator."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2
from florin_server.db.engine.query import operation
from florin_server.money.ledger.service import books
from florin_server.money.ledger.service.books import ReconciliationStatus

from tests.support.books import SETTINGS, book_all, get_balance, get_treasury, wait_exact
from tests.support.installation import open_operator
from tests.support.late_money import (
    DOLLARS,
    get_send_actions,
    list_payouts,
    make_non_signing_wallet,
    submit_authorization,
    wait_returned,
)
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    FEE,
    PRICE,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.service_harness import open_service
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = "0x" + "5d" * 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("late") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> PayoutMerchant:
    return PayoutMerchant(desk, await desk.tenant())


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("end", ["expired", "cancelled"])
async def test_late_money_is_returned_to_its_sender(desk, shop, own, end, caplog):
    """The treasury or the merchant's own address got it; the fee is returned too."""
    if own:
        await shop.set_destination(f"erc20:{DOLLAR}", OWN)
    wallet = await make_non_signing_wallet(desk)
    payment_id, (actions,) = await get_send_actions(shop, wallet)
    held, stored = await desk.chain.balance(wallet.address), await desk.chain.balance(OWN)
    if end == "expired":
        desk.clock.advance(905)
    else:
        path = f"/v1/payments/{payment_id}/cancel"
        await desk.rest.call("POST", path, shop.tenant.headers, {})
    assert (await desk.wait_final(payment_id))["status"] == end
    (*_, tx_hash) = await wallet.perform(desk.chain, actions)
    payout = await wait_returned(desk, payment_id)
    assert payout.kind == payout_pb2.PAYOUT_KIND_RETURN
    assert (payout.amount, payout.account) == (str(PRICE), wallet.account.lower())
    assert await desk.chain.balance(wallet.address) == held
    assert await desk.chain.balance(OWN) == stored + (PRICE - FEE if own else 0)
    # the merchant returns what it got, and nothing else
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert await get_balance(desk, merchant, DOLLARS) == (PRICE - FEE if own else 0)
    status = await desk.rest.status(payment_id)
    assert (status["status"], status["info"]) == (end, None)
    assert any(
        payment_id in record.message and tx_hash in record.message for record in caplog.records
    )
    await wait_exact(desk)


async def test_second_payment_is_returned_to_its_payer(desk, shop):
    first, second = await make_non_signing_wallet(desk), await make_non_signing_wallet(desk)
    payment_id, (paid, again) = await get_send_actions(shop, first, second)
    held = await desk.chain.balance(second.address)
    await first.perform(desk.chain, paid)
    assert (await desk.wait_final(payment_id))["status"] == "succeeded"
    await second.perform(desk.chain, again)
    payout = await wait_returned(desk, payment_id)
    assert payout.account == second.account.lower()
    assert await desk.chain.balance(second.address) == held
    owed = PRICE - FEE
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == -owed
    assert (await desk.rest.status(payment_id))["status"] == "succeeded"
    await wait_exact(desk)


async def test_a_signature_that_a_stranger_takes_to_the_chain_too_late_is_returned(desk, shop):
    """The buyer signed and never confirmed; anyone who has the signature can still submit it."""
    wallet, stranger = EvmTestWallet(), EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await wait_faucet_booked(desk, stranger)
    offer = await desk.offer(wallet, tenant=shop.tenant)
    held = await desk.chain.balance(wallet.address)
    path = f"/v1/payments/{offer.payment_id}/cancel"
    await desk.rest.call("POST", path, shop.tenant.headers, {})
    await submit_authorization(desk, stranger, wallet, offer)
    assert await desk.chain.balance(wallet.address) == held - PRICE
    await wait_returned(desk, offer.payment_id)
    assert await desk.chain.balance(wallet.address) == held
    assert (await desk.rest.status(offer.payment_id))["status"] == "cancelled"
    await wait_exact(desk)


async def test_the_operator_may_keep_late_money_for_the_merchant(desk, shop):
    wallet = await make_non_signing_wallet(desk)
    payment_id, (actions,) = await get_send_actions(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.wait_final(payment_id))["status"] == "expired"
    held = await desk.chain.balance(wallet.address)
    payer = desk.service.app.payout_workers[CHAIN].key
    payer.pause()
    await wallet.perform(desk.chain, actions)

    async def returns() -> int:
        return len(await list_payouts(desk, payment_id))

    await wait_until(returns, 1)
    (waiting,) = await list_payouts(desk, payment_id)
    async with open_operator(desk.service) as operator:
        request = payout_pb2.RefusePayoutRequest(payout_id=waiting.payout_id)
        await operator.call("RefusePayout", request)
    payer.resume()
    assert await get_balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == -PRICE
    assert await desk.chain.balance(wallet.address) == held - PRICE
    await wait_exact(desk)


async def test_money_for_an_unknown_payment_is_unbooked(desk, shop, caplog):
    wallet = await make_non_signing_wallet(desk)
    payment_id, (actions,) = await get_send_actions(shop, wallet)
    # as if another installation had offered it, with the same treasury
    await desk.service.app.store.write(_forget(payment_id))
    await wallet.perform(desk.chain, actions)

    async def unbooked() -> int:
        reconciliation = await books.reconcile(desk.service.app)
        lines = [
            line for line in reconciliation.lines if line.wallet == (get_treasury(desk), DOLLARS)
        ]
        return lines[0].difference if lines[0].status is ReconciliationStatus.UNBOOKED else 0

    await wait_until(unbooked, PRICE)
    result = [record for record in caplog.records if "for no known payment" in record.message]
    assert len(result) == 1
    await book_all(desk)


@operation
def _forget(payment_id: str):
    from florin_server.db.engine.query import Command, param
    from florin_server.db.tables.tables import payment_option_table
    from sqlalchemy import delete

    offered = delete(payment_option_table).where(payment_option_table.c.payment_id == param("id_"))
    yield Command(offered)(id_=payment_id)


async def test_late_money_that_came_while_florin_was_down_is_returned_once(tmp_path):
    home = tmp_path / "home"
    async with open_service(home, **SETTINGS) as desk:
        shop = PayoutMerchant(desk, await desk.tenant())
        wallet = await make_non_signing_wallet(desk)
        held = await desk.chain.balance(wallet.address)
        payment_id, (actions,) = await get_send_actions(shop, wallet)
        desk.clock.advance(905)
        assert (await desk.wait_final(payment_id))["status"] == "expired"
        followed = "SELECT count(*) FROM installation WHERE name LIKE 'followed:%'"
        desk.clock.advance(61)
        await desk.chain.mine()

        async def noted() -> list[tuple[int]]:
            desk.clock.advance(20)
            return desk.select(followed)

        await wait_until(noted, [(1,)])
        # no worker follows the chain from now on
        await desk.service.workers.stop()
        await wallet.perform(desk.chain, actions)
        assert await desk.chain.balance(wallet.address) == held - PRICE
    for _ in range(2):
        async with open_service(home, **SETTINGS) as desk:
            await wait_returned(desk, payment_id)
            assert await desk.chain.balance(wallet.address) == held
            await wait_exact(desk)
