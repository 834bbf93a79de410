"""From an accepted payment to its end, whatever happens to the chain, the node or the process.

Each test ends by asking the chain itself: the money moved once for a payment that succeeded, never
for one that failed, and the books say the same.
"""

from __future__ import annotations

import asyncio

import pytest
from eth_account import Account
from florin_server.boot.app import app_of
from florin_server.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.rails.evm.paying.terms import Terms, bare
from florin_server.rails.types import Paid
from florin_server.store.ledger import ledger
from florin_server.store.settlement import chain_txs, used_nonces

from tests.support import postgres
from tests.support.evm_lab import PRICE, RELAYER, TOKEN, account_of, buyer, refuse, reply
from tests.support.settler_lab import CHAIN, MERCHANT, Works, without_destination, works
from tests.support.settler_steps import DEAR, front_run, settlement_of

WALLET = buyer(77)
GRACE_S = 300

pytestmark = pytest.mark.both_chains


@pytest.fixture
async def shop(tmp_path, evm):
    async with works(tmp_path, evm=evm) as running:
        yield running


async def send_waiting(shop: Works, data: bytes) -> str:
    """The same while no blocks are sealed, with a fee that puts it first; returns its hash."""
    nonce = await shop.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    raw = Account.sign_transaction(
        {**DEAR, "nonce": int(nonce, 16), "to": bytes.fromhex(DEVNET.settler[2:]), "data": data},
        DEVNET.faucet_key,
    ).raw_transaction
    return await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())


# the usual way


