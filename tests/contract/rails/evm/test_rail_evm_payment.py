"""Test that a wallet without any setup pays, and the chain proves it, in process and over HTTP."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.connection.jsonrpc import HttpTransport
from florin_server.rails.evm.sending.transactions import compute_transaction_hash
from florin_server.rails.offered import OptionOffer
from florin_server.rails.types import PayableAsset, RailUnavailable, Split

from tests.support.evm_lab import (
    CHAIN,
    FEES,
    MERCHANT,
    PRICE,
    RELAYER,
    TOKEN,
    make_buyer,
    make_payment,
    make_settlement_item,
    open_lab,
    sign_option,
    to_account,
)

pytestmark = pytest.mark.both_chains


@asynccontextmanager
async def over_http(lab):
    """Put HTTP between a lab's rail and its chain."""

    async def answer(request):
        return web.Response(body=await lab.chain.handle(await request.read()))

    application = web.Application()
    application.router.add_post("/", answer)
    server = TestServer(application)
    await server.start_server()
    local, lab.node.inner = lab.node.inner, HttpTransport(str(server.make_url("/")))
    try:
        yield
    finally:
        await lab.node.inner.close()
        lab.node.inner = local
        await server.close()


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def pay_once(lab):
    wallet, payment = make_buyer(7), make_payment()
    prices = {TOKEN: PRICE}
    assert await lab.payable([to_account(wallet)], prices) == [
        PayableAsset(to_account(wallet), TOKEN)
    ]
    before = await lab.balance(wallet.address)
    option = lab.offer(wallet, payment, fee=15_000)
    output = sign_option(wallet, option)
    await lab.rail.verifier.verify(option, (), [output])
    head = await lab.rail.observer.get_head()
    item = make_settlement_item(payment, option, output, from_block=head.number)
    assert await lab.rail.relay.simulate([item]) == [True]

    transaction = await lab.settle(item)

    assert await lab.balance(MERCHANT) == PRICE - 15_000
    assert await lab.balance(FEES) == 15_000
    assert await lab.balance(wallet.address) == before - PRICE
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(option)], head.number
    )
    assert paid.tx_hash == transaction.hash
    assert (paid.payer, paid.dest, paid.token) == (
        wallet.address.lower(),
        MERCHANT,
        DEVNET.token.address,
    )
    assert (paid.value, paid.fee) == (PRICE, 15_000)
    assert lab.rail.terms.is_proven(option, paid)
    view = await lab.rail.blocks.find_block(paid.block_number)
    assert view.events == (paid,)
    assert view.hash == paid.block_hash
    (mined,) = view.transactions
    assert mined.tx_hash == transaction.hash
    assert mined.success
    assert mined.gas_cost > 0
    assert await lab.rail.observer.find_mined([transaction.hash]) == {transaction.hash: mined}


async def test_a_payment_settles_through_a_chain_in_process(lab):
    await pay_once(lab)


async def test_a_payment_settles_through_a_chain_behind_http(lab):
    async with over_http(lab):
        await pay_once(lab)


async def test_options_are_repeatable(lab):
    wallet = make_buyer(7)
    first = lab.offer(wallet)
    lab.clock.advance(60)
    again = lab.offer(wallet)
    assert (again.id, again.actions, again.terms) == (first.id, first.actions, first.terms)
    json.dumps(dict(first.terms))


async def test_another_payer_price_payment_or_route_is_another_option(lab):
    first = lab.offer(make_buyer(7))
    elsewhere = lab.rail.offers.build_option(
        OptionOffer(
            make_payment(),
            to_account(make_buyer(7)),
            PayableAsset(to_account(make_buyer(7)), TOKEN),
            lab.rail.assets[TOKEN],
            PRICE,
            Split(to_account("0x" + "cb" * 20), None, 0, settled=True),
            0,
        )
    )
    remaining = [
        lab.offer(make_buyer(8)),
        lab.offer(make_buyer(7), value=PRICE + 1),
        lab.offer(make_buyer(7), make_payment(2)),
        lab.offer(make_buyer(7), fee=1),
        elsewhere,
    ]
    options = [first, *remaining]
    assert len({option.id for option in options}) == len(options)
    assert len({lab.rail.terms.get_reference(option) for option in options}) == len(options)


