"""Buyers who sign slowly: durable nonces from creation to second use, over REST."""

from __future__ import annotations

import asyncio
import base64

import pytest
import pytest_asyncio
from florin.v1 import system_pb2
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.chains.solana import spl
from florin_server.domain.conditions import ConditionName
from florin_server.domain.ledger import accounts
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import settlement_items
from florin_server.rails.solana.paying.message import build_lapse_note, compile_message
from florin_server.rails.solana.reading.node import RecentBlockhash
from florin_server.rails.solana.sending import durable_nonces
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.types import SignedTransaction
from florin_server.settings import EmbeddedSolanaSettings
from solders.hash import Hash
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from tests.support.installation import open_operator
from tests.support.service import NO_LIMITS
from tests.support.service_harness import open_service
from tests.support.solana import (
    COIN,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    encode_transaction,
    get_transaction,
    list_instructions,
    make_time_step,
    rebuild_transaction,
    wait_exact,
)
from tests.support.solana_durable import is_durable, list_free_nonces
from tests.support.solana_guards import make_lamports_guard
from tests.support.solana_offers import PRICE, get_refusal, make_offer
from tests.support.until import advance, wait_until
from tests.support.worker_turns import wait_next_turn

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLANA_DEVNET.chain_id
ONE_NONCE = INSTANT_SOLANA.model_copy(update={"durable_nonces": 1})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("nonces") / "home", solana=ONE_NONCE) as desk:
        # the first payment opens the merchant's account, and no other can be made beside it
        first = await make_offer(desk.rest, SolanaTestWallet())
        await first.confirm()
        assert (await first.final())["status"] == "succeeded"
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def node(desk) -> SolanaNodeClient:
    node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    return node


@pytest.fixture
def wallet() -> SolanaTestWallet:
    return SolanaTestWallet()


async def test_a_wallet_that_signs_after_three_hundred_blockhashes_pays_once(desk, node, wallet):
    (value,) = list_free_nonces(desk)
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)
    message = get_transaction(offer.action).message
    assert str(message.recent_blockhash) == value
    nonce = list_instructions(message)[0].accounts[0].pubkey
    assert list_free_nonces(desk) == []
    merchant = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    before = await node.balance(merchant)
    await node.fault("slots", slots=300)
    again = offer.action
    assert await offer.fetch() == again
    await offer.confirm()
    ended = await offer.final()
    assert ended["status"] == "succeeded"
    assert await node.balance(merchant) == before + PRICE

    # resending it is refused, and moves nothing
    result = await node.ask(
        "getTransaction",
        ended["info"]["txId"],
        {"encoding": "base64", "maxSupportedTransactionVersion": 0},
    )
    sent = VersionedTransaction.from_bytes(base64.b64decode(result["transaction"][0]))
    assert nonce in sent.message.account_keys
    reported_result = await node.refusal(
        "sendTransaction", result["transaction"][0], {"encoding": "base64"}
    )
    assert reported_result["data"]["err"] == "AlreadyProcessed"
    assert await node.balance(merchant) == before + PRICE

    # the nonce has another value, and serves the next
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    (freed,) = list_free_nonces(desk)
    assert freed != value
    other = await make_offer(desk.rest, SolanaTestWallet())
    assert str(get_transaction(other.action).message.recent_blockhash) == freed
    await other.confirm()
    assert (await other.final())["status"] == "succeeded"
    assert await node.balance(merchant) == before + 2 * PRICE
    await wait_exact(desk, node)


async def test_buyer_with_ten_minutes_to_sign_at_fast_slots_pays(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet, expiresAt=desk.now + 3600)
    assert is_durable(offer)
    output = offer.output
    desk.clock.advance(600)
    await node.fault("slots", slots=int(600 / 0.214))
    await offer.confirm(output)
    assert (await offer.final())["status"] == "succeeded"
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))


