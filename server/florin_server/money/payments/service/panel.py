"""The panel on the page of a test payment: pay, decide the outcome, advance the clock.

Anyone with the link can use it without a merchant's key, and so it exists for test payments alone,
and only if the operator allows it. No action relies on what the page showed: each checks for
itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.accounts.service.wallets import get_checkout_app
from florin_server.base.context import EventContext, MeterContext
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.account import CredentialStatus
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.addresses import get_peer_network
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.idempotency.service import discard_response
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service import panel_wallet
from florin_server.money.payments.service.simulate import simulate
from florin_server.operations.context import WorkerContext
from florin_server.operations.service import clock
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(
    ArchiveContext,
    ChainContext,
    EventContext,
    LimitContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    UsageContext,
    WorkerContext,
    Protocol,
):
    """The parts of the application that this module uses."""


OUTCOMES: Final[Mapping[str, PaymentStateEvent]] = {
    "succeeded": PaymentStateEvent.SIMULATE_SUCCEEDED,
    "failed": PaymentStateEvent.SIMULATE_FAILED,
    "expired": PaymentStateEvent.SIMULATE_EXPIRED,
    "cancelled": PaymentStateEvent.SIMULATE_CANCELLED,
    "stall": PaymentStateEvent.SIMULATE_STALL,
}
# seconds of one advance of the clock
STEPS: Final = (60, 3600)


@dataclass(frozen=True, slots=True)
class SandboxPanel:
    """The available actions of a payment.

    `chains` are CAIP-2 with their names, `steps` the seconds by which the clock can be advanced.
    """

    chains: Sequence[tuple[str, str]]
    outcomes: Sequence[str]
    steps: Sequence[int]


def find_panel(app: _Context, payment: Payment) -> SandboxPanel | None:
    """Return the available actions; None for live payments and payments that have ended."""
    if not _is_allowed(app, payment):
        return None
    open_, busy = (
        payment.status is PaymentStatus.REQUIRES_ACTION,
        payment.status is PaymentStatus.PROCESSING,
    )
    chains = [
        (rail.chain_id, next(iter(rail.assets.values())).network_name)
        for rail in panel_wallet.list_rails(app)
    ]
    outcomes = [
        outcome for outcome in OUTCOMES if open_ or (busy and outcome not in {"cancelled", "stall"})
    ]
    steps = (
        STEPS if clock.find_movable_clock(app) is not None and not payment.status.is_final else ()
    )
    panel = SandboxPanel(chains if open_ else (), outcomes, steps)
    return panel if panel.chains or outcomes or steps else None


async def pay(app: _Context, payment: Payment, chain_id: str, peer: str) -> None:
    """Pay with the test wallet on a chain; ApiError as for a wallet's calls."""
    _require_panel(app, payment)
    own = await get_checkout_app(app, live=False)
    network = get_peer_network(peer)
    caller = Caller(
        live=False,
        credential=f"{own.app_id}/test wallet",
        app=own,
        network=network,
        credential_status=CredentialStatus(app_id=own.app_id),
    )
    await panel_wallet.pay(app, caller, payment, chain_id)


async def set_outcome(app: _Context, payment: Payment, outcome: str) -> None:
    """Set the outcome of a payment; ApiError(invalid_state) if it can no longer have it."""
    _require_panel(app, payment)
    event = OUTCOMES.get(outcome)
    if event is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, "Unknown outcome")
    caller = Caller(live=False, partner_id=payment.partner_id)
    await simulate(app, caller, payment.id, event, discard_response)


async def advance_clock(app: _Context, payment: Payment, seconds: int) -> None:
    """Advance the installation's clock by one of the steps; ApiError(invalid_state)."""
    _require_panel(app, payment)
    if seconds not in STEPS:
        raise ApiError(ErrorCode.INVALID_PARAMS, "Unknown step")
    await clock.advance(app, Caller(live=False), seconds, discard_response)


def _is_allowed(app: SettingsContext, payment: Payment) -> bool:
    return app.settings.has_test_panel and not payment.live


def _require_panel(app: SettingsContext, payment: Payment) -> None:
    if not _is_allowed(app, payment):
        raise ApiError(ErrorCode.PAYMENT_NOT_FOUND)
