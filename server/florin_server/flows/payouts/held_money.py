"""The operator's verdicts about money of blocked payers."""

from __future__ import annotations

import logging

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.ids import short_id
from florin_server.domain.ledger import journals, postings
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payouts.held_money import FOLLOWS, HeldMoney, HeldState
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.flows.app import App
from florin_server.flows.screening.check import is_blocked
from florin_server.store.engine.query import Op, operation
from florin_server.store.ledger import ledger
from florin_server.store.payments import payments
from florin_server.store.payouts import held_money, payouts

_log = logging.getLogger(__name__)

# what one answer holds; older ones are history
_LISTED_MAX = 1000
_WAITING = "payments held because their payers are blocked: {}, see `florin payments held`"


async def listed(app: App, *, all_: bool) -> list[HeldMoney]:
    """Held money, the newest first: what is neither released nor returned, or all."""
    return await app.store.survey(held_money.listed(_LISTED_MAX, all_=all_))


async def waiting(app: App) -> int:
    """How many verdicts are asked for."""
    counts = await app.store.read(held_money.counts())
    return sum(count for _, state, count in counts if state is HeldState.HELD)


async def problem(app: App, chain_id: str) -> str:
    """What the operator has to look at on a chain, in a sentence; empty if nothing."""
    return describe(await app.store.read(held_money.counts())).get(chain_id, "")


def describe(counts: list[tuple[str, HeldState, int]]) -> dict[str, str]:
    """What the operator has to look at, by chain."""
    return {
        chain: _WAITING.format(count) for chain, state, count in counts if state is HeldState.HELD
    }


async def resolve(
    app: App, held_id: str, verdict: HeldState, note: str, *, even_if_blocked: bool = False
) -> HeldMoney:
    """Ends what is held by the operator's verdict; the same one again changes nothing.

    Released money is settled and its payment succeeds; it is refused for money that came late.
    Returned money leaves in a payout, and kept money stays; in both cases a payment that waited
    fails. What is kept may be returned later. invalid_params for an id that is unknown;
    invalid_state for a verdict that cannot follow the former one, and for a return to a payer who
    is still blocked, without `even_if_blocked`.
    """
    known = await app.store.read(held_money.get(held_id))
    if known is None:
        raise FlorinError(Code.INVALID_PARAMS, "Held payment not found")
    if known.state is verdict:
        return known
    if verdict is HeldState.RETURNED and not even_if_blocked and await is_blocked(app, known.payer):
        raise FlorinError(
            Code.INVALID_STATE, "Payer is still blocked: nothing is returned unless you insist"
        )
    work = _resolve(app, held_id, verdict, note, even_if_blocked=even_if_blocked)
    done, changed = await app.store.write(work)
    _log.warning(
        "the operator decided on %s: %s of %d of %s: %s",
        held_id,
        verdict,
        done.held,
        done.asset,
        note,
    )
    if changed is not None:
        await app.changed(changed)
    app.wake_payouts()
    return done


@operation
def _resolve(
    app: App, held_id: str, verdict: HeldState, note: str, *, even_if_blocked: bool
) -> Op[tuple[HeldMoney, Payment | None]]:
    one = yield from held_money.lock(held_id)
    if one is None:
        raise FlorinError(Code.INVALID_PARAMS, "Held payment not found")
    if one.state is verdict:
        return one, None
    if one.state not in FOLLOWS[verdict]:
        raise FlorinError(Code.INVALID_STATE, f"Held payment is {one.state}, not to be {verdict}")
    if one.late and verdict is HeldState.RELEASED:
        raise FlorinError(Code.INVALID_STATE, "The money came late: it pays for nothing")
    now_us = app.clock.now_us()
    payment = (yield from payments.get((one.payment_id,)))[one.payment_id]
    changed = None
    if one.state is HeldState.HELD and not one.late:
        payment = changed = yield from held_money.end(one, verdict, now_us)
    payout_id = None
    if verdict is HeldState.RELEASED:
        yield from _settle(one, payment, note, now_us)
    elif verdict is HeldState.RETURNED and one.held:
        back = _payout(app, one, payment, now_us)
        yield from payouts.add(back)
        payout_id = back.id
    done = yield from held_money.decide(
        held_id, verdict, note, payout_id, now_us, even_if_blocked=even_if_blocked
    )
    return done, changed


@operation
def _settle(one: HeldMoney, payment: Payment, note: str, now_us: int) -> Op[None]:
    legs = postings.released(one, payment.merchant_id)
    if legs:
        key = journals.settle(payment.id)
        yield from ledger.post_again(
            key, journals.Kind.SETTLE, payment.id, one.tx_hash, legs, now_us, note
        )


def _payout(app: App, one: HeldMoney, payment: Payment, now_us: int) -> Payout:
    """What returns held money: all that we have of it, the fee included."""
    return Payout(
        id=short_id("pout_", app.randbytes),
        kind=PayoutKind.RETURN,
        merchant_id=payment.merchant_id,
        payment_id=payment.id,
        live=payment.live,
        chain_id=one.chain_id,
        asset=one.asset,
        value=one.held,
        account=one.payer,
        created_at_us=now_us,
        backed=True,
        held_id=one.id,
    )
