"""Test payments by x402 on Solana whose transfer and whose end lie far apart."""

from __future__ import annotations

from unittest.mock import AsyncMock

import pytest
from florin_sandbox.devnet.solana import SOLANA_DEVNET
from florin_server.money.settlement.worker.requested_payments import RequestedPayments
from florin_server.rails.solana.rail import SolanaRail
from florin_server.rails.types import RailUnavailable
from florin_server.settings import X402Settings

from tests.support.operator import check_ledger
from tests.support.service_harness import open_service
from tests.support.solana import INSTANT_SOLANA, SolanaNodeClient, SolanaTestWallet
from tests.support.solana_pay import ORDER, PRICE, fund, let_time_pass
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


@pytest.mark.parametrize(("fees", "status"), [({}, 503), ({"fee_fixed": 7}, 400)])
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
