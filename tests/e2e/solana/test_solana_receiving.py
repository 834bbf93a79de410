"""Token accounts of receivers: payments open them, and queued accounts are opened in advance.

Merchants' accounts are no longer queued; releases before 0.4 did so at a registration.
"""

from __future__ import annotations

import base64

import pytest
import pytest_asyncio
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.ledger import accounts
from solders.keypair import Keypair

from tests.support.operator import get_balance, get_relayer
from tests.support.service_harness import PartnerTenant, open_service
from tests.support.solana import (
    ASSETS,
    COIN,
    INSTANT_SOLANA,
    SolanaNodeClient,
    SolanaTestWallet,
    wait_exact,
)
from tests.support.solana_accounts import (
    CHAIN,
    get_token_account,
    has_account,
    has_account_opening,
    list_account_openings,
    queue_accounts,
    register_destination,
)
from tests.support.solana_offers import ORDER, PRICE, get_refusal, make_offer
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

DAY_S = 86_400
MINT = SOLANA_DEVNET.tokens[0].address


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(
        tmp_path_factory.mktemp("receiving") / "home", solana=INSTANT_SOLANA
    ) as desk:
        yield desk


@pytest.fixture
def node(desk) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


async def expenses(desk) -> int:
    return sum([await get_balance(desk, text, COIN) for text in (accounts.GAS, accounts.RENT)])


async def options(desk, tenant: PartnerTenant) -> list[str]:
    """Return the assets in which a buyer with all of them can pay."""
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, ORDER)
    result = await desk.rest.options(created["paymentId"], [SolanaTestWallet().account])
    units = {option["amount"]["unit"].removeprefix("caip19/") for option in result["options"]}
    return [text for text in ASSETS if text in units]


