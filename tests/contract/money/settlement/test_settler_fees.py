"""Test transactions that wait: fee bumps, lost transactions, gaps, and several keys.

Each test ends by asking the chain. The money moved once, and the gas is booked as paid.
"""

from __future__ import annotations

from itertools import pairwise

import pytest
from eth_account import Account
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.conditions import ConditionName
from florin_server.money.settlement.store import chain_txs
from florin_server.operations.service.executors import list_executors, pause, resume
from florin_server.operations.store import leases
from florin_server.rails.evm.sending.transactions import parse_fees
from florin_server.rails.types import GasShortage, RailUnavailable

from tests.support.booked_gas import SECOND, count_open_by_sender, get_booked_gas, get_spent
from tests.support.evm_harness import CHAIN, PRICE, RELAYER, make_buyer
from tests.support.health import has_condition
from tests.support.settlement_harness import MERCHANT, SettlementHarness, open_settlement_harness

GWEI = 10**9
WALLET = make_buyer(77)


@pytest.fixture
async def shop(tmp_path):
    async with open_settlement_harness(tmp_path) as running:
        yield running


async def spike(shop: SettlementHarness, times: int) -> None:
    await shop.base_fee(times * GWEI)


async def stuck(shop: SettlementHarness):
    """Create a payment whose transaction is pending because its fee is too low."""
    payment = await shop.create_processing_payment(WALLET)
    await shop.lab.pause()
    await shop.turn()
    await spike(shop, 40)
    (tx,) = await shop.transactions()
    return payment, tx


# fee bumps


async def test_unmined_transaction_raises_its_fee_after_three_blocks(shop):
    payment, first = await stuck(shop)
    await shop.mine(2)
    assert [tx.bumps for tx in await shop.transactions()] == [()]
    await shop.mine()
    (raised,) = await shop.transactions()
    assert (raised.id, raised.nonce, raised.hash) == (first.id, first.nonce, first.hash)
    (variant,) = raised.bumps
    old, new = parse_fees(first.raw), parse_fees(variant.raw)
    assert new.max_fee >= 40 * GWEI
    assert (new.max_fee * 100, new.tip * 100) >= (old.max_fee * 115, old.tip * 115)
    assert new.tip * 100 >= old.tip * 115
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", variant.hash)
    assert await shop.transactions() == []
    assert await shop.lab.balance(MERCHANT) == PRICE
    assert await get_booked_gas(shop) == await get_spent(shop, RELAYER.address)
    (done,) = await shop.store.read(chain_txs.list_at_nonce(CHAIN, RELAYER.address, first.nonce))
    assert (done.state, done.final_hash) == ("final", variant.hash)


async def test_blocks_that_are_read_late_raise_nothing(shop):
    # a machine that slept: the chain grew meanwhile, and its blocks are read in parts
    await shop.lab.mine(200)
    payment = await shop.create_processing_payment(WALLET)
    await shop.lab.pause()
    await shop.turn(5)
    assert shop.settler.health().head == (await shop.lab.rail.observer.get_head()).number
    (tx,) = await shop.transactions()
    assert tx.bumps == ()
    await spike(shop, 40)
    await shop.mine(2)
    assert [tx.bumps for tx in await shop.transactions()] == [()]
    await shop.mine()
    (raised,) = await shop.transactions()
    assert len(raised.bumps) == 1
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_original_transaction_may_be_mined_after_a_fee_bump(shop):
    payment, first = await stuck(shop)
    await shop.mine(3)
    (raised,) = await shop.transactions()
    assert len(raised.bumps) == 1
    # another node's pool kept the first one
    await shop.fault(kind="evict", transactions=[raised.bumps[0].hash])
    await spike(shop, 1)
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + first.raw.hex())
    await shop.mine()
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", first.hash)
    assert await shop.transactions() == []
    assert await get_booked_gas(shop) == await get_spent(shop, RELAYER.address)


