"""Money goes back to buyers and on to merchants on Solana, ended in balances from the chain."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2, system_pb2
from florin_server.devnet.solana import SOLNET
from florin_server.domain.payments.payment import Destination
from florin_server.store.accounts import destinations
from florin_server.store.ledger import ledger
from florin_server.store.operator import installation
from florin_server.store.payouts import payouts
from solders.keypair import Keypair

from tests.support import postgres
from tests.support.desk import opened
from tests.support.installation import operator_of
from tests.support.solana import ASSETS, AT_ONCE, SolanaNode, SolanaWallet
from tests.support.solana_offers import PRICE, offered
from tests.support.until import until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLNET.chain_id
FEE = 7 + PRICE // 100


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("payouts") / "home"
    async with opened(home, solana=AT_ONCE, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def node(desk):
    node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    yield node
    await node.fault("clear")


async def sold(desk, wallet: SolanaWallet, token: int, headers=None) -> str:
    """A payment that succeeded."""
    offer = await offered(desk.rest, wallet, token, headers)
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    return offer.payment_id


async def books(desk) -> None:
    assert await desk.service.app.store.read(ledger.check()) == []
    assert await desk.service.app.store.read(payouts.check()) == []


@pytest.mark.parametrize("token", [0, 1])
@pytest.mark.parametrize("own", [True, False])
async def test_a_buyer_is_whole_again(desk, node, token, own):
    """The merchant had its share at an address of its own, or the treasury keeps it."""
    wallet = SolanaWallet()
    rail = desk.service.app.rails[CHAIN]
    treasury, relayer = rail.treasury.rpartition(":")[2], rail.senders[0]
    assert treasury != relayer
    await node.ask("florin_faucet", {"accounts": [wallet.address]})
    held, coin = await node.balance(wallet.address, token), await node.coin(wallet.address)
    headers = None if own else (await desk.tenant()).headers
    payment_id = await sold(desk, wallet, token, headers)
    kept = FEE if own else PRICE
    float_ = await node.balance(treasury, token)
    assert await node.balance(wallet.address, token) == held - PRICE
    paid = await node.coin(relayer)
    read = desk.service.app.store.read
    gas = await read(ledger.balance("expense:gas", rail.native_asset))
    booked = await read(ledger.balance(f"wallet:{CHAIN}:{relayer}", rail.native_asset))

    body = {"paymentId": payment_id}
    asked = await desk.rest.call("POST", "/v1/refunds", headers or desk.rest.merchant, body)
    refund = await desk.refunded(payment_id, headers)
    assert refund["status"] == "succeeded"
    assert await node.balance(wallet.address, token) == held
    assert await node.coin(wallet.address) == coin
    assert await node.balance(treasury, token) == float_ - PRICE
    assert kept <= PRICE
    told = await node.ask("getTransaction", refund["txId"], {"maxSupportedTransactionVersion": 0})
    assert told["meta"]["err"] is None
    assert any(asked["refundId"] in line for line in told["meta"]["logMessages"])
    # the relayer pays the fee, and that is what is booked
    spent = paid - await node.coin(relayer)
    assert spent > 0
    assert await read(ledger.balance("expense:gas", rail.native_asset)) - gas == spent
    left = await read(ledger.balance(f"wallet:{CHAIN}:{relayer}", rail.native_asset))
    assert booked - left == spent
    # the buyer had an account already
    query = "SELECT asset FROM opened_account WHERE opened_by = ?"
    assert desk.select(query, asked["refundId"]) == []
    await books(desk)


async def test_a_merchant_is_paid_what_it_is_owed(desk, node):
    tenant, place = await desk.tenant(), str(Keypair().pubkey())
    await sold(desk, SolanaWallet(), 1, tenant.headers)
    where = Destination("crypto_sol", tenant.merchant.id, ASSETS[1], f"{CHAIN}:{place}")
    await desk.service.app.store.write(destinations.put_destination(where))
    async with operator_of(desk.service) as operator:
        request = payout_pb2.CreatePayoutRequest(merchant_id=tenant.merchant.id, asset=ASSETS[1])
        made = await operator.ask("CreatePayout", request)
    assert int(made.amount) == PRICE - FEE

    async def completed() -> int | None:
        found = await desk.service.app.store.read(payouts.get(made.payout_id))
        return found.completed_at_us

    await until(completed)
    # it had no account for the token before, and nobody opens it a second time
    query = "SELECT opened_by, merchant_id FROM opened_account WHERE account = ?"
    assert desk.select(query, where.account) == [(made.payout_id, tenant.merchant.id)]
    assert await node.balance(place, 1) == PRICE - FEE
    account = f"merchant:{tenant.merchant.id}"
    assert await desk.service.app.store.read(ledger.balance(account, ASSETS[1])) == 0
    await books(desk)


async def test_a_transaction_that_lapsed_is_made_anew_and_pays_once(desk, node, caplog):
    wallet = SolanaWallet()
    payment_id = await sold(desk, wallet, 0)
    held = await node.balance(wallet.address)
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    body = {"paymentId": payment_id}
    await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, body)

    async def tx_id() -> str | None:
        return (await desk.rest.detail(payment_id))["refund"].get("txId")

    first = await until(tx_id)
    await node.fault("slots", slots=200)
    desk.clock.advance(11)

    async def is_another() -> bool:
        # for a moment there is none
        return await tx_id() not in {None, first}

    async def later() -> None:
        desk.clock.advance(11)

    await until(is_another, meanwhile=later)
    await node.fault("clear")
    # nobody else is on this chain: without slots nothing ever grows old
    await node.fault("slots", slots=5)
    refund = await desk.refunded(payment_id)
    assert refund["status"] == "succeeded"
    assert refund["txId"] != first
    assert await node.balance(wallet.address) == held + PRICE
    await books(desk)
    # that is no fault, and nobody else has sent anything
    what = f": its transaction {first} lapsed before it landed"
    told = [one.levelname for one in caplog.records if one.message.endswith(what)]
    assert set(told) == {"WARNING"}
    assert "replaced" not in caplog.text


async def test_a_treasury_that_is_short_is_filled_and_pays(desk, node):
    wallet, treasury = SolanaWallet(), desk.service.app.rails[CHAIN].treasury.rpartition(":")[2]
    price = 200_000 * 10**6
    gift = {"accounts": [wallet.address], "tokenUnits": price}
    await node.ask("florin_faucet", gift)
    offer = await offered(
        desk.rest, wallet, 0, amount={"unit": "iso4217/USD", "value": str(price // 10_000)}
    )
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    body = {"paymentId": offer.payment_id}
    asked = await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, body)

    async def problem() -> str | None:
        return (await desk.service.app.store.read(payouts.get(asked["refundId"]))).problem

    assert (await until(problem)).startswith(f"the treasury {treasury} lacks")
    # what it had is left to whoever comes next
    units = price + await node.balance(treasury)
    await node.ask("florin_faucet", {"accounts": [treasury], "tokenUnits": units})
    desk.clock.advance(60)
    assert (await desk.refunded(offer.payment_id))["status"] == "succeeded"
    assert await node.balance(wallet.address) >= price
    await books(desk)


async def test_what_the_store_lost_pauses_payouts_and_is_not_paid_again(tmp_path):
    home, settings = tmp_path / "home", {"solana": AT_ONCE}

    async def resume(desk) -> None:
        async with operator_of(desk.service) as operator:
            for executor_id in desk.service.app.executors:
                request = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
                await operator.ask("ResumeExecutor", request)

    wallet = SolanaWallet()
    async with opened(home, **settings) as desk:
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await node.ask("florin_faucet", {"accounts": [wallet.address]})
        held = await node.balance(wallet.address, 0)
        first, second, third = [await sold(desk, wallet, 0) for _ in range(3)]
        await desk.rest.refund(first)
        await desk.refunded(first)
        async with operator_of(desk.service) as operator:
            treasury = desk.service.app.rails[CHAIN].treasury
            request = system_pb2.PauseExecutorRequest(executor_id=treasury)
            await operator.ask("PauseExecutor", request)
        asked = await desk.rest.refund(second)
    postgres.keep(home)
    async with opened(home, **settings) as desk:
        await resume(desk)
        await desk.refunded(second)
        await desk.rest.refund(third)
        await desk.refunded(third)
    postgres.put_back(home)
    async with opened(home, **settings) as desk:
        # one refund is known, and was paid; another one is not, and is asked for again
        done = await desk.refunded(second)
        assert (done["refundId"], done["status"]) == (asked["refundId"], "succeeded")
        found = await until(lambda: desk.service.app.store.read(installation.behind()))
        assert "has 2 transactions of" in found
        again = await desk.rest.refund(third)
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        async with operator_of(desk.service) as operator:
            request = payout_pb2.RefusePayoutRequest(payout_id=again["refundId"])
            await operator.ask("RefusePayout", request)
        await resume(desk)
        await books(desk)
    async with opened(home, **settings) as desk:
        assert await desk.service.app.store.read(installation.behind()) == ""
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        assert await node.balance(wallet.address, 0) == held
