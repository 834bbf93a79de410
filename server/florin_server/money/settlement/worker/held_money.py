"""Screens payers again before their money is posted; money of blocked payers is held.

A payer can be blocked after it received its options, and pay with its own transaction or let a
stranger submit its signature. The chain has moved the money then. Florin neither earns nor returns
it until the operator decides. What Florin itself sent was sent before the payer was blocked: that
succeeds, with an alarm.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Protocol

from florin_server.compliance.screening.context import ScreeningContext
from florin_server.db.context import StorageContext
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.settlement.chain_txs import PaymentOutcome, SettlementItem
from florin_server.money.ledger.service import postings
from florin_server.money.payouts.store import held_money
from florin_server.money.settlement.worker.deposit_payers import find_payer_block, with_payer
from florin_server.rails.protocol import Rail
from florin_server.rails.types import SettlementEvent
from florin_server.settings.context import SettingsContext


class _Context(ScreeningContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)


def get_event_key(event: SettlementEvent) -> tuple[str, str]:
    """Return the transaction of a settlement event, and its identity among all events.

    A nonce is used once, in any transaction and block.
    """
    return event.tx_hash, event.nonce or f"{event.tx_hash}:{event.ref}"


async def screen_success(
    app: _Context, rail: Rail, item: SettlementItem, event: SettlementEvent, outcome: PaymentOutcome
) -> PaymentOutcome:
    """Return the payment's success to conclude; its money is held if its payer is blocked."""
    option = item.option
    block = await find_payer_block(app, option)
    if block is None:
        return outcome
    block_reason, option = block.reason, with_payer(option, block.payer)
    if item.payment.status is PaymentStatus.SUCCEEDED:
        # a reorganization removed it; a final status that was reported stays
        _log.error("payment %s is paid again, and its payer is %s", item.payment.id, block_reason)
        return outcome
    if await app.store.scan(
        held_money.is_sent_by_us(option.chain_id, item.payment.id, event.tx_hash)
    ):
        text = "payment %s succeeds by %s, which was sent before its payer was %s"
        _log.error(text, item.payment.id, event.tx_hash, block_reason)
        return outcome
    return replace(
        outcome,
        status=PaymentStatus.PROCESSING,
        postings=postings.build_held_postings(rail, option),
        held_money=build_held_money(app, rail, option, event, block_reason, is_late=False),
    )


def build_held_money(
    app: StorageContext,
    rail: Rail,
    option: PaymentOption,
    event: SettlementEvent,
    block_reason: str,
    *,
    is_late: bool,
) -> HeldMoney:
    """Return the held money of an event from a blocked payer."""
    split = rail.terms.get_split(option)
    return HeldMoney(
        id=generate_short_id("held_", app.randbytes),
        payment_id=option.payment_id,
        chain_id=option.chain_id,
        asset=option.asset,
        payer=option.payer,
        value=option.value,
        held=postings.get_held_amount(rail, option),
        fee=split.fee,
        settled_value=option.value - split.fee if split.settled else None,
        tx_hash=event.tx_hash,
        event=get_event_key(event)[1],
        late=is_late,
        why=block_reason,
        since_us=app.clock.now_us(),
    )


def report_held(outcomes: Sequence[PaymentOutcome], payments: Collection[Payment]) -> None:
    """Raise the alarm for what is held now."""
    ids = {payment.id for payment in payments}
    for outcome in outcomes:
        if outcome.held_money is not None and outcome.payment_id in ids:
            alert_operator(outcome.held_money)


def alert_operator(held: HeldMoney) -> None:
    """Alert the operator to money that waits for a decision."""
    _log.error(
        "payment %s was paid%s by %s, %s: %s holds %d of the %d of %s until you decide",
        held.payment_id,
        " late" if held.late else "",
        held.tx_hash,
        f"and its payer is {held.why}",
        held.id,
        held.held,
        held.value,
        held.asset,
    )
