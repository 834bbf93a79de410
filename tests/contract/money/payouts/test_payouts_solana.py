"""Refunds and payouts on Solana, checked by final balances on the chain."""

from __future__ import annotations

import pytest
import pytest_asyncio
from florin.v1 import payout_pb2, system_pb2
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.accounts.store import destinations
from florin_server.db import installation
from florin_server.domain.payments.payment import Destination
from florin_server.money.archive.store import closed_transactions
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import payouts
from solders.keypair import Keypair

from tests.support import postgres
from tests.support.installation import open_operator
from tests.support.service_harness import open_service
from tests.support.solana import ASSETS, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import PRICE, make_offer
from tests.support.until import advance, wait_until

pytestmark = pytest.mark.asyncio(loop_scope="module")

CHAIN = SOLANA_DEVNET.chain_id
FEE = 7 + PRICE // 100


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("payouts") / "home"
    async with open_service(home, solana=INSTANT_SOLANA, fee_fixed=7, fee_basis_points=100) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def node(desk):
    node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
    yield node
    await node.fault("clear")


async def sold(desk, wallet: SolanaTestWallet, token: int, headers=None) -> str:
    """Return the id of a payment that succeeded."""
    offer = await make_offer(desk.rest, wallet, token, headers)
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
    wallet = SolanaTestWallet()
    rail = desk.service.app.rails[CHAIN]
    treasury, relayer = rail.treasury.rpartition(":")[2], rail.senders[0]
    assert treasury != relayer
    await node.ask("florin_faucet", {"accounts": [wallet.address]})
    held, coin = await node.balance(wallet.address, token), await node.coin(wallet.address)
    headers = None if own else (await desk.tenant()).headers
    payment_id = await sold(desk, wallet, token, headers)
    stored = FEE if own else PRICE
    float_ = await node.balance(treasury, token)
    assert await node.balance(wallet.address, token) == held - PRICE
    paid = await node.coin(relayer)
    read = desk.service.app.store.read
    gas = await read(ledger.get_balance("expense:gas", rail.native_asset))
    booked = await read(ledger.get_balance(f"wallet:{CHAIN}:{relayer}", rail.native_asset))

    body = {"paymentId": payment_id}
    request = await desk.rest.call("POST", "/v1/refunds", headers or desk.rest.merchant, body)
    refund = await desk.wait_refunded(payment_id, headers)
    assert refund["status"] == "succeeded"
    assert await node.balance(wallet.address, token) == held
    assert await node.coin(wallet.address) == coin
    assert await node.balance(treasury, token) == float_ - PRICE
    assert stored <= PRICE
    result = await node.ask("getTransaction", refund["txId"], {"maxSupportedTransactionVersion": 0})
    assert result["meta"]["err"] is None
    assert any(request["refundId"] in line for line in result["meta"]["logMessages"])
    # the relayer pays the fee, and that is booked
    spent = paid - await node.coin(relayer)
    assert spent > 0
    assert await read(ledger.get_balance("expense:gas", rail.native_asset)) - gas == spent
    left = await read(ledger.get_balance(f"wallet:{CHAIN}:{relayer}", rail.native_asset))
    assert booked - left == spent
    # the buyer had an account already
    query = "SELECT asset FROM opened_account WHERE opened_by = ?"
    assert desk.select(query, request["refundId"]) == []
    await books(desk)


async def test_merchant_is_paid_its_balance(desk, node):
    tenant, place = await desk.tenant(), str(Keypair().pubkey())
    await sold(desk, SolanaTestWallet(), 1, tenant.headers)
    where = Destination("crypto_sol", tenant.merchant.id, ASSETS[1], f"{CHAIN}:{place}")
    await desk.service.app.store.write(destinations.put_destination(where))
    async with open_operator(desk.service) as operator:
        request = payout_pb2.CreatePayoutRequest(merchant_id=tenant.merchant.id, asset=ASSETS[1])
        created = await operator.call("CreatePayout", request)
    assert int(created.amount) == PRICE - FEE

    async def completed() -> int | None:
        result = await desk.service.app.store.read(payouts.find(created.payout_id))
        return result.completed_at_us

    await wait_until(completed)
    # it had no account for the token before, and no second one is opened
    query = "SELECT opened_by, merchant_id FROM opened_account WHERE account = ?"
    assert desk.select(query, where.account) == [(created.payout_id, tenant.merchant.id)]
    assert await node.balance(place, 1) == PRICE - FEE
    account = f"merchant:{tenant.merchant.id}"
    assert await desk.service.app.store.read(ledger.get_balance(account, ASSETS[1])) == 0
    # a treasury whose history is checked: its transactions are never archived
    (tx_id,) = desk.select(
        "SELECT tx_id FROM chain_tx_item WHERE payout_id = ?", created.payout_id
    )[0]
    await wait_until(lambda: not desk.select("SELECT id FROM chain_tx WHERE state = 'sent'"))
    is_closed = closed_transactions.list_closed([tx_id], 2**62)
    assert await desk.service.app.store.read(is_closed) == []
    assert desk.select(
        "SELECT name FROM installation JOIN chain_tx "
        "ON name = 'history:' || chain_id || ':' || sender WHERE id = ?",
        tx_id,
    )
    await books(desk)


