"""Verifies and settles payments of x402 for other servers.

The caller's server names what it requires; the payer's signature must say the same. Each signature
is taken once, and answered the same way however often it comes.
"""

from __future__ import annotations

import logging
from typing import Any, Protocol

from florin_server.accounts.store import credential_checks
from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.x402.messages import (
    EXACT,
    VERSION,
    InvalidReason,
    InvalidX402Payment,
    SettlementAnswer,
    X402Payment,
    X402Requirements,
)
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.payments.store import deposit_addresses
from florin_server.money.x402 import store
from florin_server.money.x402.service.transfers import (
    check_transfer,
    get_address,
    get_budget_limits,
    require_same,
    to_answer,
    wait_for_end,
)
from florin_server.money.x402.store import (
    Facilitation,
    FacilitationBudgetExhausted,
)
from florin_server.rails.context import ChainContext
from florin_server.rails.facilitation import FacilitatedTransfer
from florin_server.rails.protocol import Rail
from florin_server.settings.context import SettingsContext


class _Context(
    ChainContext,
    EventContext,
    MeterContext,
    ScreeningContext,
    SettingsContext,
    StorageContext,
    Protocol,
):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)


def list_supported(app: _Context, *, live: bool) -> dict[str, Any]:
    """Return the kinds of payments that a caller's mode can settle, in the protocol's names."""
    rails = [rail for rail in app.rails.values() if rail.live is live]
    kinds = []
    signers: dict[str, list[str]] = {}
    for rail in rails:
        kind = {"x402Version": VERSION, "scheme": EXACT, "network": rail.chain_id}
        extra = dict(rail.facilitator.extra)
        kinds.append({**kind, "extra": extra} if extra else kind)
        family = rail.chain_id.partition(":")[0]
        addresses = signers.setdefault(f"{family}:*", [])
        addresses += [each for each in rail.facilitator.signers if each not in addresses]
    return {"kinds": kinds, "extensions": [], "signers": signers}


async def verify(
    app: _Context, caller: Caller, payment: X402Payment, requirements: X402Requirements
) -> str:
    """Return the payer of a payment that would settle now; InvalidX402Payment otherwise."""
    rail, transfer = _read_transfer(app, caller, payment, requirements)
    payer = get_address(transfer.payer)
    stored = await app.store.read(store.find_facilitation(transfer.key))
    if stored is not None:
        require_same(stored, transfer)
        if stored.state is FacilitationState.FAILED:
            reason = stored.reason or InvalidReason.TRANSACTION_FAILED
            raise InvalidX402Payment(reason, "The payment failed before", payer)
        return payer
    await _check_new(app, rail, transfer)
    used = await app.store.read(
        store.get_used_gas(rail.chain_id, caller.credential, transfer.payer, app.clock.now_us())
    )
    for budget, limit in get_budget_limits(app, rail).items():
        if used[budget] + transfer.gas > limit:
            raise _to_refusal(app, FacilitationBudgetExhausted(budget), payer)
    return payer


async def settle(
    app: _Context, caller: Caller, payment: X402Payment, requirements: X402Requirements
) -> SettlementAnswer:
    """Settle a payment, or return the answer about it: equal signatures, equal answers."""
    try:
        rail, transfer = _read_transfer(app, caller, payment, requirements)
        stored = await app.store.read(store.find_facilitation(transfer.key))
        if stored is None:
            checked = await _check_new(app, rail, transfer)
            stored = await _take(app, rail, caller, checked)
        else:
            require_same(stored, transfer)
    except InvalidX402Payment as error:
        return SettlementAnswer(
            requirements.network, error.payer, reason=error.reason, message=error.message
        )
    return to_answer(await wait_for_end(app, stored))


def _read_transfer(
    app: _Context, caller: Caller, payment: X402Payment, requirements: X402Requirements
) -> tuple[Rail, FacilitatedTransfer]:
    """Return a payment's rail and transfer, checked without the chain."""
    rail = app.rails.get(requirements.network)
    if rail is None or rail.live is not caller.live:
        mode = "live" if caller.live else "test"
        text = f"{requirements.network} is not a network of this facilitator in {mode} mode"
        raise InvalidX402Payment(InvalidReason.NETWORK, text)
    if payment.accepted != requirements:
        text = "The client accepted other requirements than the server states"
        raise InvalidX402Payment(InvalidReason.ACCEPTED, text)
    now_s = app.clock.now_us() // 1_000_000
    return rail, rail.facilitator.read_transfer(payment, requirements, now_s)


async def _check_new(
    app: _Context, rail: Rail, transfer: FacilitatedTransfer
) -> FacilitatedTransfer:
    """Return a transfer that can be taken for a server; those of Florin's payments cannot."""
    note = transfer.note
    if note.isascii() and note.isalnum():
        offered = await app.store.read(deposit_addresses.find_payment(rail.chain_id, note))
        if offered is not None:
            # sent for a server, it would move the money, and no payment would be bound to it
            text = "The memo is that of a payment here: send the signature to the payment's link"
            raise InvalidX402Payment(InvalidReason.OTHER_PAYMENT, text, get_address(transfer.payer))
    return await check_transfer(app, rail, transfer)


async def _take(
    app: _Context, rail: Rail, caller: Caller, transfer: FacilitatedTransfer
) -> Facilitation:
    """Store a transfer to be sent; the store decides which of several calls is the first."""
    limits = get_budget_limits(app, rail)
    work = store.add_facilitation(transfer, caller.credential, limits, app.clock.now_us())
    try:
        stored = await app.store.write(
            credential_checks.run_if_active(caller.credential_status, work)
        )
    except FacilitationBudgetExhausted as error:
        raise _to_refusal(app, error, get_address(transfer.payer)) from error
    app.notifier.publish(Topic.SETTLEMENT, rail.chain_id)
    return stored


def _to_refusal(
    app: _Context, error: FacilitationBudgetExhausted, payer: str
) -> InvalidX402Payment:
    app.meters.create_refusal_counter(f"facilitator_{error.budget.value}")()
    text = f"The hour's budget of the {error.budget.value} for gas is exhausted: try again later"
    return InvalidX402Payment(InvalidReason.BUDGET, text, payer)
