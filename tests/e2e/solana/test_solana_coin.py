"""Payments in Solana's native coin from the first call to the coin on chain, over REST."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio
from florin_server.domain.chains.solana import spl
from solders.keypair import Keypair

from tests.support.operator import get_balance, get_relayer, get_treasury
from tests.support.service_harness import open_service
from tests.support.solana import (
    COIN,
    INSTANT_SOLANA,
    RENT,
    SolanaNodeClient,
    SolanaTestWallet,
    wait_exact,
)
from tests.support.solana_coin import CHAIN, GBP, LAMPORTS
from tests.support.solana_offers import SolanaOffer, get_refusal
from tests.support.until import wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

FIXED_FEE = 59  # seven millionths of a pound at 120.00, rounded up
FEE = FIXED_FEE + LAMPORTS // 100


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("coin") / "home"
    rates = {COIN: {"GBP": "120.00"}}
    async with open_service(
        home, solana=INSTANT_SOLANA, rates=rates, fee_fixed=7, fee_basis_points=100
    ) as desk:
        yield desk


@pytest.fixture
def node(desk) -> SolanaNodeClient:
    return SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])


@pytest.fixture
def wallet() -> SolanaTestWallet:
    return SolanaTestWallet()


async def paid_to(desk, dest: str, asset: str = COIN):
    """Return a merchant whose money goes to an address of its own."""
    tenant = await desk.tenant()
    path = f"/v1/merchants/{tenant.merchant.id}/settlements/crypto"
    headers = {**tenant.headers, "Idempotency-Key": "where"}
    where = {"asset": asset, "destination": f"{CHAIN}:{dest}"}
    await desk.rest.call("POST", path, headers, {"settlements": [where]})
    return tenant


async def offered(desk, wallet, tenant, amount=GBP) -> SolanaOffer:
    offer = SolanaOffer(desk.rest, wallet, 0)
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, {"amount": amount})
    offer.payment_id = created["paymentId"]
    (offer.option,) = (await desk.rest.options(offer.payment_id, [wallet.account]))["options"]
    await offer.fetch()
    return offer


async def test_coin_goes_to_the_merchants_own_account_and_the_fee_to_the_operator(
    desk, node, wallet
):
    dest = str(Keypair().pubkey())
    treasury, relayer = await get_treasury(desk, CHAIN), await get_relayer(desk, CHAIN)
    offer = await offered(desk, wallet, await paid_to(desk, dest))
    amount = offer.option["amount"]
    assert (amount["unit"], amount["value"]) == (f"caip19/{COIN}", str(LAMPORTS))
    assert amount["display"]["assetSymbol"] == "tSOL"
    assert offer.option["expiresAt"] == desk.now + 300
    held, stored = await node.coin(wallet.address), await node.coin(treasury)
    paying = await node.coin(relayer)
    booked = await get_balance(desk, "expense:gas", COIN)
    await offer.confirm()
    ended = await offer.final()
    assert ended["status"] == "succeeded"
    assert await node.coin(dest) == LAMPORTS - FEE
    assert await node.coin(treasury) == stored + FEE
    # the buyer paid the price and nothing else
    assert await node.coin(wallet.address) == held - LAMPORTS
    spent = paying - await node.coin(relayer)
    assert 0 < spent == await get_balance(desk, "expense:gas", COIN) - booked
    result = await node.ask(
        "getTransaction", ended["info"]["txId"], {"maxSupportedTransactionVersion": 0}
    )
    assert result["version"] == 0
    ((terms,),) = desk.select("SELECT terms FROM payment_option WHERE id = ?", offer.option["id"])
    assert any(json.loads(terms)["ref"] in line for line in result["meta"]["logMessages"])
    assert json.loads(terms)["quote"]["price"] == "120.00"
    await wait_exact(desk, node)


async def test_coin_for_a_merchant_without_a_destination_waits_in_the_treasury(desk, node, wallet):
    tenant = await desk.tenant()
    treasury = await get_treasury(desk, CHAIN)
    offer = await offered(desk, wallet, tenant)
    stored = await node.coin(treasury)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.coin(treasury) == stored + LAMPORTS
    assert await get_balance(desk, f"merchant:{tenant.merchant.id}", COIN) == FEE - LAMPORTS
    await wait_exact(desk, node)


@pytest.mark.parametrize("own", [True, False])
async def test_refund_of_a_coin_payment_returns_the_full_price(desk, node, wallet, own):
    tenant = await (paid_to(desk, str(Keypair().pubkey())) if own else desk.tenant())
    treasury = await get_treasury(desk, CHAIN)
    offer = await offered(desk, wallet, tenant)
    held = await node.coin(wallet.address)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    stored = await node.coin(treasury)
    body = {"paymentId": offer.payment_id}
    await desk.rest.call("POST", "/v1/refunds", tenant.headers, body)
    refund = await desk.wait_refunded(offer.payment_id, tenant.headers)
    assert refund["status"] == "succeeded"
    assert await node.coin(wallet.address) == held
    assert await node.coin(treasury) == stored - LAMPORTS
    await wait_exact(desk, node)


async def test_elapsed_slots_end_the_fetched_build_but_not_the_option(desk, node, wallet):
    offer = await offered(desk, wallet, await desk.tenant())
    await node.fault("slots", slots=200)
    error = await get_refusal(offer.confirm())
    assert (error.http, error.code) == (409, "quote_expired")
    await offer.fetch()
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_lapsed_quote_is_refused_with_quote_expired(desk, wallet):
    offer = await offered(desk, wallet, await desk.tenant())
    desk.clock.advance(300)
    for call in (offer.fetch(), offer.confirm()):
        error = await get_refusal(call)
        assert (error.http, error.code) == (409, "quote_expired")
    (new,) = (await desk.rest.options(offer.payment_id, [wallet.account]))["options"]
    assert new["id"] != offer.option["id"]
    offer.option = new
    await offer.fetch()
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"


async def test_a_receiver_that_could_not_exist_is_not_offered_and_does_not_get_a_transaction(
    desk, node, wallet
):
    dest = str(Keypair().pubkey())
    tenant = await paid_to(desk, dest)
    small = {"unit": f"caip19/{COIN}", "value": "100000"}
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, {"amount": small})
    path = (created["paymentId"], [wallet.account])
    assert (await desk.rest.options(*path))["options"] == []
    await node.ask("florin_faucet", {"accounts": [dest], "tokens": [], "lamports": RENT})
    (option,) = (await desk.rest.options(*path))["options"]
    # an amount of coin needs no rate, and lasts as long as the payment
    assert (option["amount"]["value"], option["expiresAt"]) == ("100000", None)
    offer = SolanaOffer(desk.rest, wallet, 0)
    offer.payment_id, offer.option = created["paymentId"], option
    await offer.fetch()
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    assert await node.coin(dest) == RENT + 100_000 - FIXED_FEE - 1_000


async def test_vanished_receiver_account_is_reported_at_fetch(desk, node, wallet):
    key = Keypair()
    dest = str(key.pubkey())
    tenant = await paid_to(desk, dest)
    await node.ask("florin_faucet", {"accounts": [dest], "tokens": [], "lamports": RENT})
    small = {"unit": f"caip19/{COIN}", "value": "100000"}
    created = await desk.rest.call("POST", "/v1/payments", tenant.headers, {"amount": small})
    offer = SolanaOffer(desk.rest, wallet, 0)
    offer.payment_id = created["paymentId"]
    (offer.option,) = (await desk.rest.options(offer.payment_id, [wallet.account]))["options"]
    away = spl.transfer_coin(key.pubkey(), wallet.key.pubkey(), RENT)
    await node.send([wallet.key, key], away)
    error = await get_refusal(offer.fetch())
    assert (error.http, error.code) == (503, "internal_error")
    assert dest in str(error)


async def test_a_confirmed_payment_in_coin_survives_a_lost_broadcast(desk, node, wallet):
    offer = await offered(desk, wallet, await desk.tenant())
    await node.fault("answer", method="sendTransaction", effect="drop", times=2)
    await offer.confirm()
    watching = asyncio.create_task(offer.final())
    await wait_until(watching.done, meanwhile=lambda: node.fault("slots", slots=2))
    assert (await watching)["status"] == "succeeded"
