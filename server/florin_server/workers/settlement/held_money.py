"""Screens payers again before what they paid is booked; the money of blocked ones is held.

A payer may be blocked after it was told its options, and pay by itself or have a stranger submit
what it signed. The chain has moved the money then, and Florin neither earns it nor sends it back
before the operator says so. What Florin itself sent was sent before its payer was blocked: that
succeeds, with an alarm.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from dataclasses import replace

from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Option, Payment, Status
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.settlement.chain_txs import Accepted, Finding
from florin_server.flows.app import Core
from florin_server.flows.ledger import postings
from florin_server.flows.screening.check import why_blocked
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Paid
from florin_server.store.payouts import held_money

_log = logging.getLogger(__name__)


def event_of(event: Paid) -> tuple[str, str]:
    """The transaction of a settlement event, and what tells it apart from all others.

    A nonce is used once, in whatever transaction and block it comes to stand.
    """
    return event.tx_hash, event.nonce or f"{event.tx_hash}:{event.ref}"


async def screened(app: Core, rail: Rail, item: Accepted, event: Paid, success: Finding) -> Finding:
    """A payment's success as it is to be concluded; its money is held if its payer is blocked."""
    option = item.option
    why = await why_blocked(app, option.payer)
    if not why:
        return success
    if item.payment.status is Status.SUCCEEDED:
        # a reorganisation undid it; what was told as final stays so
        _log.error("payment %s is paid again, and its payer is %s", item.payment.id, why)
        return success
    ours = held_money.sent_by_us(option.chain_id, item.payment.id, event.tx_hash)
    if await app.store.survey(ours):
        text = "payment %s succeeds by %s, which was sent before its payer was %s"
        _log.error(text, item.payment.id, event.tx_hash, why)
        return success
    return replace(
        success,
        status=Status.PROCESSING,
        postings=postings.held(rail, option),
        held=money(app, rail, option, event, why, is_late=False),
    )


def money(
    app: Core, rail: Rail, option: Option, event: Paid, why: str, *, is_late: bool
) -> HeldMoney:
    """What an event brought from a blocked payer."""
    split = rail.terms.split(option)
    return HeldMoney(
        id=short_id("held_", app.randbytes),
        payment_id=option.payment_id,
        chain_id=option.chain_id,
        asset=option.asset,
        payer=option.payer,
        value=option.value,
        held=postings.held_of(rail, option),
        fee=split.fee,
        settled_value=option.value - split.fee if split.settled else None,
        tx_hash=event.tx_hash,
        event=event_of(event)[1],
        late=is_late,
        why=why,
        since_us=app.clock.now_us(),
    )


def tell(findings: Sequence[Finding], changed: Collection[Payment]) -> None:
    """Raises the alarm for what is held now."""
    ids = {one.id for one in changed}
    for finding in findings:
        if finding.held is not None and finding.payment_id in ids:
            alarm(finding.held)


def alarm(one: HeldMoney) -> None:
    """Tells the operator of money that waits for its verdict."""
    _log.error(
        "payment %s was paid%s by %s, %s: %s holds %d of the %d of %s, until a verdict is given",
        one.payment_id,
        " late" if one.late else "",
        one.tx_hash,
        f"and its payer is {one.why}",
        one.id,
        one.held,
        one.value,
        one.asset,
    )
