"""The owner of a token account can close it and keep its rent: the relayer loses that only once.

Each test counts the relayer's balance, to the lamport.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from solders.keypair import Keypair

from tests.support.merchant_tenant import set_destinations
from tests.support.operator import ask, get_relayer
from tests.support.service_harness import PartnerTenant, ServiceHarness, open_service
from tests.support.solana import (
    ASSETS,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    make_time_step,
    wait_exact,
)
from tests.support.solana_accounts import (
    get_token_account,
    has_account,
    has_account_opening,
    list_account_openings,
    queue_accounts,
    register_destination,
)
from tests.support.solana_offers import SolanaOffer, get_refusal
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLANA_DEVNET.chain_id
CENT = {"amount": {"unit": "iso4217/USD", "value": "1"}}
UNITS = 10_000  # of the token, for a cent
RENT = 2_039_280  # of a token account
FEE = 10_200  # two signatures and the price of computing
TIMES = 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("rent") / "home", solana=INSTANT_SOLANA
    ) as desk:
        yield desk


@pytest.fixture
def node(desk) -> SolanaNodeClient:
    return node_of(desk)


def node_of(desk: ServiceHarness) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


async def relayer(desk: ServiceHarness) -> int:
    """Return the relayer's balance in lamports."""
    return await node_of(desk).coin(await get_relayer(desk, CHAIN))


class Crook(SolanaTestWallet):
    """A merchant that is paid to an account of its own, closes that, and keeps the rent."""

    def __init__(self, desk: ServiceHarness, tenant: PartnerTenant) -> None:
        super().__init__()
        self.desk, self.tenant, self.node = desk, tenant, node_of(desk)
        self.buyer = SolanaTestWallet()
        self.funder = Keypair()

    async def settle_here(self) -> None:
        await set_destinations(self.tenant, {ASSETS[0]: self.account})

    async def offer(self) -> SolanaOffer | None:
        """Return its other wallet's option for a payment of a cent; None if that is left out."""
        offer = SolanaOffer(self.desk.rest, self.buyer, 0)
        created = await self.desk.rest.call("POST", "/v1/payments", self.tenant.headers, CENT)
        offer.payment_id = created["paymentId"]
        options = (await self.desk.rest.options(offer.payment_id, [self.buyer.account]))["options"]
        for offer.option in options:
            if offer.option["amount"]["unit"] == f"caip19/{ASSETS[0]}":
                await offer.fetch()
                return offer
        return None

    async def pay(self) -> bool:
        """Pay itself a cent, if an option is offered; return whether it was."""
        offer = await self.offer()
        if offer is None:
            return False
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        return True

    async def close(self, owner: SolanaTestWallet | None = None) -> None:
        """Empty an account and close it, at the cost of an account with coin."""
        owner = owner or self
        await self.node.close_out(owner.key, get_token_account(owner.address), self.funder)
        assert not await has_account(self.node, get_token_account(owner.address))


@pytest_asyncio.fixture(loop_scope="module")
async def crook(desk) -> Crook:
    crook = Crook(desk, await desk.tenant())
    await crook.settle_here()
    return crook


async def test_self_paying_buyer_that_closes_its_account_gains_rent_once(desk, crook):
    before, paid = await relayer(desk), 0
    for _ in range(TIMES):
        paid += await crook.pay()
        if await has_account(crook.node, get_token_account(crook.address)):
            await crook.close()
    assert paid == 1
    assert before - await relayer(desk) == RENT + FEE
    assert len(list_account_openings(desk, crook.address)) == 1
    # with an account that it opened itself, it is paid like any merchant
    await crook.node.ask("florin_faucet", {"accounts": [crook.address], "lamports": 0})
    before = await relayer(desk)
    assert await crook.pay()
    assert before - await relayer(desk) == FEE
    await wait_exact(desk, crook.node)