async def test_the_message_names_the_settlement_contract_and_ends_with_the_grace(lab):
    payment = make_payment(ttl_s=600)
    (action,) = lab.offer(make_buyer(7), payment).actions
    document = json.loads(json.loads(action.params_json)[1])
    assert document["primaryType"] == "ReceiveWithAuthorization"
    assert document["message"]["to"] == DEVNET.settler
    assert document["message"]["validAfter"] == "0x0"
    assert int(document["message"]["validBefore"], 16) == payment.expires_at + 300


@pytest.fixture
async def dry_lab(evm):
    """Open a chain without a faucet."""
    lab = await open_lab(evm=evm, faucet=False)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


@pytest.mark.parametrize("fee", [0, 15_000])
async def test_an_option_remembers_where_its_money_goes(lab, fee):
    split = lab.rail.terms.get_split(lab.offer(make_buyer(7), fee=fee))
    fee_to = to_account(FEES) if fee else None
    assert split == Split(to_account(MERCHANT), fee_to, fee, settled=True)


@pytest.mark.parametrize(
    "change",
    [
        {"ref": "0x" + "11" * 32},
        {"payer": MERCHANT},
        {"dest": FEES},
        {"token": MERCHANT},
        {"value": PRICE + 1},
        {"value": 1},
        {"fee": 1},
    ],
    ids=lambda change: "-".join(map(str, change.items())),
)
async def test_an_event_that_says_anything_else_proves_nothing(lab, change):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    (paid,) = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option)], 0
    )
    assert lab.rail.terms.is_proven(item.option, paid)
    assert not lab.rail.terms.is_proven(item.option, replace(paid, **change))


async def test_only_payable_assets_are_offered(dry_lab):
    lab = dry_lab
    rich, poor = to_account(make_buyer(7)), to_account(make_buyer(8))
    await lab.send_tokens(make_buyer(7).address, PRICE)
    assert await lab.payable([rich, poor], {TOKEN: PRICE}) == [PayableAsset(rich, TOKEN)]
    assert await lab.payable([rich, poor], {TOKEN: PRICE + 1}) == []
    assert await lab.payable([rich], {}) == []
    assert await lab.payable([], {TOKEN: PRICE}) == []
    assert await lab.payable([rich], {CHAIN + "/erc20:0x" + "12" * 20: 1}) == []


async def test_the_faucet_reaches_the_dearest_price(lab):
    payer, dear = to_account(make_buyer(7)), {TOKEN: 10**14}
    assert await lab.payable([payer], dear) == [PayableAsset(payer, TOKEN)]


async def test_a_broken_faucet_only_means_no_funds(lab):
    lab.node.lost_methods = frozenset({"florin_faucet"})
    assert await lab.payable([to_account(make_buyer(7))], {TOKEN: PRICE}) == []


async def test_balances_are_read_in_a_single_request_for_any_number_of_accounts(lab):
    accounts = [to_account(make_buyer(n)) for n in range(1, 31)]
    before = lab.rail.rpc.request_count
    assert len(await lab.payable(accounts, {TOKEN: PRICE})) == 30
    assert lab.rail.rpc.request_count - before == 3  # all balances, the faucet, all balances
    assert len(await lab.payable(accounts, {TOKEN: PRICE})) == 30
    assert lab.rail.rpc.request_count - before == 4