async def test_buyer_without_a_free_nonce_gets_a_blockhash(desk, node, wallet):
    first = await make_offer(desk.rest, wallet)
    second = await make_offer(desk.rest, SolanaTestWallet())
    assert (is_durable(first), is_durable(second)) == (True, False)
    for offer in (second, first):
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"


async def test_free_nonce_is_assigned_to_a_single_concurrent_buyer(desk, node):
    solana_offers = await asyncio.gather(
        *(make_offer(desk.rest, SolanaTestWallet()) for _ in range(5))
    )
    assert sum(is_durable(offer) for offer in solana_offers) == 1
    for offer in solana_offers:
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
    await wait_exact(desk, node)


async def test_a_payment_that_ends_soon_does_not_keep_a_nonce(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet, expiresAt=desk.now + 29)
    assert not is_durable(offer)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_abandoned_nonce_is_advanced_and_its_signed_transaction_is_dead(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)
    late = VersionedTransaction.from_bytes(base64.b64decode(offer.output))
    left_at = desk.now
    cancelled = f"/v1/payments/{offer.payment_id}/cancel"
    await desk.rest.call("POST", cancelled, desk.rest.merchant, {})
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    # soon, and not when the payment would have expired
    assert desk.now - left_at < 300
    assert list_free_nonces(desk) != [str(late.message.recent_blockhash)]
    relayer = SolanaSigner(desk.service.secrets.solana_relayer_seed)
    total = base64.b64encode(relayer.co_sign(late.message, late.signatures[1]).raw).decode()
    result = await node.refusal("sendTransaction", total, {"encoding": "base64"})
    assert result["data"]["err"] == "BlockhashNotFound"
    assert await node.balance(wallet.address) == 10_000 * 10**6
    await wait_exact(desk, node)


async def test_a_payment_whose_money_is_gone_fails_and_frees_its_nonce(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)
    # the broadcast gets lost, and the buyer spends the money meanwhile
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    await wait_until(
        lambda: desk.select("SELECT 1 FROM chain_tx WHERE state = 'sent'"),
        meanwhile=make_time_step(desk, node),
    )
    await node.spend(wallet, 10_000 * 10**6 - PRICE + 1, after={"kind": "clear"})
    watching = asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=make_time_step(desk, node))
    assert (await watching)["status"] == "failed"
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    assert await node.balance(wallet.address) == PRICE - 1
    await wait_exact(desk, node)


async def test_guards_come_behind_a_nonce(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)
    message = get_transaction(offer.action).message
    own = list_instructions(message)
    guard = type(own[0])(spl.LIGHTHOUSE, b"\x0enote", [])
    error = await get_refusal(
        offer.confirm(wallet.sign(rebuild_transaction(message, [guard, *own])))
    )
    assert error.details["reason"] == "transaction_mismatch"
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_wallet_that_cannot_keep_a_nonce_first_gets_a_blockhash(desk, node, wallet):
    """It puts its guard in front, where the chain no longer accepts a nonce."""
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)

    def guarded() -> str:
        message = get_transaction(offer.action).message
        guard = make_lamports_guard(message.account_keys[1], 0)
        return wallet.sign(rebuild_transaction(message, [guard, *list_instructions(message)]))

    error = await get_refusal(offer.confirm(guarded()))
    assert error.details == {"reason": "transaction_mismatch"}
    await offer.fetch()
    assert not is_durable(offer)
    again = offer.action
    assert await offer.fetch() == again
    # nor does it take another nonce later
    await node.fault("slots", slots=100)
    await offer.fetch()
    assert offer.action != again
    assert not is_durable(offer)
    await offer.confirm(guarded())
    assert (await offer.final())["status"] == "succeeded"
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))
    await wait_exact(desk, node)


