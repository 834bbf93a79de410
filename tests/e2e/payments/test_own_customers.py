"""A merchant pays itself from its own destination: that ends like any other payment."""

from __future__ import annotations

import asyncio
import json

import pytest
from florin.v1 import payout_pb2

from tests.support import operator
from tests.support.books import SETTINGS, wait_exact
from tests.support.installation import open_operator
from tests.support.late_money import list_payouts
from tests.support.merchant_tenant import set_destinations
from tests.support.payout_merchant import (
    CHAIN,
    DOLLAR,
    GBP,
    PRICE,
    USD,
    PayoutMerchant,
    wait_faucet_booked,
)
from tests.support.receipts import decode_claims, get_receipt
from tests.support.service_harness import ServiceHarness, open_service
from tests.support.solana import ASSETS, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_offers import make_offer
from tests.support.until import wait_until
from tests.support.wallet import EvmTestWallet

FREE = {**SETTINGS, "fee_fixed": 0, "fee_basis_points": 0}
FEES = pytest.mark.parametrize("fees", [SETTINGS, FREE], ids=["fee", "free"])


async def owner(desk: ServiceHarness, asset: str) -> tuple[PayoutMerchant, EvmTestWallet]:
    """Make a merchant whose destination is the wallet of its own customer."""
    shop, wallet = PayoutMerchant(desk, await desk.tenant()), EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await desk.chain.fund(wallet.address)
    await shop.set_destination(asset, wallet.address.lower())
    return shop, wallet


async def others_succeed(desk: ServiceHarness) -> None:
    """Assert that the service settles other payments, and that the books balance."""
    shop, wallet = PayoutMerchant(desk, await desk.tenant()), EvmTestWallet()
    await wait_faucet_booked(desk, wallet)
    await shop.create_paid_payment(wallet, USD)
    assert await desk.service.workers.find_problems() == {}
    await wait_exact(desk)


async def booked(desk: ServiceHarness, payment_id: str) -> list[tuple[str, int]]:
    """Return the bookings of a payment: kind of journal and amount."""
    entries = await operator.list_entries(desk, payment_id)
    return [(entry.journal.partition(":")[0], int(entry.amount)) for entry in entries]


@FEES
@pytest.mark.parametrize("way", ["signature", "coin"])
async def test_payment_from_own_settlement_account_succeeds(tmp_path, forks, way, fees):
    asset, amount = (f"erc20:{DOLLAR}", USD) if way == "signature" else ("slip44:60", GBP)
    async with open_service(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, asset)
        payment_id = await shop.create_paid_payment(wallet, amount)
        await others_succeed(desk)
        moved = await booked(desk, payment_id)
        assert all(kind == "settle" for kind, _ in moved)
        assert len(moved) == (fees is SETTINGS)
        claims = decode_claims(await get_receipt(desk, payment_id, shop.tenant.headers))
        assert payment_id in json.dumps(claims)
    folder = tmp_path / "export"
    done = await asyncio.to_thread(forks, "export", "--to", str(folder), home=tmp_path / "home")
    assert done.status == 0, done
    exported = b"".join(item.read_bytes() for item in folder.rglob("*") if item.is_file())
    assert payment_id.encode() in exported
    async with open_service(tmp_path / "home", **fees) as desk:
        await others_succeed(desk)
        assert (await desk.rest.status(payment_id))["status"] == "succeeded"
        assert await booked(desk, payment_id) == moved


@FEES
async def test_late_coin_from_own_settlement_account_is_recorded(tmp_path, fees):
    async with open_service(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, "slip44:60")
        created = await desk.rest.call("POST", "/v1/payments", shop.tenant.headers, {"amount": GBP})
        payment_id = created["paymentId"]
        (option,) = (await desk.rest.options(payment_id, [wallet.account]))["options"]
        actions = option["actions"]
        if actions[0]["type"] == "build":
            data = actions[0]["data"]["data"]
            actions = (await desk.rest.fetch(payment_id, option["id"], data))["actions"]
        path = f"/v1/payments/{payment_id}/cancel"
        await desk.rest.call("POST", path, shop.tenant.headers, {})
        await wallet.perform(desk.chain, actions)
        await wait_until(lambda: list_payouts(desk, payment_id))
        await others_succeed(desk)
        (back,) = await list_payouts(desk, payment_id)
        assert back.kind == payout_pb2.PAYOUT_KIND_RETURN
    async with open_service(tmp_path / "home", **fees) as desk:
        await others_succeed(desk)
        # it was recorded once
        assert len(await list_payouts(desk, payment_id)) == 1


@FEES
async def test_refund_and_payout_to_own_settlement_account_are_paid(tmp_path, fees):
    async with open_service(tmp_path / "home", **fees) as desk:
        shop, wallet = await owner(desk, f"erc20:{DOLLAR}")
        payment_id = await shop.create_paid_payment(wallet, USD)
        refund = await shop.refund(payment_id)
        assert refund["status"] == "succeeded"
        assert await shop.get_owed(f"erc20:{DOLLAR}") == -PRICE
        # and its balance is paid out to the account that paid
        other, payer = PayoutMerchant(desk, await desk.tenant()), EvmTestWallet()
        await wait_faucet_booked(desk, payer)
        await other.create_paid_payment(payer, USD)
        await other.set_destination(f"erc20:{DOLLAR}", payer.address.lower())
        owed = await other.get_owed(f"erc20:{DOLLAR}")
        async with open_operator(desk.service) as stub:
            request = payout_pb2.CreatePayoutRequest(
                merchant_id=other.tenant.merchant.id,
                asset=f"{CHAIN}/erc20:{DOLLAR}",
                amount=str(owed),
            )
            created = await stub.call("CreatePayout", request)
        await wait_until(lambda: paid_out(desk, created.payout_id))
        await others_succeed(desk)
        await operator.check_ledger(desk)


async def paid_out(desk: ServiceHarness, payout_id: str) -> bool:
    async with open_operator(desk.service) as stub:
        result = await stub.call("ListPayouts", payout_pb2.ListPayoutsRequest(all=True))
    (item,) = [payout for payout in result.payouts if payout.payout_id == payout_id]
    return bool(item.status == payout_pb2.PAYOUT_STATUS_DONE)


@FEES
async def test_solana_payment_from_own_settlement_account_succeeds(tmp_path, fees):
    async with open_service(tmp_path / "home", **fees) as desk:
        tenant, wallet = await desk.tenant(), SolanaTestWallet()
        node = SolanaNodeClient(desk.session, desk.env["FLORIN_SOLANA_RPC_URL"])
        await set_destinations(tenant, {ASSETS[0]: wallet.account})
        offer = await make_offer(desk.rest, wallet, 0, tenant.headers)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        assert await node.balance(wallet.address, 0) > 0
        decode_claims(await get_receipt(desk, offer.payment_id, tenant.headers))
        offer = await make_offer(desk.rest, SolanaTestWallet(), 0)
        await offer.confirm()
        assert (await offer.final())["status"] == "succeeded"
        await others_succeed(desk)
