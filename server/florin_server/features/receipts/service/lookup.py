"""Looking up the place of a payment that ended before places were stored: its chain is read."""

from __future__ import annotations

from florin_server.domain.payments.payment import Confirmation, Payment, PaymentOption
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.payments.service.load import chain_unavailable_error
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable, SettlementEvent


async def find_effect(
    rail: Rail, payment: Payment, option: PaymentOption, confirmation: Confirmation
) -> PaymentEffect | None:
    """Return the effect of the transaction that a payment names.

    None if it is missing or not final. It costs a few node calls each time, and nothing of it is
    stored: a reorganization could undo it without the settler noticing. ApiError(internal_error)
    if the chain does not answer.
    """
    try:
        found_events = await _find_events(rail, payment, option, confirmation)
        events = [
            each_event for each_event in found_events if rail.terms.is_proven(option, each_event)
        ]
        if not events or not (await rail.observer.confirm_facts(events[:1])).get(events[0]):
            return None
    except RailUnavailable as error:
        raise chain_unavailable_error() from error
    event = events[0]
    return PaymentEffect(
        payment.id, event.tx_hash, event.block_number, event.block_hash, event.position
    )


async def _find_events(
    rail: Rail, payment: Payment, option: PaymentOption, confirmation: Confirmation
) -> list[SettlementEvent]:
    if payment.tx_id is None:
        return []
    if rail.blocks is None:
        return await rail.observer.find_settlement_events(
            [SettlementItem(payment, option, confirmation, from_block=0)]
        )
    mined = (await rail.observer.find_mined([payment.tx_id])).get(payment.tx_id)
    block = None if mined is None else await rail.blocks.find_block(mined.block_number)
    if block is None:
        return []
    return [event for event in block.events if event.tx_hash == payment.tx_id]
