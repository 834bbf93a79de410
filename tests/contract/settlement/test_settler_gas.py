"""Accounts that accept when they are tried and burn gas on the chain: what they cost is bounded.

A relayer loses the gas of three transactions a payment at most, and of a budget's worth an hour.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_server.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import PayerKind

from tests.support.evm_lab import ACCEPTS_ALL, RELAYER, buyer, refuse
from tests.support.fee_steps import SECOND
from tests.support.gas_lab import (
    EVIL,
    HONEST,
    ONE,
    ONE_MAX,
    OTHER,
    SAFE,
    TTL_S,
    accepted,
    broadcasts,
    burn,
    evil,
    lost,
    push,
    refusal,
    switch,
    wait,
)
from tests.support.hostile import (
    BURNS_FOR_A_PRICE,
    burns_from,
)
from tests.support.settler_lab import Works, works


@pytest.fixture
async def shop(tmp_path) -> AsyncIterator[Works]:
    async with works(tmp_path) as running:
        yield running


# trials


async def test_an_account_that_accepts_what_costs_nothing_is_refused(shop):
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(EVIL, BURNS_FOR_A_PRICE)
    error = await refusal(accepted(shop, EVIL))
    assert error.details["reason"] == "signature_mismatch"
    assert broadcasts(shop) == 0


async def test_an_account_with_code_is_tried_again_right_before_it_is_sent(shop):
    await evil(shop, EVIL)
    payment = await accepted(shop, EVIL)
    await switch(shop, EVIL, burns=True)
    await shop.lab.mine()
    await shop.turn(3)
    assert broadcasts(shop) == 0
    await switch(shop, EVIL, burns=False)
    await shop.lab.mine()
    await wait(shop, 5)
    assert (await shop.end(payment)).status == "succeeded"


async def test_an_account_that_got_code_after_its_confirm_is_tried_with_it(shop):
    payment, other = await shop.accepted(EVIL), await shop.accepted(HONEST)
    await shop.lab.delegate(EVIL, burns_from(0))
    assert (await shop.end(other)).status == "succeeded"
    assert await shop.status(payment) == "processing"
    assert broadcasts(shop) == 1
    assert (await lost(shop)).failed == 0


async def test_an_account_that_got_code_after_its_confirm_has_gas_for_it(shop):
    payment = await shop.accepted(EVIL)
    await shop.lab.delegate(EVIL, ACCEPTS_ALL)
    await shop.turn()
    (sent,) = await shop.transactions()
    (share,) = sent.shares
    assert share.kind is PayerKind.CODE
    assert share.gas >= ONE
    assert (await shop.end(payment)).status == "succeeded"


@pytest.mark.parametrize("key", [RELAYER, SECOND], ids=["first", "second"])
async def test_a_trial_is_what_will_be_signed(tmp_path, key):
    """By the key that sends it: an account may look at who that is."""
    async with works(tmp_path, more=[SECOND]) as shop:
        for one in shop.settler.executors:
            one.paused = one.address != key.address
        await evil(shop, EVIL)
        await accepted(shop, EVIL)
        tried = []

        def note(params, answer):
            if params[0].get("to") == DEVNET.settler:
                tried.append(params)
            return answer

        shop.lab.node.changes["eth_call"] = note
        await shop.turn()
        (sent,) = await shop.transactions(key.address)
        fields = (await shop.lab.control.call("eth_getTransactionByHash", sent.hash)).items()
        call, block = tried[-1]
        named = ("from", "to", "gas", "maxFeePerGas", "maxPriorityFeePerGas")
        assert {name: call[name] for name in named} == {k: v for k, v in fields if k in named}
        assert (call["data"], block) == (dict(fields)["input"], "pending")


async def test_a_node_that_does_not_know_the_next_block_is_asked_for_the_newest(shop):
    def newest_only(params, answer):
        if params[1] == "pending":
            return refuse(-32000, "pending block is not available")(params, answer)
        return answer

    shop.lab.node.changes["eth_call"] = newest_only
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(EVIL, ACCEPTS_ALL)
    payment = await accepted(shop, EVIL)
    assert (await shop.end(payment)).status == "succeeded"


async def test_a_relayer_without_coin_is_not_the_buyers_fault(shop):
    poor = "insufficient funds for gas * price + value: address 0x1 have 0 want 1"

    def without_coin(params, answer):
        return refuse(-32000, poor)(params, answer) if "maxFeePerGas" in params[0] else answer

    shop.lab.node.changes["eth_call"] = without_coin
    error = await refusal(shop.accepted(HONEST))
    assert error.http == 503
    assert error.retry_after_s


# what fails


async def test_a_payment_costs_three_transactions_at_most(shop, caplog):
    await evil(shop, EVIL)
    payment = await accepted(shop, EVIL)
    pauses = (10, 60)
    for count, pause_s in enumerate(pauses, 1):
        await burn(shop, EVIL)
        assert (await shop.item(payment)).failures == count
        assert broadcasts(shop) == count
        await wait(shop, pause_s - 1)
        assert broadcasts(shop) == count
        shop.lab.clock.advance(1)
    await burn(shop, EVIL)
    assert broadcasts(shop) == 3
    for _ in range(10):
        await wait(shop, 100)
        await shop.mine()
    assert broadcasts(shop) == 3
    problem = "payments not sent any more because 3 transactions did not pay them: 1"
    assert problem in shop.settler.health().problem
    told = [line for line in caplog.messages if line.startswith(f"payment {payment.id} was not")]
    assert len(told) == 3
    assert f"payment {payment.id} is not sent any more" in caplog.text
    used = await lost(shop)
    assert 3 * ONE < used.failed < 3 * ONE_MAX
    shop.lab.clock.advance(TTL_S + 400)
    await shop.mine(4)
    shop.lab.clock.advance(11)
    ended = await shop.end(payment)
    assert (ended.status, broadcasts(shop)) == ("failed", 3)
    assert shop.settler.health().problem == ""


async def test_a_restart_keeps_the_counts(shop):
    await evil(shop, EVIL)
    payment = await accepted(shop, EVIL)
    for count in (1, 2, 3):
        await burn(shop, EVIL)
        await shop.restart()
        assert (await shop.item(payment)).failures == count
        shop.lab.clock.advance(60)
    await wait(shop, 100)
    await shop.mine()
    assert broadcasts(shop) == 3
    assert "not sent any more" in shop.settler.health().problem


async def test_an_account_that_turns_by_block_number_fails_once(shop):
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(EVIL, burns_from((await shop.lab.rail.observer.head()).number + 4))
    payment = await accepted(shop, EVIL)
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    await shop.turn()
    for _ in range(3):
        await shop.mine(4)
        await wait(shop, 61)
    assert (await shop.item(payment)).failures == 1
    assert await shop.transactions() == []


async def test_what_failed_is_sent_alone(shop):
    await evil(shop, EVIL)
    payment, first = await accepted(shop, EVIL), await shop.accepted(HONEST)
    await burn(shop, EVIL)
    ended = await shop.end(first)
    assert ended.status == "succeeded"
    assert (await shop.item(payment)).failures == 1
    shop.lab.clock.advance(10)
    second = await shop.accepted(OTHER)
    await shop.turn()
    assert sorted(tx.item_ids for tx in await shop.transactions()) == sorted(
        [(payment.id,), (second.id,)]
    )
    ended = [await shop.end(one) for one in (payment, second)]
    assert [one.status for one in ended] == ["succeeded"] * 2


async def test_an_item_of_many_is_charged_its_share(shop):
    await evil(shop, EVIL)
    await accepted(shop, EVIL)
    for number in range(5):
        await shop.accepted(buyer(200 + number))
    await burn(shop, EVIL)
    used = await lost(shop)
    assert ONE < used.failed < ONE_MAX


async def test_money_that_moves_away_between_trial_and_block(shop):
    await shop.lab.pause()
    await shop.lab.fund(HONEST)
    payment = await shop.accepted(HONEST)
    await shop.turn()
    held = await shop.lab.balance(HONEST.address)
    move = bytes.fromhex("a9059cbb") + SAFE.rjust(32, b"\0") + held.to_bytes(32, "big")
    fields = {
        "chainId": DEVNET.chain_id,
        "nonce": 0,
        "gas": 100_000,
        "maxFeePerGas": 10**12,
        "maxPriorityFeePerGas": 10**11,
        "to": bytes.fromhex(DEVNET.token.address[2:]),
        "data": move,
        "value": 0,
    }
    raw = Account.sign_transaction(fields, HONEST.key).raw_transaction
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())
    await shop.mine(4)
    assert (await shop.item(payment)).failures == 1
    for _ in range(5):
        await wait(shop, 60)
    assert broadcasts(shop) == 1
    await push(shop, DEVNET.token.address, 0, mint(HONEST, held))
    await shop.mine()
    await wait(shop, 60)
    assert (await shop.end(payment)).status == "succeeded"


def mint(wallet: LocalAccount, value: int) -> bytes:
    words = wallet.address[2:].lower().rjust(64, "0") + f"{value:064x}"
    return bytes.fromhex("40c10f19" + words)


async def test_who_pays_by_itself_and_lets_ours_fail_is_charged(shop):
    await evil(shop, EVIL)
    payment = await accepted(shop, EVIL)
    await shop.turn()
    (sent,) = await shop.transactions()
    data = await shop.lab.control.call("eth_getTransactionByHash", sent.hash)
    await push(shop, DEVNET.settler, 0, bytes.fromhex(data["input"][2:]))
    await shop.mine()
    ended = await shop.end(payment)
    assert ended.status == "succeeded"
    assert ended.tx_id != sent.hash
    assert (await lost(shop)).failed > 0


async def test_a_transaction_of_many_that_is_reverted_is_nobodys_fault(shop, caplog):
    paid = [await shop.accepted(buyer(300 + number)) for number in range(4)]
    await shop.fault(kind="revert", times=1)
    await shop.turn()
    await shop.mine(3)
    items = [await shop.item(one) for one in paid]
    assert [(one.failures, one.alone) for one in items] == [(0, True)] * 4
    assert "of 4 payments was reverted as a whole: each is sent alone" in caplog.text
    await shop.restart()
    await wait(shop, 5)
    ended = [await shop.end(one) for one in paid]
    assert {one.status for one in ended} == {"succeeded"}
    assert len({one.tx_id for one in ended}) == 4
    used = await lost(shop)
    assert used.failed > 0
    assert not used.payers
