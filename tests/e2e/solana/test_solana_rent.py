"""Whoever owns a token account may close it and keep its rent: the relayer loses that once.

Each test counts what the relayer has, to the lamport.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import pytest_asyncio
from florin_server.devnet.solana import SOLNET
from florin_server.domain.payments.payment import Destination
from florin_server.store.accounts import destinations
from florin_server.store.payouts import payouts
from solders.keypair import Keypair

from tests.support.desk import Desk, Tenant, opened
from tests.support.solana import ASSETS, AT_ONCE, SolanaNode, SolanaWallet, exact, passing
from tests.support.solana_accounts import opens, place, queue, register, remembered, there
from tests.support.solana_offers import Offer, refusal
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLNET.chain_id
CENT = {"amount": {"unit": "iso4217/USD", "value": "1"}}
UNITS = 10_000  # of the token, for a cent
RENT = 2_039_280  # of a token account
FEE = 10_200  # two signatures and the price of computing
TIMES = 20


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("rent") / "home", solana=AT_ONCE) as desk:
        yield desk


@pytest.fixture
def node(desk) -> SolanaNode:
    return node_of(desk)


def node_of(desk: Desk) -> SolanaNode:
    return SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


async def relayer(desk: Desk) -> int:
    """What the relayer has, in lamports."""
    return await node_of(desk).coin(desk.service.app.rails[CHAIN].senders[0])


class Crook(SolanaWallet):
    """A merchant that is paid to an account of its own, closes that, and keeps the rent."""

    def __init__(self, desk: Desk, tenant: Tenant) -> None:
        super().__init__()
        self.desk, self.tenant, self.node = desk, tenant, node_of(desk)
        self.buyer = SolanaWallet()
        self.funder = Keypair()

    async def settle_here(self) -> None:
        """As an operator's own tool would set it; nothing is opened in advance."""
        merchant_id = self.tenant.merchant.id
        where = Destination(f"crypto_{merchant_id}", merchant_id, ASSETS[0], self.account)
        await self.desk.service.app.store.write(destinations.put_destination(where))

    async def offer(self) -> Offer | None:
        """What its other wallet can pay a cent with; None if that is left out."""
        offer = Offer(self.desk.rest, self.buyer, 0)
        made = await self.desk.rest.call("POST", "/v1/payments", self.tenant.headers, CENT)
        offer.payment_id = made["paymentId"]
        found = (await self.desk.rest.options(offer.payment_id, [self.buyer.account]))["options"]
        for offer.option in found:
            if offer.option["amount"]["unit"] == f"caip19/{ASSETS[0]}":
                await offer.fetch()
                return offer
        return None

    async def pay(self) -> bool:
        """Pays itself a cent, if it is let."""
        offer = await self.offer()
        if offer is None:
            return False
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        return True

    async def close(self, owner: SolanaWallet | None = None) -> None:
        """Empties an account and closes it, for somebody who has coin."""
        owner = owner or self
        await self.node.close_out(owner.key, place(owner.address), self.funder)
        assert not await there(self.node, place(owner.address))


@pytest_asyncio.fixture(loop_scope="module")
async def crook(desk) -> Crook:
    crook = Crook(desk, await desk.tenant())
    await crook.settle_here()
    return crook


async def test_who_pays_itself_and_closes_the_account_gets_its_rent_once(desk, crook):
    before, paid = await relayer(desk), 0
    for _ in range(TIMES):
        paid += await crook.pay()
        if await there(crook.node, place(crook.address)):
            await crook.close()
    assert paid == 1
    assert before - await relayer(desk) == RENT + FEE
    assert len(remembered(desk, crook.address)) == 1
    # with an account that it opened itself, it is paid like anybody
    await crook.node.ask("florin_faucet", {"accounts": [crook.address], "lamports": 0})
    before = await relayer(desk)
    assert await crook.pay()
    assert before - await relayer(desk) == FEE
    await exact(desk, crook.node)


async def test_what_was_issued_before_opens_nothing_a_second_time(desk, crook):
    """Transactions of a time when the account was missing, confirmed one after another."""
    offers: list[Any] = [await crook.offer() for _ in range(TIMES)]
    assert all(opens(one.action) for one in offers)
    before = await relayer(desk)
    first, *others = offers
    await first.confirm()
    assert (await first.final())["status"] == "succeeded"
    query = "SELECT DISTINCT opened_by FROM opened_account WHERE account = ?"
    assert desk.select(query, f"{CHAIN}:{crook.address}") == [(first.payment_id,)]
    # while the account is there it would open nothing, unless that is closed right now
    told = await refusal(others[0].confirm())
    assert (told.http, told.code) == (409, "quote_expired")
    await crook.close()
    for one in others:
        told = await refusal(one.confirm())
        assert (told.http, told.code) == (409, "quote_expired")
    assert before - await relayer(desk) == RENT + FEE
    # whoever fetches again is told why, and what to do
    told = await refusal(others[0].fetch())
    assert told.http == 503
    assert "has to open one itself" in str(told)
    # with an account it gets a transaction that opens nothing
    await crook.node.ask("florin_faucet", {"accounts": [crook.address], "lamports": 0})
    await others[0].fetch()
    assert not opens(others[0].action)
    await others[0].confirm()
    assert (await others[0].final())["status"] == "succeeded"
    assert before - await relayer(desk) == RENT + 2 * FEE


