"""Test what happens to money that is left at payments' addresses: home, returned or held."""

from __future__ import annotations

import contextlib
from collections import Counter
from dataclasses import replace

import pytest
from eth_hash.auto import keccak
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.errors import ApiError
from florin_server.domain.ledger import accounts
from florin_server.domain.payouts.held_money import HeldMoneyState
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.service.addresses import open_addresses
from florin_server.money.payments.service.recover_address import recover_address
from florin_server.money.payments.store import deposit_addresses, deposits
from florin_server.money.payments.store.deposit_addresses import AddressQuota
from florin_server.money.payouts.service import held_money as held_service
from florin_server.money.payouts.store import held_money, payouts
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.types import RailUnavailable

from tests.support.devnet_tokens import FEE_TOKEN
from tests.support.evm_harness import (
    EURO,
    TOKEN,
    make_asset,
    make_buyer,
    make_euro_asset,
    to_account,
)
from tests.support.payment_addresses import (
    CHAIN_CHANGES,
    COIN_ASSET,
    STRANGER,
    forward,
    fund_sender,
    send_coin_by_contract,
    sweep,
    transfer,
)
from tests.support.settlement_harness import BUYER as CALLER
from tests.support.settlement_harness import CHAIN, open_settlement_harness

TREASURY = EvmSigner(b"\x74" * 32)
BUYER, FRIEND = make_buyer(41), make_buyer(42)
DAY_S = 86_400
# sends a token that it has to the address in the call, as exchanges' contracts do
MUCH = 3_000_000


@contextlib.asynccontextmanager
async def open_shop(tmp_path, **changes):
    """Open a settler of a chain with a forwarder, senders with money, and a treasury."""
    forwarder = ForwarderSettings(address=DEVNET.forwarder)
    values = {**CHAIN_CHANGES, "former_settlers": (), "forwarder": forwarder, **changes}
    async with open_settlement_harness(tmp_path, treasury=TREASURY, **values) as harness:
        for sender in (BUYER, FRIEND):
            await fund_sender(harness.lab, sender)
        await harness.lab.give_gas(STRANGER.address, 10)
        yield harness


@pytest.fixture
async def shop(tmp_path):
    async with open_shop(tmp_path) as harness:
        yield harness


async def open_route(shop, **more):
    """Return the route of a new payment's address, and the payment's id."""
    payment_id = await shop.create_unpaid()
    (address,) = await open_addresses(shop.app, CALLER, payment_id, [TOKEN], **more)
    return shop.lab.rail.addresses.get_route(address.opened.option), payment_id


async def pass_time(shop, seconds, turns=4):
    """Let time pass, and give the settler turns in which what it sent becomes final."""
    await shop.mine(4)
    shop.lab.clock.advance(seconds)
    for _ in range(turns):
        shop.lab.clock.advance(40)
        await shop.mine(4)


async def list_held(shop):
    return await shop.store.read(held_money.list_held_money(100, include_closed=True))


async def list_payouts(shop):
    return await shop.store.read(payouts.list_payouts(100, include_closed=True))


async def read_balance(shop, account, asset=TOKEN):
    return await shop.store.read(ledger.get_balance(account, asset))


async def has_left(shop, address):
    return await shop.lab.balance(address) == 0


def get_first_contract(maker):
    """Return the address of the first contract that an account creates."""
    return "0x" + keccak(b"\xd6\x94" + bytes.fromhex(maker.address[2:]) + b"\x80")[12:].hex()


async def check_conservation(shop, routes, sent, asset=TOKEN):
    """Assert that all that was sent is at an end that the books know, or at the addresses."""
    assert await shop.store.read(ledger.check()) == []
    token = ZERO_ADDRESS if asset == COIN_ASSET else asset.rpartition(":")[2]
    ends = Counter()
    for route in routes:
        address = route.compute_address()
        if token == ZERO_ADDRESS:
            ends["at addresses"] += int(
                await shop.lab.control.call("eth_getBalance", address, "latest"), 16
            )
        else:
            ends["at addresses"] += await shop.lab.balance(address, token)
    for event in await shop.lab.rail.direct_settlement.list_settlement_events_between(
        0, (await shop.lab.rail.observer.get_head()).number
    ):
        if event.token == token and event.payer in {route.compute_address() for route in routes}:
            ends["dest"] += event.value - event.fee
            ends["fee"] += event.fee
    for held in await list_held(shop):
        if held.asset == asset:
            ends["returned" if held.payout_id else "held"] += held.held
    assert sum(ends.values()) == sent, ends
    home = await read_balance(shop, accounts.wallet(to_account(TREASURY.address)), asset)
    assert home == ends["returned"] + ends["held"]
    return ends