async def test_fees_rise_again_and_again_but_never_above_the_limit(tmp_path):
    limit = 10 * GWEI
    async with open_settlement_harness(tmp_path, fee_max=limit) as shop:
        payment = await shop.create_processing_payment(WALLET)
        await shop.lab.pause()
        await shop.turn()
        # below the limit for a caller, above what fits into the next block
        node = shop.lab.node
        await shop.base_fee(50 * GWEI)
        node.changes["eth_getBlockByNumber"] = cheap
        await shop.mine(80)
        (tx,) = await shop.transactions()
        offers = [parse_fees(variant.raw) for variant in tx.variants]
        assert 5 < len(offers) < 20
        for old, new in pairwise(offers):
            assert new.max_fee * 100 >= old.max_fee * 115
            assert new.tip * 100 >= old.tip * 115
        assert offers[-1].max_fee <= limit
        assert "as much as the limits allow" in shop.settler.health().problem
        # it is still broadcast, and is mined when gas is cheaper
        await shop.fault(kind="evict", transactions=[tx.variants[-1].hash])
        await shop.mine()
        assert await shop.lab.rail.relay.has_transaction(tx.variants[-1].hash)
        del node.changes["eth_getBlockByNumber"]
        await shop.base_fee(GWEI)
        assert (await shop.run_to_end(payment)).status == "succeeded"
        assert shop.settler.health().problem == ""


def cheap(_, answer):
    """Return an answer of a node that does not know the next block's price."""
    if isinstance(answer.get("result"), dict):
        answer["result"]["baseFeePerGas"] = hex(GWEI)
    return answer


async def test_only_the_transaction_with_the_lowest_nonce_is_bumped(shop):
    await shop.lab.pause()
    for n in range(3):
        await shop.create_processing_payment(make_buyer(100 + n))
        await shop.turn()
    await spike(shop, 4000)
    shop.lab.node.changes["eth_getBlockByNumber"] = cheap
    await shop.mine(9)
    first, *behind = [len(tx.bumps) for tx in await shop.transactions()]
    assert (first, behind) == (3, [0, 0])
    shop.lab.node.changes.clear()
    await spike(shop, 1)
    await shop.mine(4)
    assert await shop.transactions() == []
    assert await shop.lab.balance(MERCHANT) == 3 * PRICE


async def test_gas_price_above_the_limit_delays_settlement_and_is_reported(tmp_path):
    async with open_settlement_harness(tmp_path, fee_max=10 * GWEI) as shop:
        await shop.base_fee(50 * GWEI)
        payment = await shop.create_processing_payment(WALLET)
        await shop.mine(3)
        assert await shop.transactions() == []
        assert "gas costs more than the limit" in shop.settler.health().problem
        await shop.base_fee(GWEI)
        assert (await shop.run_to_end(payment)).status == "succeeded"
        assert shop.settler.health().problem == ""


async def test_sent_transaction_is_rebroadcast_while_gas_is_above_the_limit(tmp_path):
    async with open_settlement_harness(tmp_path, fee_max=10 * GWEI) as shop:
        await shop.lab.pause()
        await shop.create_processing_payment(WALLET)
        await shop.turn()
        (sent,) = await shop.transactions()
        await shop.base_fee(50 * GWEI)
        await shop.create_processing_payment(make_buyer(78))
        await shop.fault(kind="evict", transactions=[sent.hash])
        await shop.mine(3)
        assert await shop.lab.rail.relay.has_transaction(sent.hash)


# kill -9


async def test_killed_after_a_transaction_was_written_down_and_before_it_was_sent(
    shop, monkeypatch
):
    payment = await shop.create_processing_payment(WALLET)

    async def killed(_raw):
        raise RailUnavailable("the process is gone")

    with monkeypatch.context() as dead:
        dead.setattr(shop.lab.rail.relay, "broadcast", killed)
        await shop.turn()
    (written,) = await shop.transactions()
    assert (written.state, written.sent_block) == ("signed", None)
    assert not await shop.lab.rail.relay.has_transaction(written.hash)
    await shop.restart()
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", written.hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_killed_after_a_higher_fee_was_written_down_and_before_it_was_sent(shop, monkeypatch):
    payment, first = await stuck(shop)

    async def killed(_raw):
        raise RailUnavailable("the process is gone")

    with monkeypatch.context() as dead:
        dead.setattr(shop.lab.rail.relay, "broadcast", killed)
        await shop.mine(3)
    (written,) = await shop.transactions()
    (variant,) = written.bumps
    assert not await shop.lab.rail.relay.has_transaction(variant.hash)
    assert await shop.lab.rail.relay.has_transaction(first.hash)
    await shop.restart()
    assert await shop.lab.rail.relay.has_transaction(variant.hash)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", variant.hash)
    assert await get_booked_gas(shop) == await get_spent(shop, RELAYER.address)