async def test_build_issued_before_opens_no_second_account(desk, crook):
    """Transactions issued while the account was missing, confirmed one after another."""
    offers: list[Any] = [await crook.offer() for _ in range(TIMES)]
    assert all(has_account_opening(offer.action) for offer in offers)
    before = await relayer(desk)
    first, *remaining = offers
    await first.confirm()
    assert (await first.final())["status"] == "succeeded"
    query = "SELECT DISTINCT opened_by FROM opened_account WHERE account = ?"
    assert desk.select(query, f"{CHAIN}:{crook.address}") == [(first.payment_id,)]
    # while the account exists they would open nothing, unless it is closed right now
    error = await get_refusal(remaining[0].confirm())
    assert (error.http, error.code) == (409, "quote_expired")
    await crook.close()
    for item in remaining:
        error = await get_refusal(item.confirm())
        assert (error.http, error.code) == (409, "quote_expired")
    assert before - await relayer(desk) == RENT + FEE
    # another fetch gives the reason, and the remedy
    error = await get_refusal(remaining[0].fetch())
    assert error.http == 503
    assert "the owner must open it" in str(error)
    # with an account it gets a transaction that opens nothing
    await crook.node.ask("florin_faucet", {"accounts": [crook.address], "lamports": 0})
    await remaining[0].fetch()
    assert not has_account_opening(remaining[0].action)
    await remaining[0].confirm()
    assert (await remaining[0].final())["status"] == "succeeded"
    assert before - await relayer(desk) == RENT + 2 * FEE


async def test_concurrent_confirms_open_a_single_account(desk, crook):
    offers: list[Any] = [await crook.offer() for _ in range(5)]
    before = await relayer(desk)
    result = await asyncio.gather(*(offer.confirm() for offer in offers), return_exceptions=True)
    (accepted,) = [n for n, item in enumerate(result) if not isinstance(item, Exception)]
    assert {item.code for item in result if isinstance(item, Exception)} == {"quote_expired"}
    assert (await offers[accepted].final())["status"] == "succeeded"
    assert before - await relayer(desk) == RENT + FEE


async def test_another_merchant_does_not_open_it_again_either(desk, crook):
    assert await crook.pay()
    await crook.close()
    crook.tenant = await desk.tenant()
    await crook.settle_here()
    before = await relayer(desk)
    assert await crook.offer() is None
    again = await desk.tenant()
    await register_destination(desk, again, crook.address, ASSETS[0])
    await queue_accounts(desk, again, crook.address, ASSETS[0])
    later = str(Keypair().pubkey())
    newcomer = await desk.tenant()
    await register_destination(desk, newcomer, later, ASSETS[0])
    await queue_accounts(desk, newcomer, later, ASSETS[0])
    await wait_until(lambda: has_account(crook.node, get_token_account(later)))
    assert not await has_account(crook.node, get_token_account(crook.address))
    assert before - await relayer(desk) < RENT + FEE


async def test_a_payment_that_fails_leaves_the_account_to_the_next(desk, crook):
    offer = await crook.offer()
    assert offer is not None
    # the broadcast gets lost, and the money is gone before the next one
    await crook.node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    await wait_until(lambda: _sent(desk))
    assert len(list_account_openings(desk, crook.address)) == 1
    # others wait for it meanwhile
    assert await crook.offer() is None
    held = await crook.node.balance(crook.buyer.address)
    await crook.node.spend(crook.buyer, held - UNITS + 1, after={"kind": "clear"})
    before, watching = await relayer(desk), asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=make_time_step(desk, crook.node))
    assert (await watching)["status"] == "failed"
    # a fee at most, and no rent
    assert before - await relayer(desk) in {0, FEE}
    assert list_account_openings(desk, crook.address) == []
    before = await relayer(desk)
    assert await crook.pay()
    assert before - await relayer(desk) == RENT + FEE


async def _sent(desk: ServiceHarness) -> bool:
    return bool(desk.select("SELECT 1 FROM chain_tx WHERE state = 'sent'"))


async def _refund(desk: ServiceHarness, tenant: PartnerTenant, payment_id: str) -> str:
    body = {"paymentId": payment_id}
    request = await desk.rest.call("POST", "/v1/refunds", tenant.headers, body)
    refund_id: str = request["refundId"]
    return refund_id


