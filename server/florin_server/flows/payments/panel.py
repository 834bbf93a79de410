"""What the page of a test payment lets whoever has its link do: pay, decide, move the clock.

A merchant's key is not needed for it, and so it is for test payments alone, and only where the
operator wants it. Nothing here reads what the page showed: each verb looks for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from florin_server.domain.accounts.account import Standing
from florin_server.domain.addresses import network_of
from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.payments.payment import Payment, Status
from florin_server.domain.payments.state import Event
from florin_server.flows.accounts.wallets import checkout_app
from florin_server.flows.app import App, Caller
from florin_server.flows.operator import clock
from florin_server.flows.payments import panel_wallet
from florin_server.flows.payments.idempotent import unstored
from florin_server.flows.payments.simulate import simulate

OUTCOMES: Final[Mapping[str, Event]] = {
    "succeeded": Event.SIMULATE_SUCCEEDED,
    "failed": Event.SIMULATE_FAILED,
    "expired": Event.SIMULATE_EXPIRED,
    "cancelled": Event.SIMULATE_CANCELLED,
    "stall": Event.SIMULATE_STALL,
}
# seconds by which the clock is moved on at a time
STEPS: Final = (60, 3600)


@dataclass(frozen=True, slots=True)
class Panel:
    """What may be done with a payment as it stands.

    `chains` are CAIP-2 with their names, `steps` seconds by which the clock may be moved on.
    """

    chains: Sequence[tuple[str, str]]
    outcomes: Sequence[str]
    steps: Sequence[int]


def panel(app: App, payment: Payment) -> Panel | None:
    """What may be done; None if nothing may, as with live payments and those that are over."""
    if not _allowed(app, payment):
        return None
    open_, busy = payment.status is Status.REQUIRES_ACTION, payment.status is Status.PROCESSING
    chains = [
        (rail.chain_id, next(iter(rail.assets.values())).network_name)
        for rail in panel_wallet.rails(app)
    ]
    outcomes = [one for one in OUTCOMES if open_ or (busy and one not in {"cancelled", "stall"})]
    steps = STEPS if clock.movable(app) is not None and not payment.status.is_final else ()
    found = Panel(chains if open_ else (), outcomes, steps)
    return found if found.chains or outcomes or steps else None


async def pay(app: App, payment: Payment, chain_id: str, peer: str) -> None:
    """Pays with the test wallet on a chain; FlorinError as a wallet's calls have it."""
    _require(app, payment)
    own = await checkout_app(app, live=False)
    network = network_of(peer)
    caller = Caller(
        live=False,
        credential=f"{own.app_id}/test wallet",
        app=own,
        network=network,
        standing=Standing(app_id=own.app_id),
    )
    await panel_wallet.pay(app, caller, payment, chain_id)


async def decide(app: App, payment: Payment, outcome: str) -> None:
    """Gives a payment its outcome; FlorinError(invalid_state) if it cannot have it any more."""
    _require(app, payment)
    event = OUTCOMES.get(outcome)
    if event is None:
        raise FlorinError(Code.INVALID_PARAMS, "Unknown outcome")
    caller = Caller(live=False, partner_id=payment.partner_id)
    await simulate(app, caller, payment.id, event, unstored)


async def advance(app: App, payment: Payment, seconds: int) -> None:
    """Moves the installation's clock on by one of the steps; FlorinError(invalid_state)."""
    _require(app, payment)
    if seconds not in STEPS:
        raise FlorinError(Code.INVALID_PARAMS, "Unknown step")
    await clock.advance(app, Caller(live=False), seconds, unstored)


def _allowed(app: App, payment: Payment) -> bool:
    return app.settings.has_test_panel and not payment.live


def _require(app: App, payment: Payment) -> None:
    if not _allowed(app, payment):
        raise FlorinError(Code.PAYMENT_NOT_FOUND)