async def test_a_payment_ends_at_final_depth_and_not_before(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    # mined at once; the chain's settings ask for three blocks
    assert await shop.lab.balance(MERCHANT) == PRICE
    assert await shop.status(payment) == "processing"
    await shop.mine()
    assert await shop.status(payment) == "processing"
    await shop.mine()
    ended = await shop.now(payment)
    assert (ended.status, ended.version) == ("succeeded", 2)
    assert (ended.option_value, ended.settled_value) == (PRICE, PRICE)
    assert await shop.transactions() == []
    await shop.check(ended)
    buyer_account = f"external:{account_of(WALLET)}"
    assert await shop.store.read(ledger.balance(buyer_account, TOKEN)) == -PRICE
    gas = await shop.store.read(ledger.balance("expense:gas", f"{CHAIN}/slip44:60"))
    assert gas > 0


@pytest.mark.parametrize("own", [True, False], ids=["own", "treasury"])
async def test_what_a_merchant_got_is_told_where_it_was_paid_directly(tmp_path, monkeypatch, own):
    monkeypatch.setenv("FLORIN_FEE_FIXED", "7")
    monkeypatch.setenv("FLORIN_FEE_BASIS_POINTS", "100")
    async with works(tmp_path) as shop:
        if not own:
            await shop.store.write(without_destination())
        ended = await shop.end(await shop.accepted(WALLET))
        assert (ended.option_unit, ended.option_value) == (f"caip19/{TOKEN}", PRICE)
        assert ended.settled_value == (PRICE - 7 - PRICE // 100 if own else None)


@pytest.mark.parametrize(("age_s", "wait_s"), [(2, 1), (4, 1), (8.000003, 2), (60, 5)])
async def test_what_would_not_settle_is_tried_again_after_a_quarter_of_its_age(shop, age_s, wait_s):
    """Mostly an approval that is not mined yet; here the money itself comes too late."""
    # who has nothing else under way is not asked a second time
    first, second = [await shop.accepted(WALLET) for _ in range(2)]
    confirmed_us = shop.lab.clock.now_us()
    held = await shop.lab.balance(WALLET.address)
    words = bytes.fromhex("5a" * 20).rjust(32, b"\0") + held.to_bytes(32, "big")
    token, data = DEVNET.token.address, bytes.fromhex("a9059cbb") + words
    await shop.lab.send(key=bytes(WALLET.key), to=token, data=data)
    shop.lab.clock.advance(age_s - (shop.lab.clock.now_us() - confirmed_us) / 1_000_000)
    await shop.turn()
    tried_us = shop.lab.clock.now_us()
    assert await shop.transactions() == []
    for more_us, found in ((-1, set()), (0, {first.id, second.id})):
        at_us = tried_us + wait_s * 1_000_000 + more_us
        due = await shop.store.read(chain_txs.waiting(CHAIN, 9, at_us))
        assert {one.payment.id for one in due} == found
    await shop.lab.send_tokens(WALLET.address, held)
    shop.lab.clock.advance(wait_s)
    for payment in (first, second):
        assert (await shop.end(payment)).status == "succeeded"


async def test_payments_accepted_together_share_a_transaction(shop):
    wallets = [buyer(100 + n) for n in range(5)]
    accepted = [await shop.accepted(wallet) for wallet in wallets]
    await shop.turn()
    ended = [await shop.end(payment) for payment in accepted]
    assert {payment.status for payment in ended} == {"succeeded"}
    assert len({payment.tx_id for payment in ended}) == 1


async def test_time_alone_ends_nothing(shop):
    """The service's clock passes every deadline, the chain's does not."""
    await shop.lab.pause()
    payment = await shop.accepted(WALLET)
    await shop.turn()
    shop.lab.clock.advance(900 + GRACE_S + 86_400)
    await shop.turn(5)
    assert await shop.status(payment) == "processing"


# broadcasts


async def test_a_dropped_broadcast_is_repeated(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert not await shop.lab.rail.relay.knows(sent.hash)
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_it_is_repeated_too_where_no_block_comes_without_it(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (sent,) = await shop.transactions()
    shop.lab.clock.advance(9)
    await shop.turn()
    assert await shop.lab.balance(MERCHANT) == 0
    shop.lab.clock.advance(1)
    await shop.turn()
    assert await shop.lab.balance(MERCHANT) == PRICE
    assert (await shop.end(payment)).tx_id == sent.hash


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5])
async def test_a_dropped_broadcast_is_repeated_however_blocks_are_seen(shop, step):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=2)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    for _ in range(12):
        await shop.lab.mine(step)
        await shop.turn()
    assert shop.lab.node.asked.count("eth_sendRawTransaction") == 3
    assert (await shop.end(payment)).status == "succeeded"


async def test_a_known_transaction_is_not_sent_twice(shop):
    await shop.lab.pause()
    await shop.accepted(WALLET)
    await shop.turn(8)
    assert shop.lab.node.asked.count("eth_sendRawTransaction") == 1


@pytest.mark.parametrize("effect", ["error", "late_error", "null"])
async def test_an_error_on_send_is_no_answer(shop, effect):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect=effect, times=2)
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    assert await shop.status(payment) == "processing"
    (sent,) = await shop.transactions()
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_receipts_that_are_null_prove_nothing(shop):
    payment = await shop.accepted(WALLET)
    for method in ("eth_getBlockReceipts", "eth_getTransactionReceipt"):
        await shop.fault(kind="answer", method=method, effect="null", times=4)
    await shop.fault(kind="answer", method="eth_getLogs", effect="null", times=4)
    await shop.turn(2)
    await shop.mine(2)
    assert await shop.status(payment) == "processing"
    assert (await shop.end(payment)).status == "succeeded"


# reorganisations


async def test_a_reorganisation_below_final_depth_moves_the_proof(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    await shop.mine()
    (sent,) = await shop.transactions()
    # the same transaction, one block later
    await shop.lab.reorg(2, delay=1)
    await shop.turn()
    assert await shop.status(payment) == "processing"
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)


