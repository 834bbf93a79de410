"""Where a payment stands that ended before that was written down: its chain is asked."""

from __future__ import annotations

from florin_server.domain.payments.payment import Confirmation, Option, Payment
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.domain.settlement.chain_txs import Accepted
from florin_server.flows.payments.load import unanswered
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Paid, RailUnavailable


async def looked_up(
    rail: Rail, payment: Payment, option: Option, bound: Confirmation
) -> PaymentEffect | None:
    """What paid a payment by the transaction that it names; None if that is not there and final.

    It costs a few questions each time, and nothing of it is kept: what is looked up beside the
    settler may be undone beside it too. FlorinError(internal_error) if the chain does not answer.
    """
    try:
        found = await _events(rail, payment, option, bound)
        events = [one for one in found if rail.terms.proves(option, one)]
        if not events or not (await rail.observer.agreed(events[:1])).get(events[0]):
            return None
    except RailUnavailable as error:
        raise unanswered() from error
    event = events[0]
    return PaymentEffect(
        payment.id, event.tx_hash, event.block_number, event.block_hash, event.position
    )


async def _events(rail: Rail, payment: Payment, option: Option, bound: Confirmation) -> list[Paid]:
    if payment.tx_id is None:
        return []
    if rail.blocks is None:
        return await rail.observer.find([Accepted(payment, option, bound, from_block=0)])
    mined = (await rail.observer.mined([payment.tx_id])).get(payment.tx_id)
    block = None if mined is None else await rail.blocks.block(mined.block_number)
    if block is None:
        return []
    return [one for one in block.paid if one.tx_hash == payment.tx_id]
