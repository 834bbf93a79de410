"""Buyers who sign slowly: durable nonces from their making to their second use, through REST."""

from __future__ import annotations

import asyncio
import base64

import pytest
import pytest_asyncio
from florin.v1 import system_pb2
from florin_server.chains.solana import spl
from florin_server.config import EmbeddedSolana
from florin_server.devnet.solana import SOLNET
from florin_server.domain.conditions import ConditionName
from florin_server.domain.ledger import accounts
from florin_server.rails.solana.sending import durable_nonces
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.store.ledger import ledger
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from tests.support.desk import opened
from tests.support.installation import operator_of
from tests.support.service import NO_LIMITS
from tests.support.solana import (
    AT_ONCE,
    COIN,
    SolanaNode,
    SolanaWallet,
    exact,
    passing,
    rebuilt,
    steps,
    transaction_of,
    wire,
)
from tests.support.solana_durable import free, is_durable
from tests.support.solana_guards import lamports
from tests.support.solana_offers import PRICE, offered, refusal
from tests.support.turns import one_more_turn
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLNET.chain_id
ONE_NONCE = AT_ONCE.model_copy(update={"durable_nonces": 1})


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("nonces") / "home", solana=ONE_NONCE) as desk:
        # the first payment opens the merchant's account, and none can be made beside it
        first = await offered(desk.rest, SolanaWallet())
        await first.confirm()
        assert (await first.final())["status"] == "succeeded"
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def node(desk) -> SolanaNode:
    node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    await until(lambda: free(desk), meanwhile=passing(desk, node))
    return node


@pytest.fixture
def wallet() -> SolanaWallet:
    return SolanaWallet()


async def test_a_wallet_that_signs_after_three_hundred_blockhashes_pays_once(desk, node, wallet):
    (value,) = free(desk)
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)
    message = transaction_of(offer.action).message
    assert str(message.recent_blockhash) == value
    nonce = steps(message)[0].accounts[0].pubkey
    assert free(desk) == []
    merchant = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    before = await node.balance(merchant)
    await node.fault("slots", slots=300)
    again = offer.action
    assert await offer.fetch() == again
    await offer.confirm()
    ended = await offer.final()
    assert ended["status"] == "succeeded"
    assert await node.balance(merchant) == before + PRICE

    # whoever sends it again is refused, and moves nothing
    found = await node.ask(
        "getTransaction",
        ended["info"]["txId"],
        {"encoding": "base64", "maxSupportedTransactionVersion": 0},
    )
    sent = VersionedTransaction.from_bytes(base64.b64decode(found["transaction"][0]))
    assert nonce in sent.message.account_keys
    told = await node.refusal("sendTransaction", found["transaction"][0], {"encoding": "base64"})
    assert told["data"]["err"] == "AlreadyProcessed"
    assert await node.balance(merchant) == before + PRICE

    # the nonce has another value, and serves the next
    await until(lambda: free(desk), meanwhile=passing(desk, node))
    (freed,) = free(desk)
    assert freed != value
    other = await offered(desk.rest, SolanaWallet())
    assert str(transaction_of(other.action).message.recent_blockhash) == freed
    await other.confirm()
    assert (await other.final())["status"] == "succeeded"
    assert await node.balance(merchant) == before + 2 * PRICE
    await exact(desk, node)


async def test_buyer_who_takes_ten_minutes_at_fast_slots_pays(desk, node, wallet):
    offer = await offered(desk.rest, wallet, expiresAt=desk.now + 3600)
    assert is_durable(offer)
    output = offer.output
    desk.clock.advance(600)
    await node.fault("slots", slots=int(600 / 0.214))
    await offer.confirm(output)
    assert (await offer.final())["status"] == "succeeded"
    await until(lambda: free(desk), meanwhile=passing(desk, node))


async def test_who_comes_while_none_is_free_gets_a_blockhash(desk, node, wallet):
    first = await offered(desk.rest, wallet)
    second = await offered(desk.rest, SolanaWallet())
    assert (is_durable(first), is_durable(second)) == (True, False)
    for offer in (second, first):
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"


async def test_many_who_come_at_once_get_one_nonce_each(desk, node):
    made = await asyncio.gather(*(offered(desk.rest, SolanaWallet()) for _ in range(5)))
    assert sum(is_durable(offer) for offer in made) == 1
    for offer in made:
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
    await exact(desk, node)


