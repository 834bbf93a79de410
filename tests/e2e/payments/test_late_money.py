"""Money that comes too late, or twice: it is recorded, returned, and told to the operator."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2
from florin_server.flows.ledger import books
from florin_server.flows.ledger.books import Verdict
from florin_server.store.engine.query import operation

from tests.support.books import SETTINGS, balance, booked, exact, treasury_of
from tests.support.desk import opened
from tests.support.installation import operator_of
from tests.support.late_money import DOLLARS, mute, payouts_of, returned, submit, told_to_send
from tests.support.payout_shop import CHAIN, DOLLAR, FEE, PRICE, Shop, filled
from tests.support.until import until
from tests.support.wallet import Wallet

pytestmark = pytest.mark.asyncio(loop_scope="module")

OWN = "0x" + "5d" * 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("late") / "home", **SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk) -> Shop:
    return Shop(desk, await desk.tenant())


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("end", ["expired", "cancelled"])
async def test_late_money_goes_back_to_whoever_sent_it(desk, shop, own, end, caplog):
    """The treasury got it, or the merchant's own address did; the fee goes back too."""
    if own:
        await shop.wants(f"erc20:{DOLLAR}", OWN)
    wallet = await mute(desk)
    payment_id, (actions,) = await told_to_send(shop, wallet)
    held, kept = await desk.chain.balance(wallet.address), await desk.chain.balance(OWN)
    if end == "expired":
        desk.clock.advance(905)
    else:
        path = f"/v1/payments/{payment_id}/cancel"
        await desk.rest.call("POST", path, shop.tenant.headers, {})
    assert (await desk.final(payment_id))["status"] == end
    (*_, tx_hash) = await wallet.perform(desk.chain, actions)
    payout = await returned(desk, payment_id)
    assert payout.kind == payout_pb2.PAYOUT_KIND_RETURN
    assert (payout.amount, payout.account) == (str(PRICE), wallet.account.lower())
    assert await desk.chain.balance(wallet.address) == held
    assert await desk.chain.balance(OWN) == kept + (PRICE - FEE if own else 0)
    # the merchant gives back what it got, and nothing else
    merchant = f"merchant:{shop.tenant.merchant.id}"
    assert await balance(desk, merchant, DOLLARS) == (PRICE - FEE if own else 0)
    status = await desk.rest.status(payment_id)
    assert (status["status"], status["info"]) == (end, None)
    assert any(payment_id in one.message and tx_hash in one.message for one in caplog.records)
    await exact(desk)


async def test_who_pays_twice_gets_the_second_payment_back(desk, shop):
    first, second = await mute(desk), await mute(desk)
    payment_id, (paid, again) = await told_to_send(shop, first, second)
    held = await desk.chain.balance(second.address)
    await first.perform(desk.chain, paid)
    assert (await desk.final(payment_id))["status"] == "succeeded"
    await second.perform(desk.chain, again)
    payout = await returned(desk, payment_id)
    assert payout.account == second.account.lower()
    assert await desk.chain.balance(second.address) == held
    owed = PRICE - FEE
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == -owed
    assert (await desk.rest.status(payment_id))["status"] == "succeeded"
    await exact(desk)


async def test_a_signature_that_a_stranger_takes_to_the_chain_too_late_is_returned(desk, shop):
    """The buyer signed and never confirmed; whoever has the bytes may still submit them."""
    wallet, stranger = Wallet(), Wallet()
    await filled(desk, wallet)
    await filled(desk, stranger)
    offer = await desk.offer(wallet, tenant=shop.tenant)
    held = await desk.chain.balance(wallet.address)
    path = f"/v1/payments/{offer.payment_id}/cancel"
    await desk.rest.call("POST", path, shop.tenant.headers, {})
    await submit(desk, stranger, wallet, offer)
    assert await desk.chain.balance(wallet.address) == held - PRICE
    await returned(desk, offer.payment_id)
    assert await desk.chain.balance(wallet.address) == held
    assert (await desk.rest.status(offer.payment_id))["status"] == "cancelled"
    await exact(desk)


async def test_the_operator_may_keep_late_money_for_the_merchant(desk, shop):
    wallet = await mute(desk)
    payment_id, (actions,) = await told_to_send(shop, wallet)
    desk.clock.advance(905)
    assert (await desk.final(payment_id))["status"] == "expired"
    held = await desk.chain.balance(wallet.address)
    payer = desk.service.app.payout_workers[CHAIN].sender
    payer.pause()
    await wallet.perform(desk.chain, actions)

    async def returns() -> int:
        return len(await payouts_of(desk, payment_id))

    await until(returns, 1)
    (waiting,) = await payouts_of(desk, payment_id)
    async with operator_of(desk.service) as operator:
        request = payout_pb2.RefusePayoutRequest(payout_id=waiting.payout_id)
        await operator.ask("RefusePayout", request)
    payer.resume()
    assert await balance(desk, f"merchant:{shop.tenant.merchant.id}", DOLLARS) == -PRICE
    assert await desk.chain.balance(wallet.address) == held - PRICE
    await exact(desk)


async def test_money_for_nothing_that_is_known_is_unbooked(desk, shop, caplog):
    wallet = await mute(desk)
    payment_id, (actions,) = await told_to_send(shop, wallet)
    # as if another installation had offered it, with the same treasury
    await desk.service.app.store.write(_forget(payment_id))
    await wallet.perform(desk.chain, actions)

    async def unbooked() -> int:
        found = await books.compare(desk.service.app)
        lines = [one for one in found.lines if one.place == (treasury_of(desk), DOLLARS)]
        return lines[0].difference if lines[0].verdict is Verdict.UNBOOKED else 0

    await until(unbooked, PRICE)
    told = [one for one in caplog.records if "for nothing that is known" in one.message]
    assert len(told) == 1
    await booked(desk)


@operation
def _forget(payment_id: str):
    from florin_server.store.engine.query import Statement, param
    from florin_server.store.tables.tables import payment_option
    from sqlalchemy import delete

    offered = delete(payment_option).where(payment_option.c.payment_id == param("id_"))
    yield Statement(offered)(id_=payment_id)


async def test_late_money_that_came_while_florin_was_down_is_returned_once(tmp_path):
    home = tmp_path / "home"
    async with opened(home, **SETTINGS) as desk:
        shop = Shop(desk, await desk.tenant())
        wallet = await mute(desk)
        held = await desk.chain.balance(wallet.address)
        payment_id, (actions,) = await told_to_send(shop, wallet)
        desk.clock.advance(905)
        assert (await desk.final(payment_id))["status"] == "expired"
        followed = "SELECT count(*) FROM installation WHERE name LIKE 'followed:%'"
        desk.clock.advance(61)
        await desk.chain.mine()

        async def noted() -> list[tuple[int]]:
            desk.clock.advance(20)
            return desk.select(followed)

        await until(noted, [(1,)])
        # nobody follows the chain from now on
        await desk.service.workers.end()
        await wallet.perform(desk.chain, actions)
        assert await desk.chain.balance(wallet.address) == held - PRICE
    for _ in range(2):
        async with opened(home, **SETTINGS) as desk:
            await returned(desk, payment_id)
            assert await desk.chain.balance(wallet.address) == held
            await exact(desk)
