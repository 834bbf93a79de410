"""Test reorganizations beyond final depth: forwarded payments, and money that went home."""

from __future__ import annotations

import logging

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import deposit_addresses, deposits
from florin_server.money.payouts.store import held_money, payouts
from florin_server.money.settlement.store import settlement_items
from florin_server.rails.evm.sending.transactions import EvmSigner

from tests.support.evm_harness import CHAIN, TOKEN, make_buyer, to_account
from tests.support.payment_addresses import (
    CHAIN_CHANGES,
    STRANGER,
    fund_sender,
    sweep,
    transfer,
)
from tests.support.settled_addresses import (
    FORWARDER,
    PRICE,
    find_transaction,
    look,
    open_address,
    run_to_end,
)
from tests.support.settlement_harness import MERCHANT, SettlementHarness, open_settlement_harness

TREASURY = EvmSigner(b"\x74" * 32)
SENDER = make_buyer(41)
MUCH = 3_000_000


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path, forwarder=FORWARDER) as running:
        yield running


async def get_booked(shop: SettlementHarness) -> int:
    """Return what the merchant received, according to the books."""
    return await shop.store.read(ledger.get_balance(f"external:{to_account(MERCHANT)}", TOKEN))


async def agree(shop: SettlementHarness, *paid) -> None:
    """Check that books and chain agree, and that the payments are unchanged."""
    for payment in paid:
        assert await shop.get_payment(payment) == payment
    assert await shop.store.read(ledger.check()) == []
    assert await get_booked(shop) == await shop.lab.balance(MERCHANT)
    assert await shop.transactions() == []
    assert await shop.store.read(settlement_items.list_unsettled(CHAIN)) == []


async def test_forward_that_a_deep_reorg_removed_is_unbooked_and_sent_again(shop, caplog):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    ended = await run_to_end(shop, payment)
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(await shop.lab.depth_of(ended.tx_id), ended.tx_id)
        shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
        await shop.turn()
    assert ended.id in caplog.text
    assert await get_booked(shop) == await shop.lab.balance(MERCHANT) == 0
    assert await shop.store.read(ledger.check()) == []
    assert "a reorganization removed payments that had succeeded" in shop.settler.health().problem
    shop.lab.node.lost_methods = frozenset()
    await look(shop, 8)
    await agree(shop, ended)
    assert await get_booked(shop) == PRICE
    assert shop.settler.health().problem == ""


async def test_deposit_and_forward_that_moved_are_booked_where_they_are_now(shop):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    await look(shop)
    paid_by = await find_transaction(shop, payment)
    ended = await run_to_end(shop, payment)
    await shop.lab.reorg(await shop.lab.depth_of(paid_by), delay=3)
    await look(shop, 12)
    await agree(shop, ended)
    assert await get_booked(shop) == PRICE
    assert sum(item.deposit.value for item in await list_recorded(shop, payment)) == PRICE


async def list_recorded(shop, payment):
    return await shop.store.read(deposits.list_of_payment(payment.id))


async def test_deposit_that_a_deep_reorg_removed_leaves_the_payment_unbooked(shop, caplog):
    payment, address = await open_address(shop)
    await shop.lab.send_tokens(address, PRICE)
    await look(shop)
    paid_by = await find_transaction(shop, payment)
    ended = await run_to_end(shop, payment)
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(await shop.lab.depth_of(paid_by), paid_by, ended.tx_id)
        await look(shop, 6)
    assert await get_booked(shop) == await shop.lab.balance(MERCHANT) == 0
    assert await shop.get_payment(ended) == ended
    assert "a reorganization removed payments that had succeeded" in shop.settler.health().problem
    assert await list_recorded(shop, payment) == []
    shop.lab.clock.advance(3_000)
    with caplog.at_level(logging.ERROR):
        await look(shop, 8)
    what = f"payment {ended.id} was removed by a reorganization and can never be paid again: "
    assert what in caplog.text
    await agree(shop, ended)


# -- money that went home


@pytest.fixture
async def treasury_shop(tmp_path):
    values = {**CHAIN_CHANGES, "former_settlers": (), "forwarder": FORWARDER}
    async with open_settlement_harness(tmp_path, treasury=TREASURY, **values) as running:
        await fund_sender(running.lab, SENDER)
        await running.lab.give_gas(STRANGER.address, 10)
        yield running