async def test_too_much_money_returns_to_the_last_sender(shop):
    route, payment_id = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, route.value - 10)
    await transfer(shop.lab, FRIEND, address, 10 + MUCH)
    await forward(shop.lab, route)
    await pass_time(shop, 60)
    assert await shop.lab.balance(address) == MUCH
    await pass_time(shop, 3 * 3600)
    assert await shop.lab.balance(address) == 0
    (held,), (payout,) = await list_held(shop), await list_payouts(shop)
    assert (held.state, held.payer, held.held) == (
        HeldMoneyState.RETURNED,
        to_account(FRIEND),
        MUCH,
    )
    assert (payout.account, payout.value, payout.payment_id) == (
        to_account(FRIEND),
        MUCH,
        payment_id,
    )
    assert (payout.held_id, payout.owed_account) == (
        held.id,
        accounts.stray_money(to_account(address)),
    )
    assert await read_balance(shop, accounts.stray_money(to_account(address))) == -MUCH
    stored = await shop.store.read(deposits.list_of_payment(payment_id))
    assert [(item.deposit.sender, item.returned_by) for item in stored] == [
        (BUYER.address.lower(), None),
        (FRIEND.address.lower(), payout.id),
    ]
    ends = await check_conservation(shop, [route], route.value + MUCH)
    assert ends["returned"] == MUCH
    # nothing is booked or sent twice
    await pass_time(shop, 2 * DAY_S)
    assert (len(await list_held(shop)), len(await list_payouts(shop))) == (1, 1)