async def test_lapsed_payout_transaction_is_replaced_and_pays_once(desk, node, caplog):
    wallet = SolanaTestWallet()
    payment_id = await sold(desk, wallet, 0)
    held = await node.balance(wallet.address)
    await node.fault("answer", method="sendTransaction", effect="drop", times=1000)
    body = {"paymentId": payment_id}
    await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, body)

    async def tx_id() -> str | None:
        return (await desk.rest.detail(payment_id))["refund"].get("txId")

    first = await wait_until(tx_id)
    await node.fault("slots", slots=200)
    desk.clock.advance(11)

    async def is_another() -> bool:
        # for a moment no transaction exists
        return await tx_id() not in {None, first}

    async def later() -> None:
        await advance(desk.clock, 11)

    await wait_until(is_another, meanwhile=later)
    await node.fault("clear")
    # this chain has no other traffic: without slots nothing grows old
    await node.fault("slots", slots=5)
    refund = await desk.wait_refunded(payment_id)
    assert refund["status"] == "succeeded"
    assert refund["txId"] != first
    assert await node.balance(wallet.address) == held + PRICE
    await books(desk)
    # that is no fault, and no third party has sent anything
    what = f": its transaction {first} lapsed before it landed"
    result = [record.levelname for record in caplog.records if record.message.endswith(what)]
    assert set(result) == {"WARNING"}
    assert "replaced" not in caplog.text


async def test_a_treasury_that_is_short_is_filled_and_pays(desk, node):
    wallet, treasury = SolanaTestWallet(), desk.service.app.rails[CHAIN].treasury.rpartition(":")[2]
    price = 200_000 * 10**6
    gift = {"accounts": [wallet.address], "tokenUnits": price}
    await node.ask("florin_faucet", gift)
    offer = await make_offer(
        desk.rest, wallet, 0, amount={"unit": "iso4217/USD", "value": str(price // 10_000)}
    )
    await offer.confirm()
    assert (await offer.final())["status"] == "succeeded"
    body = {"paymentId": offer.payment_id}
    request = await desk.rest.call("POST", "/v1/refunds", desk.rest.merchant, body)

    async def problem() -> str | None:
        return (await desk.service.app.store.read(payouts.find(request["refundId"]))).problem

    assert (await wait_until(problem)).startswith(f"the treasury {treasury} lacks")
    # its former balance stays for later payouts
    units = price + await node.balance(treasury)
    await node.ask("florin_faucet", {"accounts": [treasury], "tokenUnits": units})
    desk.clock.advance(60)
    assert (await desk.wait_refunded(offer.payment_id))["status"] == "succeeded"
    assert await node.balance(wallet.address) >= price
    await books(desk)


async def test_payouts_lost_by_the_store_pause_payouts_and_are_not_paid_again(tmp_path):
    home, settings = tmp_path / "home", {"solana": INSTANT_SOLANA}

    async def resume(desk) -> None:
        async with open_operator(desk.service) as operator:
            for executor_id in desk.service.app.executors:
                request = system_pb2.ResumeExecutorRequest(executor_id=executor_id)
                await operator.call("ResumeExecutor", request)

    wallet = SolanaTestWallet()
    async with open_service(home, **settings) as desk:
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await node.ask("florin_faucet", {"accounts": [wallet.address]})
        held = await node.balance(wallet.address, 0)
        first, second, third = [await sold(desk, wallet, 0) for _ in range(3)]
        await desk.rest.refund(first)
        await desk.wait_refunded(first)
        async with open_operator(desk.service) as operator:
            treasury = desk.service.app.rails[CHAIN].treasury
            request = system_pb2.PauseExecutorRequest(executor_id=treasury)
            await operator.call("PauseExecutor", request)
        requested_request = await desk.rest.refund(second)
    postgres.keep_copy(home)
    async with open_service(home, **settings) as desk:
        await resume(desk)
        await desk.wait_refunded(second)
        await desk.rest.refund(third)
        await desk.wait_refunded(third)
    postgres.restore_copy(home)
    async with open_service(home, **settings) as desk:
        # one refund is known, and was paid; the other one is unknown, and is requested again
        done = await desk.wait_refunded(second)
        assert (done["refundId"], done["status"]) == (requested_request["refundId"], "succeeded")
        result = await wait_until(
            lambda: desk.service.app.store.read(installation.get_behind_reason())
        )
        assert "has 2 transactions of" in result
        again = await desk.rest.refund(third)
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        async with open_operator(desk.service) as operator:
            request = payout_pb2.RefusePayoutRequest(payout_id=again["refundId"])
            await operator.call("RefusePayout", request)
        await resume(desk)
        await books(desk)
    async with open_service(home, **settings) as desk:
        assert await desk.service.app.store.read(installation.get_behind_reason()) == ""
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        assert await node.balance(wallet.address, 0) == held