async def test_refunds_open_a_closed_buyer_account_once(desk, node):
    tenant = await desk.tenant()
    crook = Crook(desk, tenant)
    paid = []
    for _ in range(3):
        offer = await crook.offer()
        assert offer is not None
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        paid.append(offer.payment_id)
    buyer = crook.buyer
    before = await relayer(desk)
    await crook.close(buyer)
    await _refund(desk, tenant, paid[0])
    assert (await desk.wait_refunded(paid[0], tenant.headers))["status"] == "succeeded"
    assert await node.balance(buyer.address) == UNITS
    assert before - await relayer(desk) == RENT + FEE
    await crook.close(buyer)
    waiting = [await _refund(desk, tenant, each_text) for each_text in paid[1:]]

    async def problems() -> list[str]:
        answer = await ask(desk, "ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
        return [
            item.problem for item in answer.payouts if item.payout_id in waiting and item.problem
        ]

    async def all_wait() -> bool:
        return len(await problems()) == len(waiting)

    await wait_until(all_wait, meanwhile=make_time_step(desk, node, slots=0))
    assert all("the owner must open it" in each_text for each_text in await problems())
    assert not await has_account(node, get_token_account(buyer.address))
    assert before - await relayer(desk) == RENT + FEE
    # with an account of its own it gets the rest
    await node.ask("florin_faucet", {"accounts": [buyer.address], "tokenUnits": 1})
    desk.clock.advance(61)
    for text in paid[1:]:
        assert (await desk.wait_refunded(text, tenant.headers))["status"] == "succeeded"
    assert await node.balance(buyer.address) == 2 * UNITS + 1
    assert before - await relayer(desk) == RENT + 3 * FEE
    await wait_exact(desk, node)


async def test_a_merchant_and_a_chain_have_their_share_of_a_day(tmp_path):
    """It counts every opening: queued before, or by a payment."""
    caps = {"accounts_a_day": 4, "accounts_a_merchant_day": 2}
    async with open_service(
        tmp_path / "home", solana=INSTANT_SOLANA.model_copy(update=caps)
    ) as desk:
        node, before = node_of(desk), await relayer(desk)
        greedy = Crook(desk, await desk.tenant())
        (settlement_id,) = await register_destination(
            desk, greedy.tenant, greedy.address, ASSETS[0]
        )
        path = f"/v1/merchants/{greedy.tenant.merchant.id}/settlements/crypto/{settlement_id}"
        moved = [str(Keypair().pubkey()) for _ in range(15)]
        await queue_accounts(desk, greedy.tenant, greedy.address, ASSETS[0])
        await wait_until(lambda: has_account(node, get_token_account(greedy.address)))
        for dest in moved:
            await queue_accounts(desk, greedy.tenant, dest, ASSETS[0])

        async def one_more() -> bool:
            return any([await has_account(node, get_token_account(dest)) for dest in moved])

        await wait_until(one_more)
        elsewhere = {"destination": f"{CHAIN}:{Keypair().pubkey()}"}
        headers = {**greedy.tenant.headers, "Idempotency-Key": "move"}
        await desk.rest.call("PUT", path, headers, elsewhere)
        # its daily budget is used up: status 200, without options
        assert await greedy.offer() is None
        for _ in range(2):
            other = Crook(desk, await desk.tenant())
            await other.settle_here()
            assert await other.pay()
        late = Crook(desk, await desk.tenant())
        await late.settle_here()
        assert await late.offer() is None
        assert len(desk.select("SELECT asset FROM opened_account")) == 4
        spent = before - await relayer(desk)
        assert 4 * RENT < spent < 4 * RENT + 4 * FEE
        await wait_exact(desk, node)
        # the budget is renewed the next day
        desk.clock.advance(86_400)
        assert await late.pay()


async def test_opened_account_is_remembered_after_a_restart(tmp_path):
    home = tmp_path / "home"
    async with open_service(home, solana=INSTANT_SOLANA) as desk:
        crook = Crook(desk, await desk.tenant())
        await crook.settle_here()
        before = await relayer(desk)
        offers: list[Any] = [await crook.offer() for _ in range(2)]
        await offers[0].confirm()
        assert (await offers[0].final())["status"] == "succeeded"
        await crook.close()
        issued = offers[1].action
    async with open_service(home, solana=INSTANT_SOLANA) as desk:
        again, crook.desk, crook.node = SolanaOffer(desk.rest, crook.buyer, 0), desk, node_of(desk)
        again.payment_id, again.option = offers[1].payment_id, offers[1].option
        again.action = issued
        assert (await get_refusal(again.confirm())).code == "quote_expired"
        assert await crook.offer() is None
        assert before - await relayer(desk) == RENT + FEE