async def test_a_registered_destination_gets_its_accounts_and_payments_become_smaller(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    before = await make_offer(desk.rest, SolanaTestWallet(), 0, tenant.headers)
    relayer = await get_relayer(desk, CHAIN)
    coin = await node.coin(relayer)
    booked = await expenses(desk)
    await register_destination(desk, tenant, dest, *ASSETS, COIN)
    await queue_accounts(desk, tenant, dest, *ASSETS)
    await wait_until(lambda: has_account(node, get_token_account(dest)))
    await wait_until(lambda: has_account(node, get_token_account(dest, 1)))
    opened_for = coin - await node.coin(relayer)
    assert 2 * 2_039_280 < opened_for < 2 * 2_100_000

    offer = await make_offer(desk.rest, SolanaTestWallet(), 1, tenant.headers)
    assert not has_account_opening(offer.action)
    wire = base64.b64decode(offer.output)
    assert len(wire) < 520
    paid_for = await node.coin(relayer)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.balance(dest, 1) == PRICE
    # two signatures and the price of computing, and no rent
    fee = paid_for - await node.coin(relayer)
    assert fee == 10_200
    # the cost of opening them is in the books too, once that is final

    async def is_booked() -> bool:
        return await expenses(desk) - booked == opened_for + fee

    await wait_until(is_booked)
    # the treasury had its accounts before
    assert not has_account_opening(before.action)
    await wait_exact(desk, node)


async def test_registrations_alone_open_nothing_and_the_first_payment_does(desk, node):
    """Twelve merchants of one partner use nothing of the daily budget that others need."""
    tenant = await desk.tenant()
    relayer = await get_relayer(desk, CHAIN)
    coin = await node.coin(relayer)
    for number in range(12):
        merchant = await desk.merchant(tenant)
        path = f"/v1/merchants/{merchant.id}/settlements/crypto"
        expected = [
            {"asset": text, "destination": f"{CHAIN}:{Keypair().pubkey()}"} for text in ASSETS
        ]
        headers = {**tenant.headers, "Idempotency-Key": f"merchant {number}"}
        await desk.rest.call("POST", path, headers, {"settlements": expected})
    dest = str(Keypair().pubkey())
    other = await desk.tenant()
    await register_destination(desk, other, dest, ASSETS[0])
    assert desk.select("SELECT asset FROM account_to_open") == []
    assert await node.coin(relayer) == coin
    offer = await make_offer(desk.rest, SolanaTestWallet(), 0, other.headers)
    assert has_account_opening(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await has_account(node, get_token_account(dest))
    assert len(list_account_openings(desk, dest)) == 1


async def test_an_account_that_its_owner_closed_is_not_opened_for_it_again(desk, node):
    """Otherwise its owner could take the rent repeatedly."""
    tenant, key = await desk.tenant(), Keypair()
    dest = str(key.pubkey())
    await register_destination(desk, tenant, dest, ASSETS[0])
    await queue_accounts(desk, tenant, dest, ASSETS[0])
    await wait_until(lambda: has_account(node, get_token_account(dest)))
    await node.close_account(key, get_token_account(dest))
    assert not await has_account(node, get_token_account(dest))
    other, later = await desk.tenant(), str(Keypair().pubkey())
    await register_destination(desk, other, dest, ASSETS[0])
    await queue_accounts(desk, other, dest, ASSETS[0])
    await register_destination(desk, other, later, ASSETS[1], key="2")
    await queue_accounts(desk, other, later, ASSETS[1])
    await wait_until(lambda: has_account(node, get_token_account(later, 1)))
    assert not await has_account(node, get_token_account(dest))
    # nor does a payment: its owner has to
    assert await options(desk, other) == [ASSETS[1]]
    await node.ask("florin_faucet", {"accounts": [dest], "tokens": [MINT], "tokenUnits": 1})
    offer = await make_offer(desk.rest, SolanaTestWallet(), 0, other.headers)
    assert not has_account_opening(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.balance(dest) == PRICE + 1


async def test_invalid_owner_and_unsupported_token_get_no_account(desk, node):
    tenant, owner = await desk.tenant(), str(Keypair().pubkey())
    await node.ask("florin_faucet", {"accounts": [owner]})
    # a token account as a destination, and a token that is not accepted here
    unknown = f"{CHAIN}/token:{Keypair().pubkey()}"
    await register_destination(desk, tenant, get_token_account(owner), ASSETS[0], unknown)
    await queue_accounts(desk, tenant, get_token_account(owner), ASSETS[0], unknown)
    after = str(Keypair().pubkey())
    newcomer = await desk.tenant()
    await register_destination(desk, newcomer, after, ASSETS[0])
    await queue_accounts(desk, newcomer, after, ASSETS[0])
    await wait_until(lambda: has_account(node, get_token_account(after)))
    assert not await has_account(node, get_token_account(get_token_account(owner)))
    assert desk.select("SELECT asset FROM account_to_open") == []


async def test_an_opening_that_got_lost_is_sent_again(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    await node.fault("answer", method="sendTransaction", effect="drop", times=1)
    await register_destination(desk, tenant, dest, ASSETS[0])
    await queue_accounts(desk, tenant, dest, ASSETS[0])

    async def moves_on() -> bool:
        await node.fault("slots", slots=2)
        return await has_account(node, get_token_account(dest))

    await wait_until(moves_on)
    assert len(list_account_openings(desk, dest)) == 1


async def test_an_opening_that_lapsed_is_over_and_payments_go_on_without_it(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    await register_destination(desk, tenant, dest, ASSETS[0])
    await queue_accounts(desk, tenant, dest, ASSETS[0])

    async def journaled() -> bool:
        return bool(desk.select("SELECT 1 FROM chain_tx WHERE state IN ('signed', 'sent')"))

    await wait_until(journaled)
    await node.fault("slots", slots=200)

    async def is_over() -> bool:
        desk.clock.advance(10)
        return not await journaled()

    await wait_until(is_over)
    await node.fault("clear")
    assert not await has_account(node, get_token_account(dest))
    offer = await make_offer(desk.rest, SolanaTestWallet(), 0, tenant.headers)
    assert has_account_opening(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_relayer_that_needs_its_coin_for_payments_opens_nothing(desk, node):
    tenant, dest = await desk.tenant(), str(Keypair().pubkey())
    poor = {"context": {"slot": 10**6}, "value": 12_000_000}
    await node.fault("answer", method="getBalance", effect="lie", result=poor, times=1000)
    await register_destination(desk, tenant, dest, ASSETS[0])
    await queue_accounts(desk, tenant, dest, ASSETS[0])
    offer = await make_offer(desk.rest, SolanaTestWallet(), 0, tenant.headers)
    assert has_account_opening(offer.action)
    assert not await has_account(node, get_token_account(dest))
    await node.fault("clear")
    desk.clock.advance(600)

    async def opened_later() -> bool:
        desk.clock.advance(10)
        return await has_account(node, get_token_account(dest))

    await wait_until(opened_later)
    # an earlier option would open it once more, if its owner closed it right now
    error = await get_refusal(offer.confirm())
    assert (error.http, error.code) == (409, "quote_expired")
    await offer.fetch()
    assert not has_account_opening(offer.action)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_daily_opening_limit_holds_and_the_next_day_continues(tmp_path):
    solana = INSTANT_SOLANA.model_copy(update={"accounts_a_day": 3})
    async with open_service(tmp_path / "home", solana=solana) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        owners = [str(Keypair().pubkey()) for _ in range(3)]
        for owner in owners:
            newcomer = await desk.tenant()
            await register_destination(desk, newcomer, owner, *ASSETS)
            await queue_accounts(desk, newcomer, owner, *ASSETS)

        async def count() -> int:
            return sum(
                [
                    await has_account(node, get_token_account(owner, token))
                    for owner in owners
                    for token in (0, 1)
                ]
            )

        async def three() -> bool:
            return await count() == 3

        await wait_until(three)
        # merchants with an account are paid meanwhile, and nothing more is opened
        dest = desk.env["FLORIN_SOLANA_DESTINATION"].rpartition(":")[2]
        await node.ask("florin_faucet", {"accounts": [dest], "tokenUnits": 1})
        offer = await make_offer(desk.rest, SolanaTestWallet())
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        desk.clock.advance(601)
        await desk.rest.create({"amount": {"unit": "iso4217/USD", "value": "1250"}})
        assert await count() == 3
        desk.clock.advance(DAY_S)

        async def all_of_them() -> bool:
            return await count() == 6

        await wait_until(all_of_them)


async def test_none_is_opened_where_the_operator_does_not_want_it(tmp_path):
    solana = INSTANT_SOLANA.model_copy(update={"accounts_a_day": 0})
    async with open_service(tmp_path / "home", solana=solana) as desk:
        tenant, dest = await desk.tenant(), str(Keypair().pubkey())
        await register_destination(desk, tenant, dest, ASSETS[0])
        await queue_accounts(desk, tenant, dest, ASSETS[0])
        # the treasury receives the other token for the merchant
        assert await options(desk, tenant) == [ASSETS[1]]
        assert list_account_openings(desk, dest) == []