async def test_a_higher_fee_that_could_not_be_written_down_is_never_sent(shop, monkeypatch):
    payment, _ = await stuck(shop)
    raised = []
    bump = shop.lab.rail.account_nonces.bump_fee

    async def lost(tx):
        raised.append(await bump(tx))
        raise StoreUnavailable("the disk is full")

    with monkeypatch.context() as dead:
        dead.setattr(shop.lab.rail.account_nonces, "bump_fee", lost)
        await shop.mine(3)
    assert raised
    assert not await shop.lab.rail.relay.has_transaction(raised[0].hash)
    assert (await shop.transactions())[0].bumps == ()
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_fee_is_not_raised_with_a_lost_lease(shop):
    _, tx = await stuck(shop)
    lease = f"relayer:{CHAIN}:{RELAYER.address}"
    taken = leases.acquire(lease, "they", shop.lab.clock.now_us(), 5 * 10**8, steal=True)
    await shop.store.write(taken)
    await shop.mine(4)
    (same,) = await shop.transactions()
    assert same.bumps == ()
    assert "another" in shop.settler.health().problem
    assert await shop.lab.rail.relay.has_transaction(tx.hash)


# lost transactions and gaps


async def test_a_pool_that_lost_an_earlier_transaction_gets_it_again(shop):
    await shop.lab.pause()
    payments = []
    for n in range(3):
        payments.append(await shop.create_processing_payment(make_buyer(100 + n)))
        await shop.turn()
    first, *rest = await shop.transactions()
    await shop.fault(kind="evict", transactions=[first.hash])
    await shop.mine(3)
    assert await shop.lab.rail.relay.has_transaction(first.hash)
    for payment, tx in zip(payments, (first, *rest), strict=True):
        assert (await shop.run_to_end(payment)).tx_id == tx.hash


async def test_lapsed_transaction_is_resent_when_later_transactions_wait_behind_it(shop):
    await shop.lab.pause()
    short = await shop.create_processing_payment(make_buyer(100), ttl_s=60)
    await shop.turn()
    (first,) = await shop.transactions()
    long = await shop.create_processing_payment(make_buyer(101))
    await shop.turn()
    await shop.fault(kind="evict", transactions=[first.hash])
    shop.lab.clock.advance(60 + 300)
    await shop.mine(3)
    assert await shop.lab.rail.relay.has_transaction(first.hash)
    assert (await shop.run_to_end(long)).status == "succeeded"
    assert (await shop.run_to_end(short)).status == "failed"


async def test_a_raised_transaction_that_was_lost_is_sent_again_as_it_was_raised(shop):
    payment, first = await stuck(shop)
    await shop.mine(3)
    (raised,) = await shop.transactions()
    newest = raised.bumps[-1].hash
    await spike(shop, 500)
    await shop.fault(kind="evict", transactions=[newest])
    await shop.mine(3)
    (again,) = await shop.transactions()
    assert again.bumps == raised.bumps
    assert await shop.lab.rail.relay.has_transaction(newest)
    await spike(shop, 1)
    ended = await shop.run_to_end(payment)
    assert ended.tx_id in {newest, first.hash}


