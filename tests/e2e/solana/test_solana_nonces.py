"""Buyers who sign slowly: durable nonces from their making to their second use, through REST."""

from __future__ import annotations

import asyncio
import base64

import pytest
import pytest_asyncio
from florin_server.chains.solana import spl
from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.store.ledger import ledger
from solders.transaction import VersionedTransaction

from tests.support.desk import opened
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
)
from tests.support.solana_durable import free, is_durable
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
    offer = await offered(desk.rest, wallet, expiresAt=desk.now + 89)
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
    guard = type(own[0])(spl.LIGHTHOUSE, b"note", [])
    error = await refusal(offer.confirm(wallet.sign(rebuilt(message, [guard, *own]))))
    assert error.details["reason"] == "transaction_mismatch"
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


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
