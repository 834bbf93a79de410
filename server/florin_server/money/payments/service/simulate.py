"""A partner gives a test payment its outcome."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.errors import ApiError
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.payments.service.load import get_payment, is_of_partner
from florin_server.money.payments.service.price import find_price
from florin_server.money.payments.store import simulation
from florin_server.operations.context import WorkerContext
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    SettingsContext,
    StorageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


async def simulate(
    app: _Context,
    caller: Caller,
    payment_ref: str,
    event: PaymentStateEvent,
    encode_response: Callable[[Payment], bytes],
) -> Payment | StoredResponse:
    """Move a payment of any of the partner's merchants without a wallet and without a chain.

    Repeating the outcome of a final payment changes nothing; any other is refused.
    """
    try:
        payment = await get_payment(app, caller, payment_ref, is_of_partner)
    except ApiError as fault:
        return await run_once(app, caller, fail_with(fault), encode_response)
    work = simulation.simulate(
        payment.id, event, get_requested_amount(app, payment), app.clock.now_us(), caller.request_id
    )
    outcome = await run_once(app, caller, work, encode_response)
    return outcome if isinstance(outcome, StoredResponse) else app.notifier.publish_payment(outcome)


def get_requested_amount(app: _Context, payment: Payment) -> Amount:
    """Return the payment's price in the first asset that can pay it, else in its own unit."""
    for _, asset in app.list_assets(live=payment.live).values():
        if (cost := find_price(app, payment, asset)) is not None:
            return Amount(f"caip19/{asset.id}", cost.value)
    return Amount(payment.unit, payment.value)