async def test_many_that_confirm_at_once_open_one_account(desk, crook):
    offers: list[Any] = [await crook.offer() for _ in range(5)]
    before = await relayer(desk)
    told = await asyncio.gather(*(one.confirm() for one in offers), return_exceptions=True)
    (accepted,) = [n for n, one in enumerate(told) if not isinstance(one, Exception)]
    assert {one.code for one in told if isinstance(one, Exception)} == {"quote_expired"}
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
    await register(desk, again, crook.address, ASSETS[0])
    await queue(desk, again, crook.address, ASSETS[0])
    later = str(Keypair().pubkey())
    newcomer = await desk.tenant()
    await register(desk, newcomer, later, ASSETS[0])
    await queue(desk, newcomer, later, ASSETS[0])
    await until(lambda: there(crook.node, place(later)))
    assert not await there(crook.node, place(crook.address))
    assert before - await relayer(desk) < RENT + FEE


async def test_a_payment_that_fails_leaves_the_account_to_the_next(desk, crook):
    offer = await crook.offer()
    assert offer is not None
    # the broadcast gets lost, and the money is gone before the next one
    await crook.node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await offer.confirm()
    await until(lambda: _sent(desk))
    assert len(remembered(desk, crook.address)) == 1
    # others wait for it meanwhile
    assert await crook.offer() is None
    held = await crook.node.balance(crook.buyer.address)
    await crook.node.spend(crook.buyer, held - UNITS + 1, after={"kind": "clear"})
    before, watching = await relayer(desk), asyncio.create_task(offer.final())
    await until(watching.done, meanwhile=passing(desk, crook.node))
    assert (await watching)["status"] == "failed"
    # a fee at most, and no rent
    assert before - await relayer(desk) in {0, FEE}
    assert remembered(desk, crook.address) == []
    before = await relayer(desk)
    assert await crook.pay()
    assert before - await relayer(desk) == RENT + FEE


async def _sent(desk: Desk) -> bool:
    return bool(desk.select("SELECT 1 FROM chain_tx WHERE state = 'sent'"))


async def _refund(desk: Desk, tenant: Tenant, payment_id: str) -> str:
    body = {"paymentId": payment_id}
    asked = await desk.rest.call("POST", "/v1/refunds", tenant.headers, body)
    refund_id: str = asked["refundId"]
    return refund_id


async def test_refunds_open_the_account_of_a_buyer_who_closes_it_once(desk, node):
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
    assert (await desk.refunded(paid[0], tenant.headers))["status"] == "succeeded"
    assert await node.balance(buyer.address) == UNITS
    assert before - await relayer(desk) == RENT + FEE
    await crook.close(buyer)
    waiting = [await _refund(desk, tenant, one) for one in paid[1:]]

    async def problems() -> list[str]:
        found = await desk.service.app.store.read(payouts.some(waiting))
        return [one.problem for one in found.values() if one.problem]

    async def all_wait() -> bool:
        return len(await problems()) == len(waiting)

    await until(all_wait, meanwhile=passing(desk, node, slots=0))
    assert all("has to open one itself" in one for one in await problems())
    assert not await there(node, place(buyer.address))
    assert before - await relayer(desk) == RENT + FEE
    # with an account of his own he gets the rest
    await node.ask("florin_faucet", {"accounts": [buyer.address], "tokenUnits": 1})
    desk.clock.advance(61)
    for one in paid[1:]:
        assert (await desk.refunded(one, tenant.headers))["status"] == "succeeded"
    assert await node.balance(buyer.address) == 2 * UNITS + 1
    assert before - await relayer(desk) == RENT + 3 * FEE
    await exact(desk, node)


async def test_a_merchant_and_a_chain_have_their_share_of_a_day(tmp_path):
    """However an account comes to be opened: queued before, or by a payment."""
    caps = {"accounts_a_day": 4, "accounts_a_merchant_day": 2}
    async with opened(tmp_path / "home", solana=AT_ONCE.model_copy(update=caps)) as desk:
        node, before = node_of(desk), await relayer(desk)
        greedy = Crook(desk, await desk.tenant())
        (settlement_id,) = await register(desk, greedy.tenant, greedy.address, ASSETS[0])
        path = f"/v1/merchants/{greedy.tenant.merchant.id}/settlements/crypto/{settlement_id}"
        moved = [str(Keypair().pubkey()) for _ in range(15)]
        await queue(desk, greedy.tenant, greedy.address, ASSETS[0])
        await until(lambda: there(node, place(greedy.address)))
        for dest in moved:
            await queue(desk, greedy.tenant, dest, ASSETS[0])

        async def one_more() -> bool:
            return any([await there(node, place(dest)) for dest in moved])

        await until(one_more)
        elsewhere = {"destination": f"{CHAIN}:{Keypair().pubkey()}"}
        headers = {**greedy.tenant.headers, "Idempotency-Key": "move"}
        await desk.rest.call("PUT", path, headers, elsewhere)
        # its day is over: 200, and nothing to choose from
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
        await exact(desk, node)
        # tomorrow is another day
        desk.clock.advance(86_400)
        assert await late.pay()


async def test_what_was_opened_is_remembered_after_a_restart(tmp_path):
    home = tmp_path / "home"
    async with opened(home, solana=AT_ONCE) as desk:
        crook = Crook(desk, await desk.tenant())
        await crook.settle_here()
        before = await relayer(desk)
        offers: list[Any] = [await crook.offer() for _ in range(2)]
        await offers[0].confirm()
        assert (await offers[0].final())["status"] == "succeeded"
        await crook.close()
        issued = offers[1].action
    async with opened(home, solana=AT_ONCE) as desk:
        again, crook.desk, crook.node = Offer(desk.rest, crook.buyer, 0), desk, node_of(desk)
        again.payment_id, again.option = offers[1].payment_id, offers[1].option
        again.action = issued
        assert (await refusal(again.confirm())).code == "quote_expired"
        assert await crook.offer() is None
        assert before - await relayer(desk) == RENT + FEE