async def test_a_payment_that_ends_soon_does_not_keep_a_nonce(desk, node, wallet):
    offer = await offered(desk.rest, wallet, expiresAt=desk.now + 29)
    assert not is_durable(offer)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_nonce_that_was_left_is_advanced_and_what_was_signed_with_it_is_dead(
    desk, node, wallet
):
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)
    late = VersionedTransaction.from_bytes(base64.b64decode(offer.output))
    left_at = desk.now
    cancelled = f"/v1/payments/{offer.payment_id}/cancel"
    await desk.rest.call("POST", cancelled, desk.rest.merchant, {})
    await until(lambda: free(desk), meanwhile=passing(desk, node))
    # soon, and not when the payment would have expired
    assert desk.now - left_at < 300
    assert free(desk) != [str(late.message.recent_blockhash)]
    relayer = SolanaSigner(desk.service.secrets.solana_relayer_seed)
    whole = base64.b64encode(relayer.co_sign(late.message, late.signatures[1]).raw).decode()
    told = await node.refusal("sendTransaction", whole, {"encoding": "base64"})
    assert told["data"]["err"] == "BlockhashNotFound"
    assert await node.balance(wallet.address) == 10_000 * 10**6
    await exact(desk, node)


async def test_a_payment_whose_money_is_gone_fails_and_frees_its_nonce(desk, node, wallet):
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)
    # what is broadcast gets lost, and the buyer spends the money meanwhile
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    await until(
        lambda: desk.select("SELECT 1 FROM chain_tx WHERE state = 'sent'"),
        meanwhile=passing(desk, node),
    )
    await node.spend(wallet, 10_000 * 10**6 - PRICE + 1, after={"kind": "clear"})
    watching = asyncio.create_task(offer.final())
    await until(watching.done, meanwhile=passing(desk, node))
    assert (await watching)["status"] == "failed"
    await until(lambda: free(desk), meanwhile=passing(desk, node))
    assert await node.balance(wallet.address) == PRICE - 1
    await exact(desk, node)


async def test_guards_come_behind_a_nonce(desk, node, wallet):
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)
    message = transaction_of(offer.action).message
    own = steps(message)
    guard = type(own[0])(spl.LIGHTHOUSE, b"\x0enote", [])
    error = await refusal(offer.confirm(wallet.sign(rebuilt(message, [guard, *own]))))
    assert error.details["reason"] == "transaction_mismatch"
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_wallet_that_cannot_keep_a_nonce_first_gets_a_blockhash(desk, node, wallet):
    """It puts its guard in front, where the chain takes no nonce any more."""
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)

    def guarded() -> str:
        message = transaction_of(offer.action).message
        guard = lamports(message.account_keys[1], 0)
        return wallet.sign(rebuilt(message, [guard, *steps(message)]))

    error = await refusal(offer.confirm(guarded()))
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
    await until(lambda: free(desk), meanwhile=passing(desk, node))
    await exact(desk, node)


async def test_nobody_but_the_payer_takes_its_nonce_away(desk, node, wallet):
    offer = await offered(desk.rest, wallet)
    assert is_durable(offer)
    message, first = transaction_of(offer.action).message, offer.action
    changed = rebuilt(message, [lamports(message.account_keys[1], 0), *steps(message)])
    own = SolanaWallet()
    forged = VersionedTransaction.populate(
        changed.message, [Signature.default(), own.key.sign_message(b"whatever it is")]
    )
    for output in (wire(changed), wire(forged)):
        error = await refusal(offer.confirm(output))
        assert error.details == {"reason": "transaction_mismatch"}
    assert await offer.fetch() == first
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    await until(lambda: free(desk), meanwhile=passing(desk, node))


async def test_nonces_are_made_once_whatever_happens(tmp_path):
    home = tmp_path / "home"
    two = AT_ONCE.model_copy(update={"durable_nonces": 2})
    async with opened(home, solana=two) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await until(lambda: len(free(desk)) == 2, meanwhile=passing(desk, node))
        addresses = desk.select("SELECT address FROM nonce_account")
        sent = desk.select("SELECT hash FROM chain_tx")
    async with opened(home, solana=two) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        settler = desk.service.app.settlers[SOLNET.chain_id]
        for _ in range(3):
            await one_more_turn(settler, passing(desk, node))
        assert desk.select("SELECT address FROM nonce_account") == addresses
        assert desk.select("SELECT hash FROM chain_tx") == sent
        spent = await desk.service.app.store.read(ledger.balance(accounts.RENT, COIN))
        assert spent >= 2 * 1_447_680
        await exact(desk, node)


# ---- slots of 214 ms, by the clock