async def test_accounts_are_recognised_by_their_chain_and_address(lab):
    address = make_buyer(7).address
    lower = address.lower()
    assert lab.rail.find_payer(f"{CHAIN}:{address}") == f"{CHAIN}:{lower}"
    assert lab.rail.find_payer(f"{CHAIN}:{lower}") == f"{CHAIN}:{lower}"
    wrong_case = address.swapcase().replace("0X", "0x")
    for stranger in (
        f"{CHAIN}:{wrong_case}",
        f"eip155:1:{address}",
        f"eip155:031337:{address}",
        f"solana:{address}",
        f"{CHAIN}:{address[:-1]}",
        f"{CHAIN}:{address}0",
        f"{CHAIN}:0x" + "00" * 20,
        address,
        "",
        CHAIN,
        f"{CHAIN}:{address}\n",
    ):
        assert lab.rail.find_payer(stranger) is None


async def test_many_payments_settle_in_a_single_transaction(lab):
    items = [await lab.create_verified_item(number, fee=number) for number in range(5)]
    assert await lab.rail.relay.simulate(items) == [True] * 5
    transaction = await lab.settle(*items)
    paid = await lab.rail.direct_settlement.list_settlement_events(
        [lab.rail.terms.get_reference(item.option) for item in items], 0
    )
    assert {item.ref for item in paid} == {
        lab.rail.terms.get_reference(item.option) for item in items
    }
    assert {item.tx_hash for item in paid} == {transaction.hash}
    assert await lab.balance(MERCHANT) == 5 * PRICE - sum(range(5))


async def test_bad_payment_does_not_affect_the_rest_of_its_transaction(lab):
    items = [await lab.create_verified_item(number) for number in range(3)]
    await lab.settle(items[1])
    assert await lab.rail.relay.simulate(items) == [True, False, True]
    await lab.settle(*items)
    assert await lab.balance(MERCHANT) == 3 * PRICE


async def test_two_payments_from_the_same_balance_are_simulated_together(lab):
    wallet = make_buyer(7)
    await lab.send_tokens(wallet.address, PRICE)
    items = []
    for number in (1, 2):
        payment = make_payment(number)
        option = lab.offer(wallet, payment)
        items.append(make_settlement_item(payment, option, sign_option(wallet, option)))
        await lab.rail.verifier.verify(option, (), items[-1].confirmation.outputs)
    assert await lab.rail.relay.simulate(items) == [True, False]
    assert await lab.rail.relay.simulate([]) == []


async def test_a_transaction_that_the_chain_knows_may_be_sent_again(lab):
    item = await lab.create_verified_item(1)
    await lab.pause()
    transaction = await lab.rail.relay.sign(RELAYER.address, 0, [item])
    assert not await lab.rail.relay.has_transaction(transaction.hash)
    await lab.rail.relay.broadcast(transaction.raw)
    await lab.rail.relay.broadcast(transaction.raw)
    assert await lab.rail.relay.has_transaction(transaction.hash)
    await lab.mine()
    await lab.rail.relay.broadcast(transaction.raw)
    assert transaction.hash == compute_transaction_hash(transaction.raw)
    assert await lab.balance(MERCHANT) == PRICE


async def test_a_refused_transaction_is_an_unknown_outcome(lab):
    item = await lab.create_verified_item(1)
    await lab.settle(item)
    stale = await lab.rail.relay.sign(RELAYER.address, 0, [await lab.create_verified_item(2)])
    with pytest.raises(RailUnavailable, match="nonce"):
        await lab.rail.relay.broadcast(stale.raw)


async def test_signing_twice_gives_the_same_bytes(lab):
    item = await lab.create_verified_item(1)
    assert await lab.rail.relay.sign(RELAYER.address, 4, [item]) == await lab.rail.relay.sign(
        RELAYER.address, 4, [item]
    )


async def test_relayer_address_follows_from_its_key(lab):
    assert lab.rail.senders == (RELAYER.address,)
    assert lab.rail.chain_id == CHAIN
    assert lab.rail.treasury == to_account(FEES)
    assert lab.rail.native_asset == f"{CHAIN}/slip44:60"
    assert not lab.rail.live