async def test_a_reorganisation_that_loses_the_transaction(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn(2)
    (sent,) = await shop.transactions()
    await shop.lab.reorg(1, sent.hash)
    assert await shop.lab.balance(MERCHANT) == 0
    await shop.turn()
    assert await shop.status(payment) == "processing"
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", sent.hash)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_a_settlement_that_moves_below_the_block_of_its_confirm(shop):
    """It is looked for by whoever starts later and knows nothing but where to begin."""
    await shop.mine(4)
    await shop.lab.pause()
    payment = await shop.accepted(WALLET)
    theirs = await send_waiting(shop, await settlement_of(shop, payment))
    confirmed_at = await shop.lab.rail.observer.head()
    await shop.fault(kind="reorg", depth=2)
    receipt = await shop.lab.control.call("eth_getTransactionReceipt", theirs)
    assert int(receipt["blockNumber"], 16) < confirmed_at.number
    await shop.lab.mine(3)
    await shop.restart()
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    await shop.check(ended)


# restarts


async def test_a_restart_between_writing_down_and_sending(shop):
    shop.lab.node.lost = frozenset({"eth_sendRawTransaction"})
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (signed,) = await shop.transactions()
    assert signed.state == TxState.SIGNED
    shop.lab.node.lost = frozenset()
    await shop.restart()
    (sent,) = await shop.transactions()
    assert sent.raw == signed.raw
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", signed.hash)


async def test_a_restart_before_anything_was_written_down(shop):
    payment = await shop.accepted(WALLET)
    await shop.restart()
    assert (await shop.end(payment)).status == "succeeded"


async def test_what_became_final_while_nobody_looked(shop):
    payment = await shop.accepted(WALLET)
    await shop.turn()
    await shop.lab.mine(10)
    await shop.restart()
    ended = await shop.now(payment)
    assert ended.status == "succeeded"
    await shop.check(ended)
    assert await shop.transactions() == []


async def test_a_restart_at_every_block(shop):
    payment = await shop.accepted(WALLET)
    for _ in range(6):
        await shop.restart()
        await shop.lab.mine()
    ended = await shop.end(payment)
    assert ended.status == "succeeded"
    assert await shop.store.read(used_nonces.next_nonce(CHAIN, RELAYER.address)) == 1


async def test_the_former_owner_of_a_lease_sends_nothing(shop):
    """Two settlers of one chain would use one nonce twice."""
    first = shop.settler
    second = type(first)(shop.app, shop.lab.rail, "second")
    shop.app = app_of(shop.app, [second])
    await shop.turn()
    await postgres.let_leases_lapse(shop.folder)
    task = asyncio.create_task(second.run())
    await second.turned.wait()
    payment = await shop.accepted(WALLET)
    await shop.turn(3)
    assert await shop.transactions() == []
    assert first.health().problem
    task.cancel()
    await asyncio.wait({task})
    await shop.restart()
    assert (await shop.end(payment)).status == "succeeded"


# others


async def test_somebody_else_submits_the_authorization_first(shop):
    payment = await shop.accepted(WALLET)
    theirs = await front_run(shop, payment)
    await shop.turn(2)
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert await shop.lab.balance(MERCHANT) == PRICE


async def test_somebody_else_submits_it_while_ours_waits(shop):
    await shop.lab.pause()
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (ours,) = await shop.transactions()
    theirs = await send_waiting(shop, await settlement_of(shop, payment))
    await shop.mine()
    ended = await shop.end(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert ended.tx_id != ours.hash
    # the gas of ours is booked all the same
    assert await shop.transactions() == []


async def test_another_transaction_takes_our_nonce(shop):
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    payment = await shop.accepted(WALLET)
    await shop.turn()
    (lost,) = await shop.transactions()
    rival = Account.sign_transaction(
        {**DEAR, "nonce": lost.nonce, "to": bytes(19) + b"\x99"}, b"\x52" * 32
    ).raw_transaction
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(rival).hex())
    await shop.mine(3)
    shop.lab.clock.advance(10)
    await shop.turn()
    shop.lab.clock.advance(10)
    await shop.turn()
    ended = await shop.end(payment)
    assert ended.status == "succeeded"
    assert ended.tx_id != lost.hash


# money that is not there


async def two_on_one_balance(shop: Works):
    """Two accepted payments of a buyer that holds enough for one of them."""
    await shop.lab.fund(WALLET)
    held = await shop.lab.balance(WALLET.address)
    # in cents; a token unit is a ten-thousandth of one
    cents = held // 10_000 - 50
    first = await shop.accepted(WALLET, cents)
    shop.lab.clock.advance(1)
    return first, await shop.accepted(WALLET, cents)


async def test_two_payments_overspend_one_balance(shop):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    ended = await shop.end(first)
    assert ended.status == "succeeded"
    assert await shop.status(second) == "processing"
    # the buyer gets money and the second goes through
    await shop.lab.send_tokens(WALLET.address, 10**12)
    shop.lab.clock.advance(6)
    await shop.turn(2)
    assert (await shop.end(second)).status == "succeeded"


async def test_an_overspent_payment_fails_once_its_authorization_lapsed(shop):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    assert (await shop.end(first)).status == "succeeded"
    shop.lab.clock.advance(900 + GRACE_S)
    await shop.turn(3)
    # no block has that time yet
    assert await shop.status(second) == "processing"
    await shop.mine()
    shop.lab.clock.advance(11)
    await shop.turn()
    assert await shop.status(second) == "processing"
    await shop.mine(2)
    shop.lab.clock.advance(11)
    await shop.turn()
    ended = await shop.now(second)
    assert (ended.status, ended.failure_code) == ("failed", None)
    assert "lapsed" in (ended.failure_detail or "")
    await shop.check(ended)


async def test_an_event_of_a_block_that_was_replaced_unread_is_no_event(shop, monkeypatch):
    first, second = await two_on_one_balance(shop)
    await shop.turn()
    assert (await shop.end(first)).status == "succeeded"
    item = await shop.item(second)
    terms, split = Terms.of(item.option), shop.lab.rail.terms.split(item.option)
    told = Paid(
        ref=shop.lab.rail.terms.reference(item.option),
        tx_hash="0x" + "ab" * 32,
        block_number=(await shop.lab.rail.observer.head()).number + 1,
        block_hash="0x" + "cd" * 32,
        payer=bare(item.option.payer),
        dest=bare(split.dest),
        fee_to=terms.route.fee_to,
        token=terms.route.token,
        value=item.option.value,
        fee=split.fee,
        nonce="0x" + terms.nonce.hex(),
    )
    assert shop.lab.rail.terms.proves(item.option, told)
    # as a node answers that follows another block for a moment
    find, answers = shop.lab.rail.observer.find, [[told]]

    async def astray(items):
        return answers.pop() if answers else await find(items)

    monkeypatch.setattr(shop.lab.rail.observer, "find", astray)
    shop.lab.clock.advance(900 + GRACE_S)
    for _ in range(2):
        await shop.mine(3)
        shop.lab.clock.advance(11)
        await shop.turn()
    assert answers == []
    ended = await shop.now(second)
    assert ended.status == "failed"
    assert "lapsed" in (ended.failure_detail or "")
    await shop.check(ended)


async def test_an_authorization_that_was_used_before_it_lapsed_is_no_failure(shop):
    """The proof of success may be found after the deadline; it still is success."""
    payment = await shop.accepted(WALLET)
    theirs = await front_run(shop, payment)
    shop.lab.clock.advance(900 + GRACE_S + 60)
    await shop.lab.mine(5)
    await shop.turn(2)
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    await shop.check(ended)


# outages

EVERYTHING = frozenset(
    {"eth_getBlockByNumber", "eth_blockNumber", "eth_sendRawTransaction", "eth_getTransactionCount"}
)
QUESTIONS = [
    "eth_blockNumber",
    "eth_call",
    "eth_getBlockByNumber",
    "eth_getBlockReceipts",
    "eth_getLogs",
    "eth_getTransactionByHash",
    "eth_getTransactionCount",
    "eth_getTransactionReceipt",
]


async def test_an_outage_never_ends_a_payment(shop):
    """Neither answers that are lost nor refusals, however long and past every deadline."""
    payment = await shop.accepted(WALLET)
    theirs = await front_run(shop, payment)
    node = shop.lab.node
    node.lost = EVERYTHING
    await shop.lab.mine(5)
    for _ in range(5):
        shop.lab.clock.advance(900)
        await shop.turn()
        assert shop.settler.health().problem
    assert await shop.status(payment) == "processing"
    node.lost = frozenset()
    for answer in (refuse(-32603, "overloaded"), reply(None), reply("0x"), reply([])):
        node.changes = dict.fromkeys(QUESTIONS, answer)
        shop.lab.clock.advance(900)
        await shop.turn(2)
        assert shop.settler.health().problem
        assert await shop.status(payment) == "processing"
    node.changes = {}
    shop.lab.clock.advance(11)
    await shop.turn()
    ended = await shop.now(payment)
    assert (ended.status, ended.tx_id) == ("succeeded", theirs)
    assert shop.settler.health().problem == ""
    await shop.check(ended)


async def test_an_outage_while_starting(shop):
    payment = await shop.accepted(WALLET)
    shop.lab.node.lost = EVERYTHING
    await shop.restart()
    await shop.turn(3)
    assert shop.settler.health().problem
    shop.lab.node.lost = frozenset()
    assert (await shop.end(payment)).status == "succeeded"