async def sweep_home(shop):
    """Return the route of a payment whose late money has just been booked as returned."""
    payment, address = await open_address(shop)
    (opened,) = await shop.store.read(deposit_addresses.list_opened(payment.id))
    route = shop.lab.rail.addresses.get_route(opened.option)
    await transfer(shop.lab, SENDER, address, MUCH)
    await shop.mine(5)
    shop.lab.clock.advance(3 * 3600)

    async def is_booked() -> bool:
        shop.lab.clock.advance(11)
        return bool(await list_payouts(shop))

    await shop.mine_until(is_booked)
    return route


async def list_payouts(shop):
    return await shop.store.read(payouts.list_payouts(100, include_closed=True))


async def list_held(shop):
    return await shop.store.read(held_money.list_held_money(100, include_closed=True))


async def get_home_balance(shop):
    """Return what the books say went to the treasury."""
    account = accounts.wallet(to_account(TREASURY.address))
    return await shop.store.read(ledger.get_balance(account, TOKEN))


async def pass_time(shop, turns=10):
    """Let looks be due again, also at addresses whose money could not be moved."""
    for _ in range(turns):
        shop.lab.clock.advance(300)
        await shop.mine(2)


async def submit(shop, payout):
    """Let a payout be on its way."""
    now_us = shop.lab.clock.now_us()
    await shop.store.write(payouts.claim(payout, "0xfeed", None, None, now_us))


async def test_sweep_that_a_deep_reorg_removed_cancels_the_return_and_is_sent_again(
    treasury_shop, caplog
):
    shop = treasury_shop
    route = await sweep_home(shop)
    (held,), (payout,) = await list_held(shop), await list_payouts(shop)
    with caplog.at_level(logging.ERROR):
        await shop.lab.reorg(await shop.lab.depth_of(held.tx_hash), held.tx_hash)
        shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
        await shop.turn()
    assert held.payment_id in caplog.text
    assert await get_home_balance(shop) == 0
    assert await list_held(shop) == []
    assert [item.status for item in await list_payouts(shop)] == [PayoutStatus.REFUSED]
    (stored,) = await shop.store.read(deposits.list_of_payment(held.payment_id))
    assert stored.returned_by is None
    assert await shop.store.read(ledger.check()) == []
    shop.lab.node.lost_methods = frozenset()
    await pass_time(shop)
    assert await shop.lab.balance(route.compute_address()) == 0
    waiting = [item for item in await list_payouts(shop) if item.status is PayoutStatus.WAITING]
    assert [(item.value, item.account) for item in waiting] == [(MUCH, payout.account)]
    assert await get_home_balance(shop) == await shop.lab.balance(TREASURY.address) == MUCH
    assert await shop.store.read(ledger.check()) == []


async def test_money_that_was_paid_back_already_is_not_paid_twice_after_a_reorg(treasury_shop):
    shop = treasury_shop
    await sweep_home(shop)
    (held,), (payout,) = await list_held(shop), await list_payouts(shop)
    await submit(shop, payout)
    depth = await shop.lab.depth_of(held.tx_hash)
    await shop.lab.reorg(depth, delay=depth)
    await shop.turn()
    assert await get_home_balance(shop) == 0
    assert [item.state for item in await list_held(shop)] == [HeldMoneyState.UNDONE]
    await pass_time(shop)
    (again,) = await list_held(shop)
    assert (again.id, again.state, again.payout_id) == (
        held.id,
        HeldMoneyState.RETURNED,
        payout.id,
    )
    assert [item.id for item in await list_payouts(shop)] == [payout.id]
    assert await get_home_balance(shop) == MUCH
    assert await shop.store.read(ledger.check()) == []


async def test_sweep_of_a_stranger_after_a_reorg_returns_only_what_is_not_paid_back(treasury_shop):
    shop = treasury_shop
    route = await sweep_home(shop)
    (held,), (payout,) = await list_held(shop), await list_payouts(shop)
    await submit(shop, payout)
    await shop.lab.reorg(await shop.lab.depth_of(held.tx_hash), held.tx_hash)
    shop.lab.node.lost_methods = frozenset({"eth_sendRawTransaction"})
    await shop.turn()
    more = 2_000_000
    await transfer(shop.lab, SENDER, route.compute_address(), more)
    swept = await sweep(shop.lab, (route, DEVNET.token.address))
    assert swept["status"] == "0x1"
    shop.lab.node.lost_methods = frozenset()
    await pass_time(shop)
    values = {item.id: item.value for item in await list_payouts(shop)}
    assert sorted(values.values()) == sorted((MUCH, more))
    assert values[payout.id] == MUCH
    assert await get_home_balance(shop) == MUCH + more
    assert await shop.store.read(ledger.check()) == []
