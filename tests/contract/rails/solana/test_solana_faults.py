"""Payments on Solana while the chain, its node or the buyer's balance fails them.

Each test ends with a check on the chain: money moved once for what succeeded, never for what
failed.
"""

from __future__ import annotations

import asyncio
import itertools
from dataclasses import replace
from typing import Any

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.db.engine.query import StoreUnavailable
from florin_server.domain.settlement.chain_txs import ChainTx
from florin_server.features.monitoring.service.system import get_status
from florin_server.money.ledger.store import ledger
from florin_server.money.settlement.store import chain_txs, settlement_items, token_accounts
from florin_server.rails.types import ChainHead, RailUnavailable
from florin_server.settings import EmbeddedSolanaSettings
from solders.keypair import Keypair

from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import ASSETS, SolanaNodeClient, SolanaTestWallet, make_time_step
from tests.support.solana_accounts import get_token_account, has_account, queue_accounts
from tests.support.solana_offers import PRICE, SolanaOffer, make_offer
from tests.support.until import wait_until
from tests.support.worker_turns import wait_next_turn

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLANA_DEVNET.chain_id
FINAL = 3
RECONCILE_S = 11


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    solana = EmbeddedSolanaSettings(slot_s=0, finalized_slots=FINAL)
    async with open_service(tmp_path_factory.mktemp("faults") / "home", solana=solana) as desk:
        # the first payment opens the merchant's account, and no other can be made beside it
        chain = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        first = await make_offer(desk.rest, SolanaTestWallet())
        await first.confirm()
        assert await ended(desk, chain, first) == "succeeded"
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def node(desk: ServiceHarness):
    node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    yield node
    await node.fault("clear")


@pytest_asyncio.fixture(loop_scope="module")
async def offer(desk: ServiceHarness) -> SolanaOffer:
    return await make_offer(desk.rest, SolanaTestWallet(), expiresAt=desk.now + 86_400)


async def unfinished(desk: ServiceHarness) -> list[ChainTx]:
    """Return the transactions that have not ended."""
    app = desk.service.app
    (relayer,) = app.rails[SOLANA_DEVNET.chain_id].senders
    return await app.store.read(chain_txs.list_open(SOLANA_DEVNET.chain_id, relayer))


async def ended(
    desk: ServiceHarness, node: SolanaNodeClient, offer: SolanaOffer, slots: int = 1
) -> str:
    """Let slots and time pass until the payment is final; check the books and the journal."""

    async def end() -> str:
        status: str = (await offer.status())["status"]
        going_on = status in {"requires_action", "processing"} or await unfinished(desk)
        return "" if going_on else status

    status: str = await wait_until(
        end, meanwhile=make_time_step(desk, node, slots=slots, seconds=RECONCILE_S)
    )
    assert await desk.service.app.store.read(ledger.check()) == []
    return status


async def journaled(desk: ServiceHarness, count: int) -> None:
    """Return once so many transactions are journaled, which no API reports."""

    async def written() -> int:
        return len(await unfinished(desk))

    await wait_until(written, count)


async def paid(node: SolanaNodeClient, offer: SolanaOffer) -> int:
    return 10_000 * 10**6 - await node.balance(offer.wallet.address)


async def test_a_payment_is_final_at_final_depth_and_not_before(desk, node, offer):
    merchant = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
    before = await node.balance(merchant)
    await offer.confirm()
    await wait_until(lambda: node.balance(merchant), before + PRICE)
    settler = desk.service.app.settlers[SOLANA_DEVNET.chain_id]
    for _ in range(FINAL - 1):
        await wait_next_turn(settler, make_time_step(desk, node, slots=0))
        assert (await offer.status())["status"] == "processing"
        await node.fault("slots", slots=1)
    assert await ended(desk, node, offer) == "succeeded"
    assert await paid(node, offer) == PRICE


async def test_time_alone_ends_nothing(desk, node, offer):
    await node.fault("landing", paused=True)
    await offer.confirm()
    settler = desk.service.app.settlers[SOLANA_DEVNET.chain_id]
    for _ in range(5):
        await wait_next_turn(settler, make_time_step(desk, node, slots=0, seconds=86_400))
    assert (await offer.status())["status"] == "processing"
    await node.fault("clear")
    assert await ended(desk, node, offer) == "succeeded"
    assert await paid(node, offer) == PRICE


