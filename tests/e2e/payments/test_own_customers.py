"""A merchant pays itself from its own settlement account: that ends like any other payment."""

from __future__ import annotations

import asyncio
import json

import pytest
from florin.v1 import payout_pb2
from florin_server.domain.ledger import journals
from florin_server.domain.payments.payment import Destination
from florin_server.flows.ledger import books
from florin_server.store.accounts import destinations
from florin_server.store.ledger.books import entries

from tests.support.books import SETTINGS, exact
from tests.support.desk import Desk, opened
from tests.support.installation import operator_of
from tests.support.late_money import payouts_of
from tests.support.payout_shop import CHAIN, DOLLAR, GBP, PRICE, USD, Shop, filled
from tests.support.receipts import receipt_of, said_in
from tests.support.solana import ASSETS, SolanaNode, SolanaWallet
from tests.support.solana_offers import offered
from tests.support.until import until
from tests.support.wallet import Wallet

FREE = {**SETTINGS, "fee_fixed": 0, "fee_basis_points": 0}
FEES = pytest.mark.parametrize("fees", [SETTINGS, FREE], ids=["fee", "free"])


async def owner(desk: Desk, asset: str) -> tuple[Shop, Wallet]:
    """Make a shop whose settlement destination is the wallet of its own customer."""
    shop, wallet = Shop(desk, await desk.tenant()), Wallet()
    await filled(desk, wallet)
    await desk.chain.fund(wallet.address)
    await shop.wants(asset, wallet.address.lower())
    return shop, wallet


async def others_succeed(desk: Desk) -> None:
    """Prove that the service settles other payments, and that the books are whole."""
    shop, wallet = Shop(desk, await desk.tenant()), Wallet()
    await filled(desk, wallet)
    await shop.sold(wallet, USD)
    assert await desk.service.workers.problems() == {}
    await exact(desk)


async def booked(desk: Desk, payment_id: str) -> list[tuple[str, int]]:
    """Return what was booked for a payment: kind of journal and amount."""
    found = await desk.service.app.store.read(entries(payment_id))
    return [(one.key.partition(":")[0], one.posting.amount) for one in found]


@FEES
@pytest.mark.parametrize("way", ["signature", "coin"])
async def test_payment_from_own_settlement_account_succeeds(tmp_path, forks, way, fees):
    asset, amount = (f"erc20:{DOLLAR}", USD) if way == "signature" else ("slip44:60", GBP)
    async with opened(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, asset)
        payment_id = await shop.sold(wallet, amount)
        await others_succeed(desk)
        moved = await booked(desk, payment_id)
        assert all(kind == "settle" for kind, _ in moved)
        assert len(moved) == (fees is SETTINGS)
        said = said_in(await receipt_of(desk, payment_id, shop.tenant.headers))
        assert payment_id in json.dumps(said)
    folder = tmp_path / "export"
    done = await asyncio.to_thread(forks, "export", "--to", str(folder), home=tmp_path / "home")
    assert done.status == 0, done
    exported = b"".join(one.read_bytes() for one in folder.rglob("*") if one.is_file())
    assert payment_id.encode() in exported
    async with opened(tmp_path / "home", **fees) as desk:
        await others_succeed(desk)
        assert (await desk.rest.status(payment_id))["status"] == "succeeded"
        assert await booked(desk, payment_id) == moved


@FEES
async def test_late_coin_from_own_settlement_account_is_recorded(tmp_path, fees):
    async with opened(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, "slip44:60")
        made = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": GBP})
        payment_id = made["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        actions = option["actions"]
        if actions[0]["type"] == "build":
            data = actions[0]["data"]["data"]
            actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
        path = f"/v1/payments/{payment_id}/cancel"
        await desk.rest.call("POST", path, shop.tenant.headers, {})
        await wallet.perform(desk.chain, actions)
        await until(lambda: payouts_of(desk, payment_id))
        await others_succeed(desk)
        (back,) = await payouts_of(desk, payment_id)
        assert back.kind == payout_pb2.PAYOUT_KIND_RETURN
    async with opened(tmp_path / "home", **fees) as desk:
        await others_succeed(desk)
        # it was recorded once
        assert len(await payouts_of(desk, payment_id)) == 1


@FEES
async def test_refund_and_payout_to_own_settlement_account_are_paid(tmp_path, fees):
    async with opened(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, f"erc20:{DOLLAR}")
        payment_id = await shop.sold(wallet, USD)
        refund = await shop.refund(payment_id)
        assert refund["status"] == "succeeded"
        assert await shop.owed(f"erc20:{DOLLAR}") == -PRICE
        # and its balance is paid out to the account that paid
        other, payer = Shop(desk, await desk.tenant()), Wallet()
        await filled(desk, payer)
        await other.sold(payer, USD)
        await other.wants(f"erc20:{DOLLAR}", payer.address.lower())
        owed = await other.owed(f"erc20:{DOLLAR}")
        async with operator_of(desk.service) as operator:
            request = payout_pb2.CreatePayoutRequest(
                merchant_id=other.tenant.merchant.id,
                asset=f"{CHAIN}/erc20:{DOLLAR}",
                amount=str(owed),
            )
            made = await operator.ask("CreatePayout", request)
        await until(lambda: paid_out(desk, made.payout_id))
        await others_succeed(desk)
        found = await books.check(desk.service.app)
        assert list(found.problems) == []


async def paid_out(desk: Desk, payout_id: str) -> bool:
    async with operator_of(desk.service) as operator:
        found = await operator.ask("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    (one,) = [one for one in found.payouts if one.payout_id == payout_id]
    return bool(one.status == payout_pb2.PAYOUT_STATUS_DONE)


@FEES
async def test_solana_payment_from_own_settlement_account_succeeds(tmp_path, fees):
    async with opened(tmp_path / "home", **fees) as desk:
        tenant, wallet = await desk.tenant(), SolanaWallet()
        node = SolanaNode(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        place = Destination("crypto_own", tenant.merchant.id, ASSETS[0], wallet.account)
        await desk.service.app.store.write(destinations.put_destination(place))
        offer = await offered(desk.rest, wallet, 0, tenant.headers)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        assert await node.balance(wallet.address, 0) > 0
        said_in(await receipt_of(desk, offer.payment_id, tenant.headers))
        offer = await offered(desk.rest, SolanaWallet(), 0)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        await others_succeed(desk)


def test_journals_without_transfers_are_of_payments_alone():
    assert journals.may_move_nothing("settle")
    assert journals.may_move_nothing("reverse_late")
    assert not journals.may_move_nothing("payout")
    assert not journals.may_move_nothing("gas")
