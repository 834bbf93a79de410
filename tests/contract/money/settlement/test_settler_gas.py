"""Test bounded losses from accounts that pass the simulation and burn gas on the chain.

A relayer loses the gas of at most three transactions per payment, and of one budget per hour.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_sandbox.devnet.evm import DEVNET
from florin_server.domain.settlement.chain_txs import PayerKind

from tests.support.booked_gas import SECOND
from tests.support.evm_harness import ACCEPTS_ALL, RELAYER, make_buyer, make_refusal
from tests.support.gas_burners import (
    EVIL,
    HONEST,
    ONE,
    ONE_MAX,
    OTHER,
    SAFE,
    TTL_S,
    advance_time,
    burn_gas,
    confirm_payment,
    count_broadcasts,
    get_budget_usage,
    get_refusal,
    make_gas_burners,
    send_first,
    switch_code,
)
from tests.support.hostile_accounts import (
    BURNS_FOR_A_PRICE,
    make_burns_from_block,
)
from tests.support.settlement_harness import SettlementHarness, open_settlement_harness


@pytest.fixture
async def shop(tmp_path) -> AsyncIterator[SettlementHarness]:
    async with open_settlement_harness(tmp_path) as running:
        yield running


# simulations


async def test_account_that_accepts_only_at_zero_gas_price_is_refused(shop):
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(EVIL, BURNS_FOR_A_PRICE)
    error = await get_refusal(confirm_payment(shop, EVIL))
    assert error.details["reason"] == "signature_mismatch"
    assert count_broadcasts(shop) == 0


async def test_an_account_with_code_is_tried_again_right_before_it_is_sent(shop):
    await make_gas_burners(shop, EVIL)
    payment = await confirm_payment(shop, EVIL)
    await switch_code(shop, EVIL, burns=True)
    await shop.lab.mine()
    await shop.turn(3)
    assert count_broadcasts(shop) == 0
    await switch_code(shop, EVIL, burns=False)
    await shop.lab.mine()
    await advance_time(shop, 5)
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_an_account_that_got_code_after_its_confirm_is_tried_with_it(shop):
    payment, other = (
        await shop.create_processing_payment(EVIL),
        await shop.create_processing_payment(HONEST),
    )
    await shop.lab.delegate(EVIL, make_burns_from_block(0))
    assert (await shop.run_to_end(other)).status == "succeeded"
    assert await shop.status(payment) == "processing"
    assert count_broadcasts(shop) == 1
    assert (await get_budget_usage(shop)).total_failed_gas == 0


async def test_an_account_that_got_code_after_its_confirm_has_gas_for_it(shop):
    payment = await shop.create_processing_payment(EVIL)
    await shop.lab.delegate(EVIL, ACCEPTS_ALL)
    await shop.turn()
    (sent,) = await shop.transactions()
    (share,) = sent.gas_shares
    assert share.kind is PayerKind.CODE
    assert share.gas >= ONE
    assert (await shop.run_to_end(payment)).status == "succeeded"


@pytest.mark.parametrize("key", [RELAYER, SECOND], ids=["first", "second"])
async def test_dry_run_uses_the_call_that_will_be_signed(tmp_path, key):
    """Simulate with the sending key: an account can check its caller."""
    async with open_settlement_harness(tmp_path, more=[SECOND]) as shop:
        for sender in shop.settler.executors:
            sender.is_paused = sender.address != key.address
        await make_gas_burners(shop, EVIL)
        await confirm_payment(shop, EVIL)
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


async def test_dry_run_falls_back_to_the_latest_block_without_pending_support(shop):
    def newest_only(params, answer):
        if params[1] == "pending":
            return make_refusal(-32000, "pending block is not available")(params, answer)
        return answer

    shop.lab.node.changes["eth_call"] = newest_only
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(EVIL, ACCEPTS_ALL)
    payment = await confirm_payment(shop, EVIL)
    assert (await shop.run_to_end(payment)).status == "succeeded"


async def test_a_relayer_without_coin_is_not_the_buyers_fault(shop):
    poor = "insufficient funds for gas * price + value: address 0x1 have 0 want 1"

    def without_coin(params, answer):
        return make_refusal(-32000, poor)(params, answer) if "maxFeePerGas" in params[0] else answer

    shop.lab.node.changes["eth_call"] = without_coin
    error = await get_refusal(shop.create_processing_payment(HONEST))
    assert error.http_status == 503
    assert error.retry_after_s


# failures


async def test_a_payment_costs_three_transactions_at_most(shop, caplog):
    await make_gas_burners(shop, EVIL)
    payment = await confirm_payment(shop, EVIL)
    pauses = (10, 60)
    for count, pause_s in enumerate(pauses, 1):
        await burn_gas(shop, EVIL)
        assert (await shop.get_item(payment)).failures == count
        assert count_broadcasts(shop) == count
        await advance_time(shop, pause_s - 1)
        assert count_broadcasts(shop) == count
        shop.lab.clock.advance(1)
    await burn_gas(shop, EVIL)
    assert count_broadcasts(shop) == 3
    for _ in range(10):
        await advance_time(shop, 100)
        await shop.mine()
    assert count_broadcasts(shop) == 3
    problem = "payments no longer sent because 3 transactions failed to pay them: 1"
    assert problem in shop.settler.health().problem
    result = [line for line in caplog.messages if line.startswith(f"payment {payment.id} was not")]
    assert len(result) == 3
    assert f"payment {payment.id} is no longer sent" in caplog.text
    used = await get_budget_usage(shop)
    assert 3 * ONE < used.total_failed_gas < 3 * ONE_MAX
    shop.lab.clock.advance(TTL_S + 400)
    await shop.mine(4)
    shop.lab.clock.advance(11)
    ended = await shop.run_to_end(payment)
    assert (ended.status, count_broadcasts(shop)) == ("failed", 3)
    assert shop.settler.health().problem == ""


async def test_a_restart_keeps_the_counts(shop):
    await make_gas_burners(shop, EVIL)
    payment = await confirm_payment(shop, EVIL)
    for count in (1, 2, 3):
        await burn_gas(shop, EVIL)
        await shop.restart()
        assert (await shop.get_item(payment)).failures == count
        shop.lab.clock.advance(60)
    await advance_time(shop, 100)
    await shop.mine()
    assert count_broadcasts(shop) == 3
    assert "no longer sent" in shop.settler.health().problem


async def test_an_account_that_turns_by_block_number_fails_once(shop):
    await shop.lab.fund(EVIL)
    await shop.lab.delegate(
        EVIL, make_burns_from_block((await shop.lab.rail.observer.get_head()).number + 4)
    )
    payment = await confirm_payment(shop, EVIL)
    await shop.fault(kind="answer", method="eth_sendRawTransaction", effect="drop", times=1)
    await shop.turn()
    for _ in range(3):
        await shop.mine(4)
        await advance_time(shop, 61)
    assert (await shop.get_item(payment)).failures == 1
    assert await shop.transactions() == []


async def test_failed_payment_is_retried_alone(shop):
    await make_gas_burners(shop, EVIL)
    payment, first = await confirm_payment(shop, EVIL), await shop.create_processing_payment(HONEST)
    await burn_gas(shop, EVIL)
    ended = await shop.run_to_end(first)
    assert ended.status == "succeeded"
    assert (await shop.get_item(payment)).failures == 1
    shop.lab.clock.advance(10)
    second = await shop.create_processing_payment(OTHER)
    await shop.turn()
    assert sorted(tx.item_ids for tx in await shop.transactions()) == sorted(
        [(payment.id,), (second.id,)]
    )
    ended = [await shop.run_to_end(item) for item in (payment, second)]
    assert [item.status for item in ended] == ["succeeded"] * 2


async def test_an_item_of_many_is_charged_its_share(shop):
    await make_gas_burners(shop, EVIL)
    await confirm_payment(shop, EVIL)
    for number in range(5):
        await shop.create_processing_payment(make_buyer(200 + number))
    await burn_gas(shop, EVIL)
    used = await get_budget_usage(shop)
    assert ONE < used.total_failed_gas < ONE_MAX


async def test_money_that_moves_away_between_trial_and_block(shop):
    await shop.lab.pause()
    await shop.lab.fund(HONEST)
    payment = await shop.create_processing_payment(HONEST)
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
    assert (await shop.get_item(payment)).failures == 1
    for _ in range(5):
        await advance_time(shop, 60)
    assert count_broadcasts(shop) == 1
    await send_first(shop, DEVNET.token.address, 0, mint(HONEST, held))
    await shop.mine()
    await advance_time(shop, 60)
    assert (await shop.run_to_end(payment)).status == "succeeded"


def mint(wallet: LocalAccount, value: int) -> bytes:
    words = wallet.address[2:].lower().rjust(64, "0") + f"{value:064x}"
    return bytes.fromhex("40c10f19" + words)


async def test_payer_settling_first_is_charged_for_the_failed_transaction(shop):
    await make_gas_burners(shop, EVIL)
    payment = await confirm_payment(shop, EVIL)
    await shop.turn()
    (sent,) = await shop.transactions()
    data = await shop.lab.control.call("eth_getTransactionByHash", sent.hash)
    await send_first(shop, DEVNET.settler, 0, bytes.fromhex(data["input"][2:]))
    await shop.mine()
    ended = await shop.run_to_end(payment)
    assert ended.status == "succeeded"
    assert ended.tx_id != sent.hash
    assert (await get_budget_usage(shop)).total_failed_gas > 0


async def test_reverted_transaction_of_many_payments_is_charged_to_no_payer(shop, caplog):
    paid = [await shop.create_processing_payment(make_buyer(300 + number)) for number in range(4)]
    await shop.fault(kind="revert", times=1)
    await shop.turn()
    await shop.mine(3)
    items = [await shop.get_item(item) for item in paid]
    assert [(item.failures, item.isolated) for item in items] == [(0, True)] * 4
    assert "of 4 payments reverted as a whole; Florin sends each payment alone" in caplog.text
    await shop.restart()
    await advance_time(shop, 5)
    ended = [await shop.run_to_end(item) for item in paid]
    assert {item.status for item in ended} == {"succeeded"}
    assert len({item.tx_id for item in ended}) == 4
    used = await get_budget_usage(shop)
    assert used.total_failed_gas > 0
    assert not used.payers