def at_fast_slots(**changes) -> EmbeddedSolana:
    """A cluster as mainnet is since October 2026: final a slot later, a blockhash lasts 32 s."""
    fast = {"slot_s": 0.214, "finalized_slots": 1, "takes_confirmed": False}
    return EmbeddedSolana(**fast, **changes)


def ticking(desk, seconds: float = 1):
    async def move() -> None:
        desk.clock.advance(seconds)

    return move


async def paid(desk, offer) -> str:
    watching = asyncio.create_task(offer.final())
    await until(watching.done, meanwhile=ticking(desk))
    return (await watching)["status"]


async def test_buyer_who_takes_25_s_at_fast_slots_pays_without_a_nonce(tmp_path, wallet):
    async with opened(tmp_path / "home", solana=at_fast_slots()) as desk:
        # neither at once, nor after another fetch a while later
        for waits_s in (0, 2, 20):
            offer = await offered(desk.rest, SolanaWallet())
            desk.clock.advance(waits_s)
            await offer.fetch()
            assert not is_durable(offer)
            output = offer.output
            desk.clock.advance(25)
            await offer.confirm(output)
            assert await paid(desk, offer) == "succeeded"
        # a blockhash lasts 32 s, and the next fetch has another one
        offer = await offered(desk.rest, wallet)
        output = offer.output
        desk.clock.advance(33)
        error = await refusal(offer.confirm(output))
        assert (error.http, error.code) == (409, "quote_expired")
        await offer.fetch()
        await offer.confirm()
        assert await paid(desk, offer) == "succeeded"


async def test_buyer_who_takes_ten_minutes_by_the_clock_pays_with_a_nonce(tmp_path, wallet):
    async with opened(tmp_path / "home", solana=at_fast_slots(durable_nonces=4)) as desk:
        await until(lambda: len(free(desk)) == 4, meanwhile=ticking(desk, 5))
        # nor does a merchant without a token account take the nonce away
        offer = await offered(desk.rest, wallet)
        assert is_durable(offer)
        output = offer.output
        desk.clock.advance(600)
        await offer.confirm(output)
        assert await paid(desk, offer) == "succeeded"


# ---- who gets one


async def test_relayer_that_cannot_pay_for_nonces_goes_on_with_blockhashes(
    tmp_path, wallet, monkeypatch
):
    monkeypatch.setattr(durable_nonces, "RESERVE_LAMPORTS", 10**15)
    solana = AT_ONCE.model_copy(update={"durable_nonces": 4})
    async with opened(tmp_path / "home", solana=solana) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        settler = desk.service.app.settlers[CHAIN]

        missing = ConditionName.DURABLE_NONCES_MISSING

        def shortage() -> str:
            (found,) = [one for one in settler.health().conditions if one.name is missing]
            return found.reason

        await until(shortage, meanwhile=passing(desk, node))
        assert "4 durable nonces are missing" in shortage()
        assert desk.select("SELECT 1 FROM nonce_account") == []
        offer = await offered(desk.rest, wallet)
        assert not is_durable(offer)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        # the operator is told, and it is no fault
        async with operator_of(desk.service) as operator:
            status = await operator.ask("GetSystemStatus", system_pb2.GetSystemStatusRequest())
        (chain,) = [one for one in status.chains if one.chain_id == CHAIN]
        assert chain.problem == ""
        assert [one.reason for one in chain.conditions if one.name == missing] == [shortage()]
        monkeypatch.undo()
        await until(lambda: len(free(desk)) == 4, meanwhile=passing(desk, node))
        await until(lambda: not shortage(), meanwhile=passing(desk, node))
        assert is_durable(await offered(desk.rest, SolanaWallet()))
        await exact(desk, node)


async def test_caller_who_took_its_nonces_of_an_hour_gets_blockhashes(tmp_path):
    solana = AT_ONCE.model_copy(update={"durable_nonces": 4})
    limits = NO_LIMITS.model_copy(update={"nonce_address_per_hour": 2, "nonce_key_per_hour": 2})
    async with opened(tmp_path / "home", solana=solana, limits=limits) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await until(lambda: len(free(desk)) == 4, meanwhile=passing(desk, node))
        for durable in (True, True, False, False):
            offer = await offered(desk.rest, SolanaWallet())
            assert is_durable(offer) is durable
            # fetching again takes no other one
            assert await offer.fetch() == offer.action
            await offer.confirm()
            assert (await offer.final())["status"] == "succeeded"
            await until(lambda: len(free(desk)) == 4, meanwhile=passing(desk, node))
        desk.clock.advance(3600)
        assert is_durable(await offered(desk.rest, SolanaWallet()))
