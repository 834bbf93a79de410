"""Test the worker of transfers by x402: which ones it ends, and that none stops others."""

from __future__ import annotations

from types import SimpleNamespace
from unittest.mock import AsyncMock, Mock

import pytest
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.x402.worker import FacilitatedTransfers
from florin_server.rails.types import RailUnavailable
from florin_server.settings import X402Settings

from tests.support.service_harness import open_service
from tests.support.x402 import NETWORK, X402Buyer, X402Server, make_requirements

SHOP = "0x" + "5b" * 20


@pytest.mark.parametrize("error", [RailUnavailable("pruned"), KeyError("gasUsed")])
async def test_unreadable_outcome_of_one_transfer_stops_no_other(tmp_path, monkeypatch, error):
    settings = X402Settings(facilitator=True, wait_s=2)
    async with open_service(tmp_path / "home", x402=settings) as service:
        server, buyers = await X402Server.create(service), [X402Buyer(), X402Buyer()]
        for buyer in buyers:
            await service.chain.fund(buyer.address)
        facilitator = service.service.app.rails[NETWORK].facilitator
        find_outcome = facilitator.find_outcome

        async def fail_for_the_first(transfer, tx_hash):
            if transfer.payer.endswith(buyers[0].address.lower()):
                raise error
            return await find_outcome(transfer, tx_hash)

        monkeypatch.setattr(facilitator, "find_outcome", fail_for_the_first)
        first, second = (buyer.sign(make_requirements(SHOP), service.now) for buyer in buyers)
        answer = await server.settle(first)
        assert (answer["success"], answer["errorReason"]) == (False, "settlement_pending")
        assert (await server.settle(second))["success"]
        monkeypatch.undo()
        assert (await server.settle(first))["success"]


@pytest.mark.parametrize(
    ("status", "age_s", "is_ended"),
    [
        # perhaps paid by a stranger's copy, which a reorganization can remove and bring back
        (PaymentStatus.PROCESSING, 10, False),
        (PaymentStatus.PROCESSING, 300, True),
        (PaymentStatus.SUCCEEDED, 10, True),
        (PaymentStatus.EXPIRED, 10, True),
    ],
)
async def test_transfer_of_a_payment_in_progress_is_neither_sent_nor_ended(status, age_s, is_ended):
    waiting = SimpleNamespace(
        state=FacilitationState.WAITING,
        payment_id="pay_1",
        key="key",
        transfer=None,
        expires_at=300,
    )
    payment = SimpleNamespace(with_expiry=lambda _: SimpleNamespace(status=status))
    facilitator = SimpleNamespace(find_outcome=AsyncMock(return_value=Mock(paid_by="0x")))
    store = Mock(
        payments=Mock(find=AsyncMock(return_value=payment)),
        read=AsyncMock(return_value=[waiting]),
        write=AsyncMock(),
    )
    clock = Mock(steady_us=lambda: 0, now_us=lambda: age_s * 1_000_000)
    app = Mock(store=store, clock=clock)
    senders = Mock()
    transfers = FacilitatedTransfers(app, Mock(chain_id=NETWORK, facilitator=facilitator))
    await transfers.run_turn(senders)
    assert facilitator.find_outcome.await_count == is_ended
    senders.find_free.assert_not_called()
