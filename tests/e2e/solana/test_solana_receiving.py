"""Token accounts of receivers: a payment opens them, and what was queued is opened in advance.

Nothing is queued for merchants any more; releases before 0.4 did so at a registration.
"""

from __future__ import annotations

import asyncio
import base64

import pytest
import pytest_asyncio
from florin_server.devnet.solana import SOLNET
from florin_server.domain.ledger import accounts
from florin_server.rails.types import RailUnavailable
from florin_server.store.ledger import ledger
from florin_server.store.settlement import token_accounts
from solders.keypair import Keypair

from tests.support.desk import Tenant, opened
from tests.support.solana import (
    ASSETS,
    AT_ONCE,
    COIN,
    SolanaNode,
    SolanaWallet,
    exact,
    passing,
)
from tests.support.solana_accounts import CHAIN, opens, place, queue, register, remembered, there
from tests.support.solana_offers import ORDER, PRICE, offered, refusal
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400
MINT = SOLNET.tokens[0].address


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("receiving") / "home", solana=AT_ONCE) as desk:
        yield desk


@pytest.fixture
def node(desk) -> SolanaNode:
    return SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


async def expenses(desk) -> int:
    read = desk.service.app.store.read
    return sum([await read(ledger.balance(one, COIN)) for one in (accounts.GAS, accounts.RENT)])


async def options(desk, tenant: Tenant) -> list[str]:
    """What somebody with all of it can pay in."""
    made = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    found = await desk.rest.options(made["paymentId"], [SolanaWallet().account])
    units = {one["amount"]["unit"].removeprefix("caip19/") for one in found["options"]}
    return [one for one in ASSETS if one in units]