async def test_only_the_payer_can_use_its_nonce(desk, node, wallet):
    offer = await make_offer(desk.rest, wallet)
    assert is_durable(offer)
    message, first = get_transaction(offer.action).message, offer.action
    changed = rebuild_transaction(
        message, [make_lamports_guard(message.account_keys[1], 0), *list_instructions(message)]
    )
    own = SolanaTestWallet()
    forged = VersionedTransaction.populate(
        changed.message, [Signature.default(), own.key.sign_message(b"whatever it is")]
    )
    for output in (encode_transaction(changed), encode_transaction(forged)):
        error = await get_refusal(offer.confirm(output))
        assert error.details == {"reason": "transaction_mismatch"}
    assert await offer.fetch() == first
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    await wait_until(lambda: list_free_nonces(desk), meanwhile=make_time_step(desk, node))


async def test_nonce_accounts_are_created_once_despite_failures(tmp_path):
    home = tmp_path / "home"
    two = INSTANT_SOLANA.model_copy(update={"durable_nonces": 2})
    async with open_service(home, solana=two) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await wait_until(
            lambda: len(list_free_nonces(desk)) == 2, meanwhile=make_time_step(desk, node)
        )
        addresses = desk.select("SELECT address FROM nonce_account")
        sent = desk.select("SELECT hash FROM chain_tx")
    async with open_service(home, solana=two) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        settler = desk.service.app.settlers[SOLANA_DEVNET.chain_id]
        for _ in range(3):
            await wait_next_turn(settler, make_time_step(desk, node))
        assert desk.select("SELECT address FROM nonce_account") == addresses
        assert desk.select("SELECT hash FROM chain_tx") == sent
        spent = await desk.service.app.store.read(ledger.get_balance(accounts.RENT, COIN))
        assert spent >= 2 * 1_447_680
        await wait_exact(desk, node)


async def test_open_transfer_of_others_does_not_keep_an_abandoned_nonce(tmp_path, wallet):
    async with open_service(tmp_path / "home", solana=ONE_NONCE) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        step = make_time_step(desk, node)
        first = await make_offer(desk.rest, SolanaTestWallet())
        await first.confirm()
        assert (await first.final())["status"] == "succeeded"
        await wait_until(lambda: list_free_nonces(desk), meanwhile=step)
        # as a facilitator's: without items, and it never lands
        relayer = SolanaSigner(desk.service.secrets.solana_relayer_seed)
        never_known, last_valid = Hash.new_unique(), 10**9
        message = compile_message(relayer.pubkey, [build_lapse_note(last_valid)], never_known)
        signed = relayer.sign_transaction(message, RecentBlockhash(never_known, last_valid, 0))

        async def sign(nonce: int) -> SignedTransaction:
            return signed

        (queue,) = desk.service.app.settlers[CHAIN].context.senders.queues
        await queue.send([], sign, lambda: settlement_items.claim(()))
        offer = await make_offer(desk.rest, wallet)
        assert is_durable(offer)
        cancelled = f"/v1/payments/{offer.payment_id}/cancel"
        await desk.rest.call("POST", cancelled, desk.rest.merchant, {})
        await wait_until(lambda: list_free_nonces(desk), meanwhile=step)
        assert [tx.hash for tx in queue.list_without_items()] == [signed.hash]


# ---- slots of 214 ms, by the clock


def at_fast_slots(**changes) -> EmbeddedSolanaSettings:
    """Return a cluster as mainnet is since October 2026.

    It is final a slot later, and a blockhash lasts 32 s.
    """
    fast = {"slot_s": 0.214, "finalized_slots": 1, "takes_confirmed": False}
    return EmbeddedSolanaSettings(**fast, **changes)


def ticking(desk, seconds: float = 1):
    async def move() -> None:
        await advance(desk.clock, seconds)

    return move


async def paid(desk, offer) -> str:
    watching = asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=ticking(desk))
    return (await watching)["status"]