async def test_a_transaction_that_never_lands_fails_the_payment_once_it_lapsed(desk, node, offer):
    await node.fault("landing", paused=True)
    await offer.confirm()
    assert await ended(desk, node, offer, slots=20) == "failed"
    await node.fault("clear")
    assert await paid(node, offer) == 0
    detail = await desk.rest.detail(offer.payment_id)
    assert (detail["status"], detail["info"]) == ("failed", None)


async def test_a_balance_that_is_gone_when_it_lands_fails_the_payment(desk, node, offer):
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    await journaled(desk, 1)
    await node.spend(offer.wallet, 10_000 * 10**6 - PRICE + 1, after={"kind": "clear"})
    assert await ended(desk, node, offer, slots=2) == "failed"
    assert await node.balance(offer.wallet.address) == PRICE - 1


@pytest.mark.parametrize("effect", ["drop", "error", "late_error"])
async def test_money_moves_once_for_any_failure_during_send(desk, node, offer, effect):
    await node.fault("answer", method="sendTransaction", effect=effect, times=2)
    await offer.confirm()
    assert await ended(desk, node, offer, slots=2) == "succeeded"
    assert await paid(node, offer) == PRICE


async def test_a_node_that_denies_everything_delays_and_loses_nothing(desk, node, offer):
    lie = {"context": {"slot": 10**6}, "value": [None]}
    await node.fault("answer", method="getSignatureStatuses", effect="lie", result=lie, times=8)
    await node.fault("answer", method="getTransaction", effect="null", times=2)
    await offer.confirm()
    assert await ended(desk, node, offer) == "succeeded"
    assert await paid(node, offer) == PRICE


