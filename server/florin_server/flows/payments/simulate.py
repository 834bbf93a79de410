"""A partner gives a test payment its outcome."""

from __future__ import annotations

from collections.abc import Callable

from florin_server.domain.errors import FlorinError
from florin_server.domain.money import Amount
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payments.state import Event
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.flows.payments.load import find, of_partner
from florin_server.flows.payments.price import price
from florin_server.store.payments import simulation
from florin_server.store.payments.idempotency import Replay


async def simulate(
    app: App, caller: Caller, payment_ref: str, event: Event, receipt: Callable[[Payment], bytes]
) -> Payment | Replay:
    """Moves a payment of any of the partner's merchants without a wallet and without a chain.

    Repeating the outcome of a final payment changes nothing; any other is refused.
    """
    try:
        payment = await find(app, caller, payment_ref, of_partner)
    except FlorinError as fault:
        return await once(app, caller, failing(fault), receipt)
    work = simulation.simulate(
        payment.id, event, requested(app, payment), app.clock.now_us(), caller.request_id
    )
    outcome = await once(app, caller, work, receipt)
    return outcome if isinstance(outcome, Replay) else await app.changed(outcome)


def requested(app: App, payment: Payment) -> Amount:
    """The payment's price in the first asset that can pay it, else in its own unit."""
    for _, asset in app.assets(live=payment.live).values():
        if (cost := price(app, payment, asset)) is not None:
            return Amount(f"caip19/{asset.id}", cost.value)
    return Amount(payment.unit, payment.value)
