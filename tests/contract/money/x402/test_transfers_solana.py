"""Test payments by x402 on Solana whose transfer and whose end lie far apart."""

from __future__ import annotations

from functools import partial
from unittest.mock import AsyncMock

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.domain.ledger.postings import build_merchant_deposit_postings
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.service import credit
from florin_server.money.settlement.worker.requested_payments import RequestedPayments
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable
from florin_server.settings import X402Settings

from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.solana import ASSETS, INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import ORDER, PRICE, fund, give_coin, let_time_pass, open_link
from tests.support.until import wait_until
from tests.support.x402 import request
from tests.support.x402_solana_payments import (
    CHAIN,
    create_offer,
    list_offers,
    list_returns,
    open_accounts,
    pay_until_final,
    sign,
    status_of,
    wait_sent,
)

SETTINGS = {"solana": INSTANT_SOLANA, "x402": X402Settings(wait_s=0.1)}


async def test_transfer_that_is_read_hours_after_the_end_is_returned(tmp_path, monkeypatch):
    async with open_service(tmp_path / "home", **SETTINGS) as service:
        await open_accounts(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        buyer, merchant = SolanaTestWallet(), service.env["FLORIN_SOLANA_DESTINATION"]
        merchant = merchant.rpartition(":")[2]
        await fund(node, buyer)
        payment_id, offer = await create_offer(service, {**ORDER, "expiresAt": service.now + 120})
        facilitator = service.service.app.rails[CHAIN].facilitator
        before = await node.balance(merchant)
        with monkeypatch.context() as patch:
            # no node has the transaction
            missing = AsyncMock(side_effect=RailUnavailable("pruned"))
            patch.setattr(facilitator, "find_outcome", missing)
            signed = await sign(node, buyer, offer)
            assert (await request(service, payment_id, signed)).status == 202
            await wait_sent(service, payment_id)
            await let_time_pass(service, node, 2)
            assert await node.balance(merchant) == before + PRICE
            service.clock.advance(2 * 3_600)
            await let_time_pass(service, node)
            assert await status_of(service, payment_id) == "expired"
        await wait_until(
            lambda: list_returns(service, payment_id) == [("return", buyer.account)],
            meanwhile=lambda: let_time_pass(service, node, 1),
        )
        await check_ledger(service)


async def test_final_transfer_whose_payment_was_not_bound_pays_after_a_restart(
    tmp_path, monkeypatch
):
    home, buyer = tmp_path / "home", SolanaTestWallet()

    async def add_nothing(_self) -> None:
        """Stop between the end of the transfer and the payment's."""

    with monkeypatch.context() as patch:
        patch.setattr(RequestedPayments, "_add_settled", add_nothing)
        async with open_service(home, **SETTINGS) as service:
            await open_accounts(service)
            node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
            await fund(node, buyer)
            payment_id, offer = await create_offer(service, ORDER)
            signed = await sign(node, buyer, offer)
            query = "SELECT state FROM facilitation WHERE payment_id = ?"
            await request(service, payment_id, signed)
            await wait_until(
                lambda: service.select(query, payment_id) == [("succeeded",)],
                meanwhile=lambda: let_time_pass(service, node, 1),
            )
            await let_time_pass(service, node)
            # the answer does not invite to pay again
            assert (await request(service, payment_id)).status == 202
    async with open_service(home, **SETTINGS) as service:
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        answer, _ = await pay_until_final(service, node, payment_id, signed)
        assert answer.status == 200
        await check_ledger(service)


async def test_final_transfer_that_was_not_bound_in_time_is_returned_by_a_daily_look(
    tmp_path, monkeypatch
):
    async def add_nothing(_self) -> None:
        """Miss every transfer while its address is watched."""

    monkeypatch.setattr(RequestedPayments, "_add_settled", add_nothing)
    async with open_service(tmp_path / "home", **SETTINGS) as service:
        await open_accounts(service)
        node = SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"])
        buyer = SolanaTestWallet()
        await fund(node, buyer)
        payment_id, offer = await create_offer(service, {**ORDER, "expiresAt": service.now + 120})
        await request(service, payment_id, await sign(node, buyer, offer))
        query = "SELECT state FROM facilitation WHERE payment_id = ?"
        await wait_until(
            lambda: service.select(query, payment_id) == [("succeeded",)],
            meanwhile=lambda: let_time_pass(service, node, 1),
        )
        service.clock.advance(130)
        await let_time_pass(service, node)
        assert await status_of(service, payment_id) == "expired"
        assert list_returns(service, payment_id) == []
        service.clock.advance(3 * 3_600)
        await wait_until(
            lambda: list_returns(service, payment_id) == [("return", buyer.account)],
            meanwhile=lambda: let_time_pass(service, node, 1),
        )
        await check_ledger(service)


async def test_x402_url_is_there_if_only_solana_can_be_paid(tmp_path):
    async with open_service(tmp_path / "home", **SETTINGS) as service:
        for rail in service.service.app.rails.values():
            if rail.addresses is not None:
                rail.addresses = None
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        url = (await service.rest.detail(payment_id))["x402Url"]
        assert url.endswith(f"/x402/{payment_id}")
        # known only once the cluster is asked
        assert (await request(service, payment_id)).refusal == (400, "invalid_state")
        await open_accounts(service)
        assert len(await list_offers(service, payment_id)) == len(SOLANA_DEVNET.tokens)


async def test_transfer_needs_cover_for_its_fee(tmp_path, monkeypatch):
    fees = {"fee_fixed": 70_000, "owed_fees": True, "refund_credit": {ASSETS[0]: 100_000}}
    # the sandbox's money is test money, which has no such limit
    find_live = partial(credit.find_credit, live=True)
    monkeypatch.setattr(credit, "find_credit", lambda app, asset, live: find_live(app, asset))
    async with open_service(tmp_path / "home", **SETTINGS, **fees) as service:
        await open_accounts(service)
        await give_coin(service)
        node, buyer = (
            SolanaNodeClient(service.session, service.env["FLORIN_SOLANA_RPC_URL"]),
            SolanaTestWallet(),
        )
        await fund(node, buyer)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        # only the first token has a credit
        (offer,) = await list_offers(service, payment_id)
        assert offer["amount"] == str(PRICE)
        answer, _ = await pay_until_final(service, node, payment_id, await sign(node, buyer, offer))
        assert answer.status == 200
        service.clock.advance(11)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        refused = await open_link(service, payment_id)
        assert refused.refusal == (400, "invalid_state")
        assert "do not cover" in refused.text
        assert await list_offers(service, payment_id) == []
        # the merchant pays what it owes
        merchant_id = service.select("SELECT merchant_id FROM fee_debtor")[0][0]
        legs = build_merchant_deposit_postings("w", ASSETS[0], 70_000, merchant_id)
        paid = ledger.post("operator:1", "operator", None, None, legs, 0)
        await service.service.app.store.write(paid)
        service.clock.advance(11)
        assert (await open_link(service, payment_id)).status == 200
        assert len(await list_offers(service, payment_id)) == 1


@pytest.mark.parametrize(
    ("fees", "status"),
    [({}, 503), ({"fee_fixed": 7}, 400), ({"fee_fixed": 7, "owed_fees": True}, 503)],
)
async def test_cluster_that_did_not_answer_since_the_start_is_tried_again(
    tmp_path, monkeypatch, fees, status
):
    async with open_service(tmp_path / "home", **SETTINGS, **fees) as service:
        await open_accounts(service)
        payment_id = (await service.rest.create(ORDER))["paymentId"]
        for rail in service.service.app.rails.values():
            if rail.addresses is not None:
                rail.addresses = None
        with monkeypatch.context() as patch:
            patch.setattr(SolanaRail, "assets", {})
            answer = await request(service, payment_id)
            assert answer.status == status
            assert answer.headers.get("Retry-After") == ("1" if status == 503 else None)