async def test_nonce_gap_left_by_an_outside_transaction_is_filled(shop):
    """Another user's transaction with the key counted as pending, and was then lost."""
    await shop.lab.pause()
    rival = Account.sign_transaction(
        {
            "chainId": 31337,
            "nonce": 0,
            "gas": 21_000,
            "maxFeePerGas": 10 * GWEI,
            "maxPriorityFeePerGas": GWEI,
            "value": 0,
            "to": bytes(19) + b"\x99",
        },
        b"\x52" * 32,
    )
    raw = "0x" + bytes(rival.raw_transaction).hex()
    tx_hash = await shop.lab.control.call("eth_sendRawTransaction", raw)
    await shop.restart()
    payment = await shop.create_processing_payment(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert sent.nonce == 1
    await shop.fault(kind="evict", transactions=[tx_hash])
    await shop.mine(4)
    ended = await shop.run_to_end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)
    assert await shop.transactions() == []
    (filler,) = await shop.store.read(chain_txs.list_at_nonce(CHAIN, RELAYER.address, 0))
    assert (filler.item_ids, filler.state) == ((), "final")
    assert await get_booked_gas(shop) == await get_spent(shop, RELAYER.address)


# several keys


@pytest.fixture
async def wide(tmp_path):
    """Open a settler with two keys."""
    async with open_settlement_harness(tmp_path, more=[SECOND]) as running:
        yield running


async def test_keys_take_turns(wide):
    await wide.lab.pause()
    payments = []
    for n in range(4):
        payments.append(await wide.create_processing_payment(make_buyer(100 + n)))
        await wide.turn()
    assert await count_open_by_sender(wide) == [2, 2]
    assert [executor.open_transactions for executor in await list_executors(wide.app)] == [2, 2]
    ended = [await wide.run_to_end(payment) for payment in payments]
    assert {item.status for item in ended} == {"succeeded"}
    assert await get_booked_gas(wide) == await get_spent(wide, RELAYER.address, SECOND.address)
    # each transaction is counted once, and its cost for the key that paid it
    get_sample = wide.app.meters.registry.get_sample_value
    outcome = {"chain": CHAIN, "outcome": "succeeded"}
    assert get_sample("florin_transactions_total", outcome) == 4
    for key in (RELAYER, SECOND):
        account = {"account": f"{CHAIN}:{key.address}"}
        cost = get_sample("florin_gas_cost_minor_units_total", account)
        assert cost == await get_spent(wide, key.address)


async def test_a_key_never_has_more_than_sixteen_transactions_waiting(wide):
    await wide.lab.pause()
    payments = []
    for n in range(34):
        payments.append(await wide.create_processing_payment(make_buyer(100 + n)))
        await wide.turn()
    assert await count_open_by_sender(wide) == [16, 16]
    # the waiting payments share a transaction when there is room
    await wide.mine()
    await wide.turn()
    assert sum(await count_open_by_sender(wide)) == 33
    for payment in payments:
        assert (await wide.run_to_end(payment)).status == "succeeded"


async def test_a_paused_key_is_left_out(wide):
    await pause(wide.app, f"{CHAIN}:{RELAYER.address}")
    payments = [await wide.create_processing_payment(make_buyer(100 + n)) for n in range(2)]
    await wide.turn()
    assert await count_open_by_sender(wide) == [0, 1]
    assert wide.settler.health().problem == f"paused by the operator: {RELAYER.address}"
    for payment in payments:
        assert (await wide.run_to_end(payment)).status == "succeeded"
    second = f"{CHAIN}:{SECOND.address}"
    last = await wide.create_processing_payment(WALLET, paused=[second])
    assert wide.settler.health().problem == "paused by the operator"
    await wide.mine(2)
    assert await count_open_by_sender(wide) == [0, 0]
    await resume(wide.app, f"{CHAIN}:{RELAYER.address}")
    assert (await wide.run_to_end(last)).status == "succeeded"


async def test_a_key_whose_lease_another_has_is_left_out(wide):
    lease = f"relayer:{CHAIN}:{RELAYER.address}"
    taken = leases.acquire(lease, "they", wide.lab.clock.now_us(), 500 * 10**6, steal=True)
    await wide.store.write(taken)
    wide.lab.clock.advance(11)
    payment = await wide.create_processing_payment(WALLET)
    await wide.turn(2)
    assert await count_open_by_sender(wide) == [0, 1]
    assert f"the lease of {RELAYER.address}" in wide.settler.health().problem
    assert (await wide.run_to_end(payment)).status == "succeeded"