async def test_a_registered_destination_gets_its_accounts_and_payments_become_smaller(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    before = await offered(desk.rest, SolanaWallet(), 0, tenant.headers)
    rail = desk.service.app.rails[CHAIN]
    coin = await node.coin(rail.senders[0])
    booked = await expenses(desk)
    await register(desk, tenant, dest, *ASSETS, COIN)
    await queue(desk, tenant, dest, *ASSETS)
    await until(lambda: there(node, place(dest)))
    await until(lambda: there(node, place(dest, 1)))
    opened_for = coin - await node.coin(rail.senders[0])
    assert 2 * 2_039_280 < opened_for < 2 * 2_100_000

    offer = await offered(desk.rest, SolanaWallet(), 1, tenant.headers)
    assert not opens(offer.action)
    wire = base64.b64decode(offer.output)
    assert len(wire) < 520
    paid_for = await node.coin(rail.senders[0])
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.balance(dest, 1) == PRICE
    # two signatures and the price of computing, and no rent
    fee = paid_for - await node.coin(rail.senders[0])
    assert fee == 10_200
    # what it cost to open them is in the books too, once that is final

    async def is_booked() -> bool:
        return await expenses(desk) - booked == opened_for + fee

    await until(is_booked)
    # the treasury had its accounts before
    assert not opens(before.action)
    await exact(desk, node)


async def test_registrations_alone_open_nothing_and_the_first_payment_does(desk, node):
    """Twelve merchants of one partner use up nothing of the day that others need."""
    tenant = await desk.tenant()
    coin = await node.coin(desk.service.app.rails[CHAIN].senders[0])
    for number in range(12):
        merchant = await desk.merchant(tenant)
        path = f"/v1/merchants/{merchant.id}/settlements/crypto"
        wanted = [{"asset": one, "destination": f"{CHAIN}:{Keypair().pubkey()}"} for one in ASSETS]
        headers = {**tenant.headers, "Idempotency-Key": f"merchant {number}"}
        await desk.rest.call("POST", path, headers, {"settlements": wanted})
    dest = str(Keypair().pubkey())
    other = await desk.tenant()
    await register(desk, other, dest, ASSETS[0])
    assert desk.select("SELECT asset FROM account_to_open") == []
    assert await node.coin(desk.service.app.rails[CHAIN].senders[0]) == coin
    offer = await offered(desk.rest, SolanaWallet(), 0, other.headers)
    assert opens(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await there(node, place(dest))
    assert len(remembered(desk, dest)) == 1


async def test_an_account_that_its_owner_closed_is_not_opened_for_it_again(desk, node):
    """Else whoever owns one could take its rent again and again."""
    tenant, key = await desk.tenant(), Keypair()
    dest = str(key.pubkey())
    await register(desk, tenant, dest, ASSETS[0])
    await queue(desk, tenant, dest, ASSETS[0])
    await until(lambda: there(node, place(dest)))
    await node.close_account(key, place(dest))
    assert not await there(node, place(dest))
    other, later = await desk.tenant(), str(Keypair().pubkey())
    await register(desk, other, dest, ASSETS[0])
    await queue(desk, other, dest, ASSETS[0])
    await register(desk, other, later, ASSETS[1], key="2")
    await queue(desk, other, later, ASSETS[1])
    await until(lambda: there(node, place(later, 1)))
    assert not await there(node, place(dest))
    # nor does a payment: its owner has to
    assert await options(desk, other) == [ASSETS[1]]
    await node.ask("florin_faucet", {"accounts": [dest], "tokens": [MINT], "tokenUnits": 1})
    offer = await offered(desk.rest, SolanaWallet(), 0, other.headers)
    assert not opens(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.balance(dest) == PRICE + 1


async def test_what_cannot_own_and_what_nobody_takes_is_left_alone(desk, node):
    tenant, owner = await desk.tenant(), str(Keypair().pubkey())
    await node.ask("florin_faucet", {"accounts": [owner]})
    # a token account as a destination, and a token that is not taken here
    unknown = f"{CHAIN}/token:{Keypair().pubkey()}"
    await register(desk, tenant, place(owner), ASSETS[0], unknown)
    await queue(desk, tenant, place(owner), ASSETS[0], unknown)
    after = str(Keypair().pubkey())
    newcomer = await desk.tenant()
    await register(desk, newcomer, after, ASSETS[0])
    await queue(desk, newcomer, after, ASSETS[0])
    await until(lambda: there(node, place(after)))
    assert not await there(node, place(place(owner)))
    assert desk.select("SELECT asset FROM account_to_open") == []


async def test_an_opening_that_got_lost_is_sent_again(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    await node.fault("answer", method="sendTransaction", effect="drop", times=1)
    await register(desk, tenant, dest, ASSETS[0])
    await queue(desk, tenant, dest, ASSETS[0])

    async def moves_on() -> bool:
        await node.fault("slots", slots=2)
        return await there(node, place(dest))

    await until(moves_on)
    assert len(remembered(desk, dest)) == 1


@pytest.mark.parametrize("error", [ValueError("no"), RailUnavailable("no")])
async def test_opening_is_tried_again_within_seconds_where_a_look_failed(
    desk, node, monkeypatch, error
):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    failed, wanted = asyncio.Event(), token_accounts.wanted

    def fails_once(*args):
        if not failed.is_set():
            failed.set()
            raise error
        return wanted(*args)

    monkeypatch.setattr(token_accounts, "wanted", fails_once)
    await queue(desk, tenant, dest, ASSETS[0])
    await failed.wait()
    await until(lambda: there(node, place(dest)), meanwhile=passing(desk, node, seconds=1))


async def test_an_opening_that_lapsed_is_over_and_payments_go_on_without_it(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await register(desk, tenant, dest, ASSETS[0])
    await queue(desk, tenant, dest, ASSETS[0])

    async def journaled() -> bool:
        return bool(desk.select("SELECT 1 FROM chain_tx WHERE state IN ('signed', 'sent')"))

    await until(journaled)
    await node.fault("slots", slots=200)

    async def is_over() -> bool:
        desk.clock.advance(10)
        return not await journaled()

    await until(is_over)
    await node.fault("clear")
    assert not await there(node, place(dest))
    offer = await offered(desk.rest, SolanaWallet(), 0, tenant.headers)
    assert opens(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_relayer_that_needs_its_coin_for_payments_opens_nothing(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    poor = {"context": {"slot": 10**6}, "value": 12_000_000}
    await node.fault("answer", method="getBalance", effect="lie", result=poor, times=1000)
    await register(desk, tenant, dest, ASSETS[0])
    await queue(desk, tenant, dest, ASSETS[0])
    offer = await offered(desk.rest, SolanaWallet(), 0, tenant.headers)
    assert opens(offer.action)
    assert not await there(node, place(dest))
    await node.fault("clear")
    desk.clock.advance(600)

    async def opened_later() -> bool:
        desk.clock.advance(10)
        return await there(node, place(dest))

    await until(opened_later)
    # what was told before would open it once more, if its owner closed it right now
    error = await refusal(offer.confirm())
    assert (error.http, error.code) == (409, "quote_expired")
    await offer.fetch()
    assert not opens(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_day_has_its_bounds_and_the_next_one_goes_on(tmp_path):
    solana = AT_ONCE.model_copy(update={"accounts_a_day": 3})
    async with opened(tmp_path / "home", solana=solana) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        owners = [str(Keypair().pubkey()) for _ in range(3)]
        for owner in owners:
            newcomer = await desk.tenant()
            await register(desk, newcomer, owner, *ASSETS)
            await queue(desk, newcomer, owner, *ASSETS)

        async def count() -> int:
            return sum(
                [await there(node, place(owner, token)) for owner in owners for token in (0, 1)]
            )

        async def three() -> bool:
            return await count() == 3

        await until(three)
        # who has an account is paid meanwhile, and nothing more is opened
        dest = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
        await node.ask("florin_faucet", {"accounts": [dest], "tokenUnits": 1})
        offer = await offered(desk.rest, SolanaWallet())
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        desk.clock.advance(601)
        await desk.rest.create({"amount": {"unit": "iso4217/USD", "value": "1250"}})
        assert await count() == 3
        desk.clock.advance(DAY_S)

        async def all_of_them() -> bool:
            return await count() == 6

        await until(all_of_them)


async def test_none_is_opened_where_the_operator_does_not_want_it(tmp_path):
    solana = AT_ONCE.model_copy(update={"accounts_a_day": 0})
    async with opened(tmp_path / "home", solana=solana) as desk:
        tenant, dest = await desk.tenant(), str(Keypair().pubkey())
        await register(desk, tenant, dest, ASSETS[0])
        await queue(desk, tenant, dest, ASSETS[0])
        # the treasury takes the other token for the merchant
        assert await options(desk, tenant) == [ASSETS[1]]
        assert remembered(desk, dest) == []