async def test_second_payment_without_funds_fails(desk, node):
    wallet = SolanaTestWallet()
    first, second = [
        await make_offer(desk.rest, wallet, expiresAt=desk.now + 86_400) for _ in range(2)
    ]
    await node.spend(wallet, 10_000 * 10**6 - PRICE - PRICE // 2)
    await first.fetch()
    await second.fetch()
    await node.fault("landing", paused=True)
    await first.confirm()
    # both would settle, each alone
    assert (await second.confirm())["status"] == "processing"
    await journaled(desk, 2)
    await node.fault("clear")
    assert await ended(desk, node, first) == "succeeded"
    assert await ended(desk, node, second, slots=20) == "failed"
    assert await node.balance(wallet.address) == PRICE // 2


async def test_payments_that_waited_together_are_settled_each_alone(desk, node):
    (relayer,) = desk.service.app.rails[SOLANA_DEVNET.chain_id].senders
    executor = desk.service.app.executors[f"{SOLANA_DEVNET.chain_id}:{relayer}"]
    offers = [await make_offer(desk.rest, SolanaTestWallet()) for _ in range(3)]
    executor.pause()
    for offer in offers:
        await offer.confirm()
    executor.resume()
    assert [await ended(desk, node, offer) for offer in offers] == ["succeeded"] * 3
    details = [(await offer.status())["info"]["txId"] for offer in offers]
    assert len(set(details)) == 3
    assert [await paid(node, offer) for offer in offers] == [PRICE] * 3


async def test_payment_final_after_its_lookup_is_not_sent_again(desk, node, offer, monkeypatch):
    app = desk.service.app
    settler, rail = app.settlers[SOLANA_DEVNET.chain_id], app.rails[SOLANA_DEVNET.chain_id]
    find, mined, seen = (
        rail.observer.find_settlement_events,
        rail.observer.find_mined,
        asyncio.Event(),
    )
    released = []

    async def late(items):
        return await find(items) if seen.is_set() else []

    async def find_mined(hashes):
        result = await mined(hashes)
        if result:
            seen.set()
        return result

    async def nothing():
        pass

    release = settlement_items.release
    monkeypatch.setattr(
        settlement_items,
        "release",
        lambda *arguments: released.append(arguments) or release(*arguments),
    )
    monkeypatch.setattr(rail.observer, "find_settlement_events", late)
    monkeypatch.setattr(rail.observer, "find_mined", find_mined)
    # only the full comparison asks, and it looks for payments first
    monkeypatch.setattr(settler, "_find_paid", nothing)
    await offer.confirm()
    await journaled(desk, 1)
    assert await ended(desk, node, offer) == "succeeded"
    assert released == []


async def test_pruned_node_ends_no_payment_and_is_reported(desk, node, offer):
    await node.fault("answer", method="sendTransaction", effect="error", times=100_000)
    await offer.confirm()
    await journaled(desk, 1)
    await node.fault("slots", slots=2_000)
    await node.fault("prune")

    async def is_reported() -> bool:
        (chain,) = [
            status
            for status in (await get_status(desk.service.app)).chains
            if status.chain_id == CHAIN
        ]
        return "no longer has blocks that may contain our transactions" in chain.problem

    await wait_until(
        is_reported, meanwhile=make_time_step(desk, node, slots=1, seconds=RECONCILE_S)
    )
    assert (await offer.status())["status"] == "processing"
    assert len(await unfinished(desk)) == 1
    # a node with the full history is asked
    await node.fault(
        "answer", method="getFirstAvailableBlock", effect="lie", result=0, times=100_000
    )
    assert await ended(desk, node, offer) == "failed"
    assert await paid(node, offer) == 0
    # a node is not asked about blocks close to those it has pruned, and other checks do not wait
    await node.fault("slots", slots=2_000)


async def unheard(*_) -> None:
    raise RailUnavailable("1 endpoints answer, but 2 must agree")


async def test_signed_payment_is_sent_while_too_few_nodes_agree(desk, node, offer, monkeypatch):
    """No payment ends then; but a blockhash lapses in a minute, regardless of the quorum."""
    settler, rail = desk.service.app.settlers[CHAIN], desk.service.app.rails[CHAIN]
    head, looks = rail.observer.get_head, itertools.count(1)
    ahead = 0

    async def moving() -> ChainHead:
        nonlocal ahead
        ahead = next(looks)
        real = await head()
        return replace(real, number=real.number + ahead)

    with monkeypatch.context() as nodes:
        # each poll has news, and no quorum to interpret it
        nodes.setattr(rail.observer, "get_head", moving)
        nodes.setattr(rail.observer, "find_mined", unheard)
        nodes.setattr(rail.relay, "list_shortages", unheard)
        await offer.confirm()
        await journaled(desk, 1)
        assert (await offer.status())["status"] == "processing"
        # it is sent first, and its consequences are checked in the same turn
        await wait_until(lambda: "must agree" in settler.health().problem)
    await node.fault("slots", slots=ahead)
    assert await ended(desk, node, offer) == "succeeded"


async def test_a_settler_starts_while_too_few_nodes_agree(desk, node, offer, monkeypatch):
    app = desk.service.app
    settler = app.settlers[CHAIN]

    async def down(_: Any) -> None:
        raise StoreUnavailable("no such disk")

    with monkeypatch.context() as nodes:
        nodes.setattr(app.rails[CHAIN].relay, "list_shortages", unheard)
        with monkeypatch.context() as disk:
            # it starts anew after that
            disk.setattr(app.store, "read", down)
            disk.setattr(app.store, "write", down)
            await wait_until(lambda: "no such disk" in settler.health().problem)
        await offer.confirm()
        await journaled(desk, 1)
    assert await ended(desk, node, offer) == "succeeded"


@pytest.mark.parametrize("error", [ValueError("no"), RailUnavailable("no")])
async def test_opening_is_tried_again_within_seconds_where_a_look_failed(
    desk, node, monkeypatch, error
):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    failed, expected = asyncio.Event(), token_accounts.list_pending

    def fails_once(*args):
        if not failed.is_set():
            failed.set()
            raise error
        return expected(*args)

    monkeypatch.setattr(token_accounts, "list_pending", fails_once)
    await queue_accounts(desk, tenant, dest, ASSETS[0])
    await failed.wait()
    await wait_until(
        lambda: has_account(node, get_token_account(dest)),
        meanwhile=make_time_step(desk, node, seconds=1),
    )
