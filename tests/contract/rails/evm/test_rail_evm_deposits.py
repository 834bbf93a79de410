"""Test the reading of payments' own addresses: tokens, coin, and what left them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_sandbox.devnet.evm import DEVNET
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading import deposit_logs
from florin_server.rails.types import RailUnavailable

from tests.support.evm_harness import (
    EURO,
    TOKEN,
    make_asset,
    make_buyer,
    make_refusal,
    make_reply,
    open_lab,
)
from tests.support.payment_addresses import (
    CHAIN_CHANGES,
    COIN_ASSET,
    FEE,
    HOME,
    STRANGER,
    VALUE,
    forward,
    fund_sender,
    make_route,
    send_coin_by_contract,
    sweep,
    transfer,
)

pytestmark = pytest.mark.both_chains

CONFIRMATIONS = 3
BUYER, OTHER = make_buyer(31), make_buyer(32)


@pytest.fixture
async def lab(evm):
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS, **CHAIN_CHANGES)
    for sender in (BUYER, OTHER):
        await fund_sender(lab, sender)
    await lab.give_gas(STRANGER.address, 10)
    yield lab
    await lab.rail.close()
    await lab.chain.close()


async def read(lab, *routes, first=0):
    addresses = [route.compute_address() for route in routes]
    return await lab.rail.deposits.read_activity(addresses, first)


def summarize(deposits):
    return [(deposit.sender, deposit.asset, deposit.value) for deposit in deposits]


async def find_coin(lab, *routes, first, before=0):
    activity = await read(lab, *routes, first=first)
    balances = dict.fromkeys((route.compute_address() for route in routes), before)
    return activity, await lab.rail.deposits.find_coin_deposits(balances, activity)


async def get_next_block(lab):
    return (await lab.rail.observer.get_head()).number + 1


async def test_transfers_of_listed_tokens_are_deposits_with_their_senders(lab):
    route, other = make_route(1), make_route(2)
    receipt = await transfer(lab, BUYER, route.compute_address(), 40)
    await transfer(lab, OTHER, route.compute_address(), 60)
    await transfer(lab, BUYER, route.compute_address(), 7, DEVNET.euro.address)
    await transfer(lab, BUYER, other.compute_address(), 9)
    await transfer(lab, BUYER, route.compute_address(), 0)
    buyer, stranger = BUYER.address.lower(), OTHER.address.lower()
    activity = await read(lab, route)
    assert summarize(activity.deposits) == [
        (buyer, TOKEN, 40),
        (stranger, TOKEN, 60),
        (buyer, EURO, 7),
    ]
    first = activity.deposits[0]
    assert (first.address, first.tx_hash) == (route.compute_address(), receipt["transactionHash"])
    assert first.block_number == int(receipt["blockNumber"], 16)
    assert first.block_hash == receipt["blockHash"]
    assert not activity.payments
    assert not activity.home_transfers
    assert summarize((await read(lab, other)).deposits) == [(buyer, TOKEN, 9)]
    later = await read(lab, route, first=first.block_number + 1)
    assert len(later.deposits) == 2


async def test_unlisted_tokens_are_never_requested(evm):
    changes = CHAIN_CHANGES | {"assets": (make_asset(),)}
    lab = await open_lab(evm=evm, confirmations=CONFIRMATIONS, **changes)
    await fund_sender(lab, BUYER)
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 7, DEVNET.euro.address)
    results = []

    def record(params, answer):
        results.append(answer["result"])
        return answer

    lab.node.changes["eth_getLogs"] = record
    assert (await read(lab, route)).deposits == ()
    assert results == [[]]
    address = route.compute_address()
    balances = await lab.rail.deposits.read_balances(
        [(address, EURO)], await get_next_block(lab) - 1
    )
    assert balances == {(address, EURO): 7}
    await lab.rail.close()
    await lab.chain.close()


async def test_payment_and_what_went_home_are_read_with_the_deposits(lab):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), VALUE + 7)
    await forward(lab, route)
    await sweep(lab, (route, DEVNET.token.address))
    activity = await read(lab, route)
    (event,), (home,) = activity.payments, activity.home_transfers
    assert (event.payer, event.value, event.fee) == (route.compute_address(), VALUE, FEE)
    assert event.nonce == "0x" + route.compute_nonce().hex()
    assert (home.address, home.token) == (route.compute_address(), DEVNET.token.address)
    assert (home.value, home.home, home.ref) == (7, HOME, "0x" + route.ref.hex())
    address = route.compute_address()
    held = await lab.rail.deposits.read_balances([(address, TOKEN)], activity.last)
    assert held == {(address, TOKEN): 0}
    before = await lab.rail.deposits.read_balances(
        [(address, TOKEN)], activity.deposits[0].block_number
    )
    assert before == {(address, TOKEN): VALUE + 7}


async def test_activity_becomes_final_with_its_blocks(lab):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 40)
    activity = await read(lab, route)
    assert activity.deposits[0].block_number > activity.final
    await lab.mine(CONFIRMATIONS - 1)
    await lab.rail.observer.get_head()
    activity = await read(lab, route)
    assert activity.deposits[0].block_number <= activity.final
    rest = await read(lab, route, first=activity.last + 1)
    assert (rest.first, rest.deposits) == (activity.last + 1, ())
    with pytest.raises(RailUnavailable):
        await read(lab, route, first=activity.last + 2)


async def test_deposit_that_a_reorganization_drops_is_gone_at_the_next_look(lab):
    route = make_route()
    dropped = await transfer(lab, BUYER, route.compute_address(), 40)
    await transfer(lab, OTHER, route.compute_address(), 60)
    first = await read(lab, route)
    assert len(first.deposits) == 2
    depth = await lab.depth_of(dropped["transactionHash"])
    await lab.reorg(depth, dropped["transactionHash"])
    activity = await read(lab, route)
    (deposit,) = activity.deposits
    assert (deposit.sender, deposit.value) == (OTHER.address.lower(), 60)
    assert deposit.block_hash != first.deposits[1].block_hash
    assert first.final < first.deposits[0].block_number


async def test_direct_coin_has_its_sender_and_coin_of_contracts_has_none(lab):
    route, idle = make_route(1, ZERO_ADDRESS), make_route(2, ZERO_ADDRESS)
    first = await get_next_block(lab)
    direct = await transfer(lab, BUYER, route.compute_address(), 5 * 10**9, ZERO_ADDRESS)
    await lab.mine(2)
    inner = await send_coin_by_contract(lab, route.compute_address(), 7 * 10**9)
    await lab.mine()
    activity, deposits = await find_coin(lab, route, idle, first=first)
    assert activity.deposits == ()
    assert [
        (deposit.sender, deposit.value, deposit.tx_hash, deposit.block_number, deposit.block_hash)
        for deposit in deposits
    ] == [
        (
            BUYER.address.lower(),
            5 * 10**9,
            direct["transactionHash"],
            int(direct["blockNumber"], 16),
            direct["blockHash"],
        ),
        ("", 7 * 10**9, "", int(inner["blockNumber"], 16), inner["blockHash"]),
    ]
    assert {deposit.asset for deposit in deposits} == {COIN_ASSET}
    # what was known before the range is no new deposit
    later = deposits[0].block_number + 1
    _, rest = await find_coin(lab, route, first=later, before=5 * 10**9)
    assert [deposit.value for deposit in rest] == [7 * 10**9]


async def test_coin_that_was_forwarded_meanwhile_is_still_a_deposit(lab):
    route = make_route(1, ZERO_ADDRESS)
    first = await get_next_block(lab)
    await transfer(lab, BUYER, route.compute_address(), VALUE + 3, ZERO_ADDRESS)
    await forward(lab, route)
    await sweep(lab, (route, ZERO_ADDRESS))
    activity, deposits = await find_coin(lab, route, first=first)
    assert summarize(deposits) == [(BUYER.address.lower(), COIN_ASSET, VALUE + 3)]
    assert [event.value for event in activity.payments] == [VALUE]
    assert [home.value for home in activity.home_transfers] == [3]


async def test_coin_search_reads_few_blocks_of_a_long_range(lab):
    route = make_route(1, ZERO_ADDRESS)
    first = await get_next_block(lab)
    await lab.mine(20)
    await transfer(lab, BUYER, route.compute_address(), 5, ZERO_ADDRESS)
    await lab.mine(20)
    lab.node.methods.clear()
    blocks = []

    def record(params, answer):
        blocks.append(params)
        return answer

    lab.node.changes["eth_getBlockByNumber"] = record
    _, deposits = await find_coin(lab, route, first=first)
    assert [deposit.value for deposit in deposits] == [5]
    assert sum(is_full for _, is_full in blocks) == 1
    assert lab.node.methods.count("eth_getBalance") < 12


async def test_coin_without_old_states_has_no_sender_and_is_not_lost(lab):
    route = make_route(1, ZERO_ADDRESS)
    first = await get_next_block(lab)
    await transfer(lab, BUYER, route.compute_address(), 5, ZERO_ADDRESS)
    await lab.mine(8)
    newest = hex((await lab.rail.observer.get_head()).number)

    def change(params, answer):
        if params[1] in {"latest", newest}:
            return answer
        return {"id": answer["id"], "error": {"code": -32000, "message": "missing trie node"}}

    lab.node.changes["eth_getBalance"] = change
    _, deposits = await find_coin(lab, route, first=first)
    assert [(deposit.sender, deposit.value) for deposit in deposits] == [("", 5)]


async def test_failed_transaction_brings_no_coin(lab):
    route = make_route(1, ZERO_ADDRESS)
    await transfer(lab, BUYER, route.compute_address(), VALUE, ZERO_ADDRESS)
    await forward(lab, route)
    first = await get_next_block(lab)
    # code refuses coin, so the sender keeps it
    with pytest.raises(AssertionError):
        await transfer(lab, BUYER, route.compute_address(), 9, ZERO_ADDRESS)
    _, deposits = await find_coin(lab, route, first=first)
    assert deposits == []


async def test_quorum_confirms_deposits_and_what_went_home(lab):
    route, coin = make_route(1), make_route(2, ZERO_ADDRESS)
    await transfer(lab, BUYER, route.compute_address(), VALUE + 7)
    await forward(lab, route)
    await sweep(lab, (route, DEVNET.token.address))
    first = await get_next_block(lab)
    await transfer(lab, BUYER, coin.compute_address(), 9, ZERO_ADDRESS)
    _, (coin_deposit,) = await find_coin(lab, coin, first=first)
    await lab.mine(CONFIRMATIONS + 3)
    activity = await read(lab, route)
    facts = {*activity.deposits, *activity.home_transfers, coin_deposit}
    assert len(facts) == 3
    attestation = await lab.rail.observer.evidence.attest(frozenset(facts))
    assert attestation.facts == facts
    lies = {
        replace(activity.deposits[0], sender=OTHER.address.lower()),
        replace(activity.deposits[0], position=1),
        replace(activity.home_transfers[0], value=8),
        replace(coin_deposit, value=10),
        replace(coin_deposit, sender=OTHER.address.lower()),
    }
    attestation = await lab.rail.observer.evidence.attest(frozenset(lies))
    assert attestation.facts == frozenset()


async def test_deposits_of_one_transaction_are_counted_alike_by_all_nodes(lab):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 40)

    def double(params, answer):
        (log,) = answer["result"]
        second = log | {"logIndex": hex(int(log["logIndex"], 16) + 5)}
        # in another order, and counted differently
        return answer | {"result": [second, log]}

    lab.node.changes["eth_getLogs"] = double
    activity = await read(lab, route)
    assert [deposit.position for deposit in activity.deposits] == [0, 1]


@pytest.mark.parametrize(
    "change",
    [
        {"data": "0x"},
        {"data": "0x" + "00" * 64},
        {"transactionHash": "0x12"},
        {"blockNumber": "0xffffff"},
        {"blockHash": None},
        {"address": "0x12"},
    ],
)
async def test_malformed_logs_are_no_deposits_and_no_absence(lab, change):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 40)
    lab.node.changes["eth_getLogs"] = lambda _, answer: (
        answer | {"result": [log | change for log in answer["result"]]}
    )
    with pytest.raises(RailUnavailable):
        await read(lab, route)


async def test_logs_of_other_contracts_events_and_addresses_are_ignored(lab):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 40)

    def add_noise(params, answer):
        (log,) = answer["result"]
        elsewhere = [*log["topics"][:2], "0x" + "0" * 24 + "ee" * 20]
        noise = [
            log | {"address": "0x" + "99" * 20},
            log | {"topics": log["topics"] + ["0x" + "00" * 32]},
            log | {"topics": elsewhere},
            log | {"topics": []},
            log | {"removed": True},
        ]
        return answer | {"result": [*noise, log]}

    lab.node.changes["eth_getLogs"] = add_noise
    assert [deposit.value for deposit in (await read(lab, route)).deposits] == [40]


@pytest.mark.parametrize("reply", [make_reply(None), make_reply({}), make_reply([1])])
async def test_node_without_logs_proves_nothing(lab, reply):
    lab.node.changes["eth_getLogs"] = reply
    with pytest.raises(RailUnavailable):
        await read(lab, make_route())


async def test_node_that_limits_blocks_and_addresses_is_read_in_parts(lab, monkeypatch):
    routes = [make_route(number) for number in range(1, 12)]
    for route in routes:
        await transfer(lab, BUYER, route.compute_address(), route.ref[-1])
    sizes = []

    def limit(params, answer):
        (log_filter,) = params
        blocks = int(log_filter["toBlock"], 16) - int(log_filter["fromBlock"], 16) + 1
        count = len(log_filter["topics"][2])
        sizes.append((blocks, count))
        if blocks > 9 or count > 3:
            return make_refusal(-32005, "limit exceeded")(params, answer)
        return answer

    lab.node.changes["eth_getLogs"] = limit
    activity = await read(lab, *routes)
    values = [deposit.value for deposit in activity.deposits]
    assert sorted(values) == list(range(1, 12))
    # the limits are remembered
    sizes.clear()
    await read(lab, *routes, first=activity.last)
    assert max(count for _, count in sizes) <= 3
    monkeypatch.setattr(deposit_logs, "ADDRESSES_MAX", 3)
    lab.node.changes["eth_getLogs"] = make_refusal(-32005, "limit exceeded")
    with pytest.raises(RailUnavailable):
        await read(lab, *routes)


async def test_thousands_of_addresses_are_read_in_one_payload(lab):
    routes = [make_route(number) for number in range(1, 1202)]
    await transfer(lab, BUYER, routes[1200].compute_address(), 40)
    lab.node.methods.clear()
    activity = await read(lab, *routes)
    assert [deposit.value for deposit in activity.deposits] == [40]
    assert lab.node.methods.count("eth_getLogs") == 3
    assert lab.node.methods.count("eth_getBlockByNumber") == 1


async def test_contracts_are_distinguished_from_keys_that_delegate(lab):
    contract = await lab.deploy("00")
    delegating = make_buyer(33)
    await lab.delegate(delegating, "00")
    addresses = [contract, delegating.address.lower(), BUYER.address.lower()]
    assert await lab.rail.deposits.find_contracts(addresses) == {contract}
    assert await lab.rail.deposits.find_contracts([]) == frozenset()


async def test_long_range_is_read_in_parts(lab, monkeypatch):
    route = make_route()
    await transfer(lab, BUYER, route.compute_address(), 40)
    last = await get_next_block(lab) - 1
    monkeypatch.setattr("florin_server.rails.evm.reading.deposits.BLOCKS_MAX", 4)
    activity = await read(lab, route)
    assert (activity.first, activity.last, activity.deposits) == (0, 3, ())
    activity = await read(lab, route, first=last - 3)
    assert (activity.last, len(activity.deposits)) == (last, 1)