async def test_buyer_with_25_seconds_to_sign_at_fast_slots_pays_without_a_nonce(tmp_path, wallet):
    async with open_service(tmp_path / "home", solana=at_fast_slots()) as desk:
        # neither at once, nor after another fetch a while later
        for waits_s in (0, 2, 20):
            offer = await make_offer(desk.rest, SolanaTestWallet())
            desk.clock.advance(waits_s)
            await offer.fetch()
            assert not is_durable(offer)
            output = offer.output
            desk.clock.advance(25)
            await offer.confirm(output)
            assert await paid(desk, offer) == "succeeded"
        # a blockhash lasts 32 s, and the next fetch has another one
        offer = await make_offer(desk.rest, wallet)
        output = offer.output
        desk.clock.advance(33)
        error = await get_refusal(offer.confirm(output))
        assert (error.http, error.code) == (409, "quote_expired")
        await offer.fetch()
        await offer.confirm()
        assert await paid(desk, offer) == "succeeded"


async def test_buyer_with_ten_minutes_to_sign_pays_with_a_nonce(tmp_path, wallet):
    async with open_service(tmp_path / "home", solana=at_fast_slots(durable_nonces=4)) as desk:
        await wait_until(lambda: len(list_free_nonces(desk)) == 4, meanwhile=ticking(desk, 5))
        # nor does a merchant without a token account take the nonce away
        offer = await make_offer(desk.rest, wallet)
        assert is_durable(offer)
        output = offer.output
        desk.clock.advance(600)
        await offer.confirm(output)
        assert await paid(desk, offer) == "succeeded"


# ---- allocation


async def test_relayer_that_cannot_pay_for_nonces_continues_with_blockhashes(
    tmp_path, wallet, monkeypatch
):
    monkeypatch.setattr(durable_nonces, "RESERVE_LAMPORTS", 10**15)
    solana = INSTANT_SOLANA.model_copy(update={"durable_nonces": 4})
    async with open_service(tmp_path / "home", solana=solana) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        settler = desk.service.app.settlers[CHAIN]

        missing = ConditionName.DURABLE_NONCES_MISSING

        def shortage() -> str:
            (found_condition,) = [
                condition for condition in settler.health().conditions if condition.name is missing
            ]
            return found_condition.reason

        await wait_until(shortage, meanwhile=make_time_step(desk, node))
        assert "4 durable nonces are missing" in shortage()
        assert desk.select("SELECT 1 FROM nonce_account") == []
        offer = await make_offer(desk.rest, wallet)
        assert not is_durable(offer)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        # the operator is notified, and it is no fault
        async with open_operator(desk.service) as operator:
            status = await operator.call("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        (chain,) = [each_chain for each_chain in status.chains if each_chain.chain_id == CHAIN]
        assert chain.problem == ""
        assert [
            condition.reason for condition in chain.conditions if condition.name == missing
        ] == [shortage()]
        monkeypatch.undo()
        await wait_until(
            lambda: len(list_free_nonces(desk)) == 4, meanwhile=make_time_step(desk, node)
        )
        await wait_until(lambda: not shortage(), meanwhile=make_time_step(desk, node))
        assert is_durable(await make_offer(desk.rest, SolanaTestWallet()))
        await wait_exact(desk, node)


async def test_caller_above_its_hourly_nonce_limit_gets_blockhashes(tmp_path):
    solana = INSTANT_SOLANA.model_copy(update={"durable_nonces": 4})
    limits = NO_LIMITS.model_copy(update={"nonce_address_per_hour": 2, "nonce_key_per_hour": 2})
    async with open_service(tmp_path / "home", solana=solana, limits=limits) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await wait_until(
            lambda: len(list_free_nonces(desk)) == 4, meanwhile=make_time_step(desk, node)
        )
        for durable in (True, True, False, False):
            offer = await make_offer(desk.rest, SolanaTestWallet())
            assert is_durable(offer) is durable
            # fetching again takes no other one
            assert await offer.fetch() == offer.action
            await offer.confirm()
            assert (await offer.final())["status"] == "succeeded"
            await wait_until(
                lambda: len(list_free_nonces(desk)) == 4, meanwhile=make_time_step(desk, node)
            )
        desk.clock.advance(3600)
        assert is_durable(await make_offer(desk.rest, SolanaTestWallet()))