async def test_late_and_too_little_money_returns_to_each_sender(shop):
    route, _ = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, MUCH // 3)
    await transfer(shop.lab, FRIEND, address, MUCH // 3)
    await transfer(shop.lab, BUYER, address, MUCH // 3)
    await pass_time(shop, 3 * 3600)
    returned = {payout.account: payout.value for payout in await list_payouts(shop)}
    assert returned == {to_account(BUYER): 2 * (MUCH // 3), to_account(FRIEND): MUCH // 3}
    # money that comes weeks later is found by the daily look
    await transfer(shop.lab, FRIEND, address, MUCH)
    await pass_time(shop, 20 * DAY_S)
    assert sum(payout.value for payout in await list_payouts(shop)) == 2 * MUCH
    await check_conservation(shop, [route], 2 * MUCH)


async def test_other_assets_return_too_and_coin_of_contracts_is_held(shop):
    route, _ = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, MUCH, DEVNET.euro.address)
    await transfer(shop.lab, FRIEND, address, 10**18, ZERO_ADDRESS)
    await send_coin_by_contract(shop.lab, address, 2 * 10**18)
    await pass_time(shop, 3 * 3600)
    returned = {(payout.asset, payout.account): payout.value for payout in await list_payouts(shop)}
    assert returned == {
        (EURO, to_account(BUYER)): MUCH,
        (COIN_ASSET, to_account(FRIEND)): 10**18,
    }
    (held,) = [item for item in await list_held(shop) if item.state is HeldMoneyState.HELD]
    assert (held.asset, held.held, held.has_unknown_sender) == (COIN_ASSET, 2 * 10**18, True)
    await check_conservation(shop, [route], MUCH, EURO)
    await check_conservation(shop, [route], 3 * 10**18, COIN_ASSET)
    with pytest.raises(ApiError, match="name the account"):
        await held_service.resolve(shop.app, held.id, HeldMoneyState.RETURNED, "ask")
    with pytest.raises(ApiError, match="cannot be returned to"):
        await held_service.resolve(
            shop.app, held.id, HeldMoneyState.RETURNED, "x", return_to="eip155:1:0x12"
        )
    with pytest.raises(ApiError, match="late"):
        await held_service.resolve(shop.app, held.id, HeldMoneyState.RELEASED, "no")
    done = await held_service.resolve(
        shop.app, held.id, HeldMoneyState.RETURNED, "proved", return_to=to_account(BUYER)
    )
    payout = await shop.store.read(payouts.find(done.payout_id))
    assert (payout.account, payout.value) == (to_account(BUYER), 2 * 10**18)
    assert payout.owed_account == accounts.stray_money(to_account(address))


async def test_blocked_sender_adds_a_cent_and_only_the_cent_is_held(shop):
    route, _ = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, MUCH)
    await transfer(shop.lab, FRIEND, address, 10_000)
    shop.app.blocklist.add([FRIEND.address])
    await pass_time(shop, 3 * 3600)
    by_payer = {item.payer: (item.state, item.held) for item in await list_held(shop)}
    assert by_payer == {
        to_account(BUYER): (HeldMoneyState.RETURNED, MUCH),
        to_account(FRIEND): (HeldMoneyState.HELD, 10_000),
    }
    assert await read_balance(shop, accounts.held_money(to_account(FRIEND))) == -10_000
    await check_conservation(shop, [route], MUCH + 10_000)


async def test_blocked_money_that_came_first_pays_nothing_and_is_held(shop):
    route, payment_id = await open_route(shop)
    address = route.compute_address()
    shop.app.blocklist.add([FRIEND.address])
    await transfer(shop.lab, FRIEND, address, 1_200_000)
    await transfer(shop.lab, BUYER, address, route.value)
    await pass_time(shop, 60)
    payment = await shop.store.payments.find(payment_id)
    assert payment.status == "succeeded"
    await pass_time(shop, 3 * 3600)
    by_payer = {item.payer: (item.state, item.held) for item in await list_held(shop)}
    assert by_payer == {to_account(FRIEND): (HeldMoneyState.HELD, 1_200_000)}
    assert await list_payouts(shop) == []
    await check_conservation(shop, [route], 1_200_000 + route.value)


async def test_exchange_of_the_settings_gets_nothing_back_by_itself(tmp_path):
    async with open_shop(tmp_path, exchanges=(FRIEND.address,)) as shop:
        route, _ = await open_route(shop)
        await transfer(shop.lab, FRIEND, route.compute_address(), MUCH)
        await pass_time(shop, 3 * 3600)
        (held,) = await list_held(shop)
        assert (held.state, held.why) == (HeldMoneyState.HELD, "sent by an exchange")
        await check_conservation(shop, [route], MUCH)


async def test_buyer_named_an_account_and_all_goes_there(shop):
    route, _ = await open_route(shop, refund_account=to_account(BUYER))
    address = route.compute_address()
    await transfer(shop.lab, FRIEND, address, MUCH)
    await send_coin_by_contract(shop.lab, address, 10**18)
    await pass_time(shop, 3 * 3600)
    returned = {(payout.asset, payout.account): payout.value for payout in await list_payouts(shop)}
    assert returned == {
        (TOKEN, to_account(BUYER)): MUCH,
        (COIN_ASSET, to_account(BUYER)): 10**18,
    }
    await check_conservation(shop, [route], MUCH)


async def test_money_that_a_stranger_sent_home_is_booked_and_returned_too(shop):
    route, _ = await open_route(shop)
    await transfer(shop.lab, BUYER, route.compute_address(), MUCH)
    shop.lab.clock.advance(2000)
    await shop.mine()
    await sweep(shop.lab, (route, DEVNET.token.address))
    await pass_time(shop, 3 * 3600)
    assert [(payout.account, payout.value) for payout in await list_payouts(shop)] == [
        (to_account(BUYER), MUCH)
    ]
    await check_conservation(shop, [route], MUCH)


async def test_dust_stays_until_the_operator_asks_for_it(shop):
    routes = [await open_route(shop) for _ in range(3)]
    for route, _ in routes:
        await transfer(shop.lab, BUYER, route.compute_address(), 1)
    await pass_time(shop, 3 * 3600)
    assert await list_held(shop) == []
    assert await shop.transactions() == []
    await check_conservation(shop, [route for route, _ in routes], 3)
    route, payment_id = routes[1]
    await recover_address(shop.app, payment_id, CHAIN, TOKEN)
    await pass_time(shop, 60)
    # a transaction of its own would cost more
    (held,) = await list_held(shop)
    assert (held.held, held.payer, held.state) == (1, to_account(BUYER), HeldMoneyState.KEPT)
    assert await list_payouts(shop) == []
    await check_conservation(shop, [route for route, _ in routes], 3)


async def test_unlisted_tokens_move_only_on_request(tmp_path):
    async with open_shop(tmp_path, assets=CHAIN_CHANGES["assets"][:1]) as shop:
        assert make_euro_asset().address == DEVNET.euro.address
        route, payment_id = await open_route(shop)
        address = route.compute_address()
        await transfer(shop.lab, BUYER, address, MUCH, DEVNET.euro.address)
        await pass_time(shop, 3 * 3600)
        assert await shop.lab.balance(address, DEVNET.euro.address) == MUCH
        await recover_address(shop.app, payment_id, CHAIN, EURO)
        await pass_time(shop, 60)
        assert await shop.lab.balance(address, DEVNET.euro.address) == 0
        (held,) = await list_held(shop)
        assert (held.asset, held.held, held.has_unknown_sender) == (EURO, MUCH, True)


async def test_recovery_names_what_exists(shop):
    _, payment_id = await open_route(shop)
    for wrong in (
        ("pay_nothing", CHAIN, TOKEN),
        (payment_id, "eip155:99", TOKEN),
        (payment_id, CHAIN, "eip155:99/erc20:0x12"),
    ):
        with pytest.raises(ApiError):
            await recover_address(shop.app, *wrong)


async def test_restart_between_sweep_and_books_returns_once(shop):
    route, _ = await open_route(shop)
    await transfer(shop.lab, BUYER, route.compute_address(), MUCH)
    shop.lab.clock.advance(3 * 3600)
    await shop.mine(3)
    await shop.restart()
    await pass_time(shop, 60)
    await shop.restart()
    await pass_time(shop, DAY_S)
    assert [payout.value for payout in await list_payouts(shop)] == [MUCH]
    await check_conservation(shop, [route], MUCH)


async def test_frozen_home_waits_and_stops_no_other(shop):
    route, _ = await open_route(shop)
    other, _ = await open_route(shop)
    await transfer(shop.lab, BUYER, route.compute_address(), MUCH)
    await transfer(shop.lab, BUYER, other.compute_address(), MUCH, DEVNET.euro.address)
    word = TREASURY.address[2:].lower().rjust(64, "0")
    await shop.lab.send(to=DEVNET.token.address, data=bytes.fromhex("f9f92be4" + word))
    await pass_time(shop, 3 * 3600)
    assert [payout.asset for payout in await list_payouts(shop)] == [EURO]
    assert await shop.lab.balance(route.compute_address()) == MUCH
    await check_conservation(shop, [route, other], MUCH)
    await shop.lab.send(to=DEVNET.token.address, data=bytes.fromhex("1a895266" + word))
    await pass_time(shop, DAY_S)
    assert await shop.lab.balance(route.compute_address()) == 0
    await check_conservation(shop, [route, other], MUCH)


async def test_token_that_keeps_a_part_shortens_the_oldest_deposit(tmp_path):
    maker = make_buyer(55)
    token = get_first_contract(maker)
    assets = (*CHAIN_CHANGES["assets"], make_asset(token, name="Fee", symbol="FEE"))
    async with open_shop(tmp_path, assets=assets) as shop:
        await shop.lab.give_gas(maker.address, 10)
        creation = b"\x60" + len(FEE_TOKEN).to_bytes(1) + bytes.fromhex("80600a5f395ff300")
        await shop.lab.send(key=bytes(maker.key), data=creation + FEE_TOKEN)
        for sender in (BUYER, FRIEND):
            word = sender.address[2:].lower().rjust(64, "0")
            mint = bytes.fromhex("40c10f19" + word + f"{10**24:064x}")
            await shop.lab.send(to=token, data=mint)
        route, payment_id = await open_route(shop)
        address = route.compute_address()
        await transfer(shop.lab, BUYER, address, 3 * 10**18, token)
        await transfer(shop.lab, FRIEND, address, 3 * 10**18, token)
        assert await shop.lab.balance(address, token) == 594 * 10**16
        await pass_time(shop, 3 * 3600)
        asset = f"{CHAIN}/erc20:{token}"
        await recover_address(shop.app, payment_id, CHAIN, asset)
        await pass_time(shop, 60)
        returned = {payout.account: payout.value for payout in await list_payouts(shop)}
        assert returned == {to_account(FRIEND): 3 * 10**18, to_account(BUYER): 294 * 10**16}
        await check_conservation(shop, [route], 594 * 10**16, asset)


async def test_sweep_that_a_reorganization_drops_is_sent_again_and_booked_once(shop):
    route, _ = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, MUCH)
    await shop.mine(4)
    shop.lab.clock.advance(3 * 3600)
    await shop.mine_until(lambda: has_left(shop, address))
    (transaction,) = await shop.transactions()
    depth = await shop.lab.depth_of(transaction.hash)
    await shop.lab.reorg(depth, transaction.hash)
    assert await shop.lab.balance(address) == MUCH
    assert await list_payouts(shop) == []
    await pass_time(shop, 600)
    assert await shop.lab.balance(address) == 0
    assert [payout.value for payout in await list_payouts(shop)] == [MUCH]
    await check_conservation(shop, [route], MUCH)


async def test_money_on_another_chain_than_the_payments_goes_home_and_is_held(shop):
    payment_id = await shop.create_unpaid()
    (opened,) = await open_addresses(shop.app, CALLER, payment_id, [TOKEN])
    row, option = opened.opened
    option = replace(
        option,
        id="opt_elsewhere",
        chain_id="eip155:1",
        terms={**option.terms, "chain_id": 1},
        asset=TOKEN.replace(CHAIN, "eip155:1"),
        payer=option.payer.replace(CHAIN, "eip155:1"),
    )
    route = shop.lab.rail.addresses.get_route(option)
    assert route.chain_id == 1
    address = route.compute_address()
    row = replace(
        row, chain_id="eip155:1", address=address, option_id=option.id, asset=option.asset
    )
    now_us = shop.lab.clock.now_us()
    quota = AddressQuota(8, 100, 100)
    refusal = await shop.store.write(deposit_addresses.open_address(row, option, quota, now_us))
    assert refusal is None
    # the buyer chose the wrong network in a wallet
    await transfer(shop.lab, BUYER, address, MUCH)
    await recover_address(shop.app, payment_id, CHAIN, TOKEN)
    await pass_time(shop, 60)
    assert await shop.lab.balance(address) == 0
    (held,) = await list_held(shop)
    assert (held.held, held.state, held.address) == (
        MUCH,
        HeldMoneyState.HELD,
        to_account(address),
    )
    assert await read_balance(shop, accounts.stray_money(to_account(address))) == -MUCH
    await check_conservation(shop, [route], MUCH)


async def test_dust_of_many_senders_beside_a_deposit_costs_no_payouts(shop):
    route, _ = await open_route(shop)
    address = route.compute_address()
    await transfer(shop.lab, BUYER, address, MUCH)
    await transfer(shop.lab, FRIEND, address, 3)
    await pass_time(shop, 3 * 3600)
    assert [payout.account for payout in await list_payouts(shop)] == [to_account(BUYER)]
    states = {item.payer: item.state for item in await list_held(shop)}
    assert states[to_account(FRIEND)] is HeldMoneyState.KEPT
    await check_conservation(shop, [route], MUCH + 3)


async def test_addresses_are_read_in_parts_if_the_node_forgets_states_meanwhile(shop, monkeypatch):
    reader = shop.lab.rail.deposits
    read_balances, most = reader.read_balances, 4 * len(reader.assets)

    async def read_few(places, block):
        """Return balances, unless the state is pruned before all are read."""
        if len(places) > most:
            raise RailUnavailable("missing trie node")
        return await read_balances(places, block)

    routes = [(await open_route(shop))[0] for _ in range(6)]
    for route in routes:
        await transfer(shop.lab, BUYER, route.compute_address(), MUCH // 3)
    monkeypatch.setattr(reader, "read_balances", read_few)
    for _ in range(6):
        await pass_time(shop, 3_600)
    assert all([await has_left(shop, route.compute_address()) for route in routes])
    await check_conservation(shop, routes, 6 * (MUCH // 3))