async def test_a_payment_whose_transaction_failed_goes_out_with_another_key(wide, monkeypatch):
    """Its transaction is mined but moves nothing; the next transaction pays."""
    payment = await wide.create_processing_payment(WALLET)
    sign = wide.lab.rail.relay.sign

    async def starved(sender, nonce, items):
        return await sign(sender, nonce, ())

    with monkeypatch.context() as broken:
        broken.setattr(wide.lab.rail.relay, "sign", starved)
        await wide.turn()
        await pause(wide.app, f"{CHAIN}:{RELAYER.address}")
    await wide.mine(3)
    assert await count_open_by_sender(wide) == [0, 0]
    wide.lab.clock.advance(11)
    ended = await wide.run_to_end(payment)
    assert ended.status == "succeeded"
    (first,) = await wide.store.read(chain_txs.list_at_nonce(CHAIN, RELAYER.address, 0))
    (second,) = await wide.store.read(chain_txs.list_at_nonce(CHAIN, SECOND.address, 0))
    assert first.item_ids == second.item_ids == (payment.id,)
    assert ended.tx_id == second.hash


async def test_transactions_of_both_keys_are_recovered_after_a_restart(wide):
    await wide.lab.pause()
    payments = []
    for n in range(2):
        payments.append(await wide.create_processing_payment(make_buyer(100 + n)))
        await wide.turn()
    await wide.restart()
    assert await count_open_by_sender(wide) == [1, 1]
    for payment in payments:
        assert (await wide.run_to_end(payment)).status == "succeeded"


# coin and time


async def test_relayer_short_of_coin_is_reported(tmp_path):
    async with open_settlement_harness(tmp_path, gas_reserve=10_000) as shop:
        assert shop.settler.health().problem == ""
        await shop.base_fee(100 * GWEI)
        await shop.mine()
        shop.lab.clock.advance(11)
        await shop.turn()
        problem = shop.settler.health().problem
        assert "too little coin to pay for gas" in problem
        assert RELAYER.address in problem
        assert await shop.lab.rail.list_problems() == ()
        # it has enough for one payment
        assert await shop.lab.rail.relay.list_shortages() == (GasShortage(problem, is_empty=False),)
        assert has_condition(shop.settler.health(), ConditionName.RELAYER_FUNDS_LOW)
        assert not has_condition(shop.settler.health(), ConditionName.RELAYER_EMPTY)
        await shop.base_fee(GWEI)
        await shop.mine()
        shop.lab.clock.advance(11)
        await shop.turn()
        assert shop.settler.health().problem == ""


@pytest.mark.parametrize(
    ("left_s", "quiet_s", "sent"), [(23, 0, False), (23.5, 0, True), (23, 12, False)]
)
async def test_nothing_is_sent_that_cannot_be_mined_in_time(shop, left_s, quiet_s, sent):
    """The newest block can be some seconds old."""
    executor = f"{CHAIN}:{RELAYER.address}"
    payment = await shop.create_processing_payment(WALLET, paused=[executor])
    valid_until = payment.expires_at + 300 - 1
    # a block every 12 seconds until shortly before the end
    now_s = shop.lab.clock.now_us() // 1_000_000
    shop.lab.clock.advance(valid_until - left_s - quiet_s - now_s - 8 * 12)
    for _ in range(9):
        await shop.mine()
        shop.lab.clock.advance(12)
    shop.lab.clock.advance(quiet_s - 12)
    await resume(shop.app, executor)
    await shop.turn(2)
    assert (shop.lab.node.methods.count("eth_sendRawTransaction") == 1) is sent
    assert await shop.status(payment) == "processing"
    if sent:
        return
    for _ in range(8):
        shop.lab.clock.advance(12)
        await shop.mine()
    ended = await shop.get_payment(payment)
    assert (ended.status, await shop.transactions()) == ("failed", [])
    await shop.check(ended)
