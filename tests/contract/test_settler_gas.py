"""Accounts that accept when they are tried and burn gas on the chain: what they cost is bounded.

A relayer loses the gas of three transactions a payment at most, and of a budget's worth an hour.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from eth_account import Account
from eth_account.signers.local import LocalAccount
from florin_server.config import FailedGasSettings
from florin_server.devnet.evm import DEVNET
from florin_server.domain.account import WalletApp
from florin_server.domain.errors import FlorinError
from florin_server.domain.journal import PayerKind
from florin_server.domain.payment import Payment
from florin_server.flows import budgets, system
from florin_server.flows.app import Caller
from florin_server.flows.confirm import confirm
from florin_server.flows.create import NewPayment, create
from florin_server.flows.options import options
from florin_server.rails.evm.rail import EvmRail
from florin_server.store import gas
from florin_server.store.gas import Usage

from tests.contract.evm_lab import (
    ACCEPTS_ALL,
    RELAYER,
    account_of,
    asset,
    buyer,
    refuse,
    settings,
    signed,
)
from tests.contract.settler_lab import BUYER, CHAIN, SHOP, Works, works
from tests.support.hostile import (
    BURNS_FOR_A_PRICE,
    SWITCHED,
    burns_from,
    burns_when_rich,
)
from tests.support.smart import UNIVERSAL, made_by, smart

EVIL, OTHER, HONEST = buyer(66), buyer(67), buyer(68)
TTL_S = 7200
# one payment by an account with code, and what comes with it
ONE = 300_000
ONE_MAX = 600_000
SAFE = bytes.fromhex("5a" * 20)


@pytest.fixture
async def shop(tmp_path) -> AsyncIterator[Works]:
    async with works(tmp_path) as running:
        yield running


def wallet_app(name: str) -> Caller:
    return Caller(live=False, app=WalletApp(name, name, None, False, "2026-02-18", 0))


def budget(shop: Works, **most: int) -> None:
    """Budgets that a few payments exhaust."""
    plenty = dict.fromkeys(("payer", "app", "chain", "opened_app", "opened_chain"), 10**9)
    shop.app.settings.__dict__["failed_gas"] = FailedGasSettings.model_construct(**plenty | most)


async def accepted(shop: Works, wallet: LocalAccount, caller: Caller = BUYER) -> Payment:
    """A payment of a wallet with code, or of a plain one, that an app confirmed."""
    return await handed_in(shop, wallet, await offered(shop, account_of(wallet), caller), caller)


async def handed_in(shop: Works, wallet: LocalAccount, offer: Any, caller: Caller) -> Payment:
    made, option = offer
    return await confirm(shop.app, caller, made.id, option.id, [[signed(wallet, option)]])


async def offered(shop: Works, account: str, caller: Caller = BUYER) -> Any:
    """A new payment, and its option for an account."""
    expires_at = shop.lab.clock.now_us() // 1_000_000 + TTL_S
    wanted = NewPayment("iso4217/USD", "150", expires_at=expires_at)
    made = await create(shop.app, BUYER, SHOP, wanted, lambda _: b"")
    assert isinstance(made, Payment)
    (option,) = (await options(shop.app, caller, made.id, [account])).options
    return made, option


async def refusal(awaited: Any) -> FlorinError:
    with pytest.raises(FlorinError) as caught:
        await awaited
    return caught.value


async def push(shop: Works, to: str, value: int = 0, data: bytes = b"") -> None:
    """Sends a transaction of the faucet that comes first in the next block."""
    nonce = await shop.lab.control.call("eth_getTransactionCount", DEVNET.faucet, "pending")
    fields = {
        "chainId": DEVNET.chain_id,
        "nonce": int(nonce, 16),
        "gas": 200_000,
        "maxFeePerGas": 10**12,
        "maxPriorityFeePerGas": 10**11,
        "to": bytes.fromhex(to[2:]),
        "value": value,
        "data": data,
    }
    raw = Account.sign_transaction(fields, DEVNET.faucet_key).raw_transaction
    await shop.lab.control.call("eth_sendRawTransaction", "0x" + bytes(raw).hex())


async def switch(shop: Works, wallet: LocalAccount, *, burns: bool) -> None:
    await push(shop, wallet.address.lower(), int(burns))


async def burn(shop: Works, *wallets: LocalAccount) -> None:
    """What waits is sent, and fails: the accounts change between their trial and the block."""
    await shop.turn()
    for wallet in wallets:
        await switch(shop, wallet, burns=True)
    await shop.mine(3)
    for wallet in wallets:
        await switch(shop, wallet, burns=False)
    await shop.mine()


async def evil(shop: Works, *wallets: LocalAccount) -> None:
    """Accounts that burn gas when they are told to; blocks are sealed by hand from now on."""
    for wallet in wallets:
        await shop.lab.fund(wallet)
        await shop.lab.delegate(wallet, SWITCHED)
    await shop.lab.pause()


def broadcasts(shop: Works) -> int:
    return shop.lab.node.asked.count("eth_sendRawTransaction")


async def lost(shop: Works) -> Usage:
    since_us = budgets.hour_of(shop.lab.clock.now_us())
    most = shop.app.settings.failed_gas.payer
    return await shop.store.read(gas.usage(CHAIN, since_us, most))


async def wait(shop: Works, seconds: int) -> None:
    shop.lab.clock.advance(seconds)
    await shop.turn(2)


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


async def test_a_trial_is_what_will_be_signed(shop):
    await evil(shop, EVIL)
    await accepted(shop, EVIL)
    tried = []

    def note(params, answer):
        if params[0].get("to") == DEVNET.settler:
            tried.append(params)
        return answer

    shop.lab.node.changes["eth_call"] = note
    await shop.turn()
    (sent,) = await shop.transactions()
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
    await shop.lab.delegate(EVIL, burns_from((await shop.lab.rail.head()).number + 4))
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


# budgets


async def test_a_payer_that_lost_too_much_waits_for_the_next_hour(shop):
    await evil(shop, EVIL)
    budget(shop, payer=ONE)
    third = await offered(shop, account_of(EVIL))
    first = await accepted(shop, EVIL)
    shop.lab.clock.advance(1)
    second = await accepted(shop, EVIL)
    await shop.turn()
    # the second would overdraw the budget, should both fail
    (sent,) = await shop.transactions()
    assert sent.item_ids == (first.id,)
    await burn(shop, EVIL)
    await wait(shop, 61)
    assert broadcasts(shop) == 1
    assert shop.settler.health().paused == 2
    error = await refusal(handed_in(shop, EVIL, third, BUYER))
    assert (error.http, error.details["reason"]) == (503, "payer_paused")
    assert (await shop.now(third[0])).status == "requires_action"
    assert 0 < (error.retry_after_s or 0) <= 3600
    # others do not mind
    assert (await shop.end(await shop.accepted(HONEST))).status == "succeeded"
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    assert shop.settler.health().paused == 0
    for payment in (first, second):
        await shop.mine()
        await wait(shop, 5)
        assert (await shop.end(payment)).status == "succeeded"


async def test_an_app_that_lost_too_much_pauses_its_own_contract_accounts(shop, caplog):
    await evil(shop, EVIL, OTHER)
    budget(shop, app=ONE)
    bad, good = wallet_app("bad"), wallet_app("good")
    offer = await offered(shop, account_of(OTHER), bad)
    await accepted(shop, EVIL, bad)
    await burn(shop, EVIL)
    error = await refusal(handed_in(shop, OTHER, offer, bad))
    assert (error.http, error.details["reason"]) == (503, "contract_accounts_paused")
    assert "of bad for failed gas is exhausted" in shop.settler.health().problem
    _, option = await offered(shop, account_of(OTHER), bad)
    assert option.method == "direct"
    paid = [await accepted(shop, OTHER, good), await accepted(shop, HONEST, bad)]
    assert [(await shop.end(one)).status for one in paid] == ["succeeded"] * 2
    told = [line for line in caplog.messages if "of bad for failed gas is exhausted" in line]
    await wait(shop, 100)
    assert len(told) == 1


async def test_a_chain_that_lost_too_much_pauses_contract_accounts_and_nobody_else(shop):
    await evil(shop, EVIL, OTHER)
    budget(shop, chain=ONE)
    good = wallet_app("good")
    offer = await offered(shop, account_of(OTHER), good)
    waiting = await accepted(shop, EVIL)
    await burn(shop, EVIL)
    await wait(shop, 61)
    error = await refusal(handed_in(shop, OTHER, offer, good))
    assert (error.http, error.details["reason"]) == (503, "contract_accounts_paused")
    # what is offered instead is a transaction of the account's own
    _, option = await offered(shop, account_of(OTHER))
    assert option.method == "direct"
    _, option = await offered(shop, account_of(HONEST))
    assert option.method == "eip3009"
    assert (await shop.end(await shop.accepted(HONEST))).status == "succeeded"
    assert await shop.transactions() == []
    (chain,) = await system.chains(shop.app)
    assert (chain.gas.failed >= ONE, chain.gas.paused, chain.gas.given_up) == (True, 1, 0)
    assert "payments of accounts with code are paused until 09:00 UTC" in chain.problem
    await shop.restart()
    budget(shop, chain=ONE)
    await refusal(handed_in(shop, OTHER, offer, good))
    shop.lab.clock.advance(3600)
    await shop.turn(2)
    later = await handed_in(shop, OTHER, offer, good)
    for payment in (waiting, later):
        # one after the other fits into the budget
        await shop.mine(3)
        await wait(shop, 5)
        assert (await shop.end(payment)).status == "succeeded"


async def test_no_more_is_on_its_way_than_a_budget_covers(shop):
    """Accounts that fail together lose no more than those that fail one after the other."""
    crowd = [buyer(400 + number) for number in range(8)]
    await evil(shop, *crowd)
    budget(shop, chain=4 * ONE_MAX)
    for wallet in crowd:
        await accepted(shop, wallet)
    honest = await shop.accepted(HONEST)
    for _ in range(8):
        await burn(shop, *crowd)
        await wait(shop, 61)
    assert (await lost(shop)).failed < 5 * ONE_MAX
    assert (await shop.end(honest)).status == "succeeded"


# accounts that are created


async def creating(shop: Works) -> str:
    """Lets accounts be created, also by a factory that creates whatever it is told to."""
    universal = await shop.lab.deploy(UNIVERSAL)
    factories = (DEVNET.wallet_factory, universal)
    chosen = settings(opener=DEVNET.opener, factories=factories, assets=(asset(),))
    shop.lab.rail = EvmRail(chosen, RELAYER, shop.lab.node)
    await shop.lab.rail.start()
    await shop.restart()
    return universal


async def unborn(shop: Works, account: Any, caller: Caller = BUYER) -> Payment:
    made, option = await offered(shop, account_of(account.address), caller)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    output = json.dumps(account.wrap(document))
    return await confirm(shop.app, caller, made.id, option.id, [[output]])


async def test_creating_an_account_for_a_payment_that_fails_is_lost_gas(shop):
    universal = await creating(shop)
    target = "0x" + "77" * 20
    account = made_by(universal, EVIL, burns_when_rich(target))
    await shop.lab.pause()
    payment = await unborn(shop, account)
    await shop.turn()
    (sent,) = await shop.transactions()
    assert sent.shares[0].kind is PayerKind.UNBORN
    await push(shop, target, 1)
    await shop.mine(4)
    assert (await shop.item(payment)).failures == 1
    used = await lost(shop)
    assert (used.failed > ONE, used.opened) == (True, 0)
    await shop.restart()
    assert (await shop.item(payment)).failures == 1
    await wait(shop, 61)
    assert await shop.transactions() == []


async def test_accounts_that_are_created_have_a_budget_of_their_own(shop):
    await creating(shop)
    budget(shop, opened_app=200_000)
    mine, other = wallet_app("mine"), wallet_app("other")
    paid = await unborn(shop, smart(EVIL, 1), mine)
    assert (await shop.end(paid)).status == "succeeded"
    used = await lost(shop)
    assert (used.failed, 200_000 < used.opened < 500_000) == (0, True)
    error = await refusal(unborn(shop, smart(EVIL, 2), mine))
    assert (error.http, error.details["reason"]) == (503, "account_creation_paused")
    assert "of mine for creating accounts is exhausted" in shop.settler.health().problem
    assert (await shop.end(await unborn(shop, smart(EVIL, 2), other))).status == "succeeded"
    # an account that exists costs nothing to create
    known = smart(EVIL, 1)
    made, option = await offered(shop, account_of(known.address), mine)
    document = json.loads(json.loads(option.actions[-1].params_json)[1])
    again = await confirm(shop.app, mine, made.id, option.id, [[json.dumps(known.sign(document))]])
    assert (await shop.end(again)).status == "succeeded"
    budget(shop, opened_chain=200_000)
    error = await refusal(unborn(shop, smart(EVIL, 3), other))
    assert error.details["reason"] == "account_creation_paused"


async def test_what_was_lost_long_ago_is_deleted(shop):
    await evil(shop, EVIL)
    await accepted(shop, EVIL)
    await burn(shop, EVIL)
    now_us = shop.lab.clock.now_us()
    assert await shop.store.write(gas.forget(now_us - 1_000_000, 10)) == 0
    assert (await lost(shop)).failed
    assert await shop.store.write(gas.forget(now_us + 1, 10)) == 1
    assert (await lost(shop)).failed == 0
