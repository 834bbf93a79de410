"""Pays a payment of Florin by x402: a program signs one transfer to what the payment offers.

On EVM chains that is an address which any wallet could send to, so what arrives there is forwarded
and proven like any other money at it. On Solana the final transaction is the proof, like that of a
transfer by a link. One transfer is bound to a payment at a time; no other is sent until that has
failed.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Protocol

from florin_server.base.context import EventContext, MeterContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.payments.payment import Payment
from florin_server.domain.x402.messages import (
    InvalidReason,
    InvalidX402Payment,
    X402Payment,
)
from florin_server.limits.context import LimitContext
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.context import UsageContext
from florin_server.money.payments.service.checkout import find_payment
from florin_server.money.settlement.store.settlement_items import FAILURES_MAX
from florin_server.money.x402 import store
from florin_server.money.x402.service.offers import X402Offer
from florin_server.money.x402.service.transfers import (
    check_transfer,
    get_address,
    get_budget_limits,
    require_same,
    wait_for_change,
    wait_for_end,
)
from florin_server.money.x402.store import (
    Facilitation,
    FacilitationBudgetExhausted,
    PaymentBound,
)
from florin_server.operations.context import WorkerContext
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


_log = logging.getLogger(__name__)


async def find_transfer(app: StorageContext, payment_id: str) -> Facilitation | None:
    """Return the transfer that is bound to a payment; None if a program can sign another."""
    return await app.store.read(store.find_bound(payment_id))


async def wait_for_transfer(app: _Context, facilitation: Facilitation) -> Facilitation:
    """Return a bound transfer once it has ended, or as it is after the longest wait."""
    return await wait_for_end(app, facilitation)


async def wait_for_payment(app: _Context, payment: Payment) -> Payment:
    """Return a payment once it is final, or as it is after the longest wait."""

    async def read() -> Payment | None:
        return await find_payment(app, payment.id)

    def is_over(current: Payment) -> bool:
        return current.status.is_final

    return await wait_for_change(app, (Topic.PAYMENT, payment.id), payment, read, is_over)


async def submit(
    app: _Context, payment: Payment, signed: X402Payment, offers: list[X402Offer]
) -> Facilitation:
    """Bind a signed transfer to a payment; InvalidX402Payment if it does not pay it.

    Another transfer that is bound already stays; it is returned if this one is the same.
    """
    offer = _find_offer(signed, offers)
    requirements = offer.requirements
    rail = app.rails[requirements.network]
    now_s = app.clock.now_us() // 1_000_000
    transfer = rail.facilitator.read_transfer(signed, requirements, now_s)
    stored = await app.store.read(store.find_facilitation(transfer.key))
    if stored is not None:
        require_same(stored, transfer)
        if stored.payment_id != payment.id:
            text = "The signature belongs to another payment"
            raise InvalidX402Payment(InvalidReason.OTHER_PAYMENT, text, get_address(stored.payer))
        if stored.reason is not None:
            text = "The transfer failed: sign another one"
            raise InvalidX402Payment(stored.reason, text, get_address(stored.payer))
        return stored
    if await app.store.read(store.count_failed(payment.id)) >= FAILURES_MAX:
        text = "Too many transfers for this payment failed: open its payment link instead"
        raise InvalidX402Payment(InvalidReason.BUDGET, text, get_address(transfer.payer))
    checked = await check_transfer(app, rail, transfer)
    work = store.add_facilitation(
        replace(checked, expires_at=min(checked.expires_at, offer.until_s)),
        "",
        get_budget_limits(app, rail),
        app.clock.now_us(),
        payment_id=payment.id,
    )
    try:
        stored = await app.store.write(work)
    except (PaymentBound, FacilitationBudgetExhausted) as error:
        is_bound = isinstance(error, PaymentBound)
        reason = InvalidReason.OTHER_PAYMENT if is_bound else InvalidReason.BUDGET
        text = "The payment is being paid" if is_bound else "Too many transfers failed"
        raise InvalidX402Payment(reason, text, get_address(transfer.payer)) from error
    app.notifier.publish(Topic.SETTLEMENT, rail.chain_id)
    return stored


def _find_offer(signed: X402Payment, offers: list[X402Offer]) -> X402Offer:
    """Return the offer that a client accepted, by our own terms and never by what it sent."""
    accepted = signed.accepted
    for offer in offers:
        required = offer.requirements
        # the time left changes with every answer
        if replace(accepted, timeout_s=required.timeout_s) == required:
            return offer
    text = "The client accepted other requirements than those of the payment"
    raise InvalidX402Payment(InvalidReason.ACCEPTED, text)
