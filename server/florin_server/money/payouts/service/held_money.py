"""The operator's verdicts about held money: of blocked payers, or from unknown senders."""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.compliance.screening.context import ScreeningContext
from florin_server.compliance.screening.service.check import is_blocked
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.ids import generate_short_id
from florin_server.domain.ledger import journals, postings
from florin_server.domain.payments.payment import Payment
from florin_server.domain.payouts.deposit_claims import ClaimDecider
from florin_server.domain.payouts.held_money import ALLOWED_VERDICTS, HeldMoney, HeldMoneyState
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import payments
from florin_server.money.payouts.service.payout_changes import describe_verdict
from florin_server.money.payouts.store import deposit_claims, held_money, payouts
from florin_server.operations.service.audit_log import audited_change
from florin_server.rails.context import ChainContext


class _Context(ChainContext, EventContext, ScreeningContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

# the size of one response; older items are history
_LIST_MAX = 1000
_WAITING_TEXT = (
    "payments held because their payers are blocked: {}; list them with `florin payments held`"
)


async def list_held_money(app: StorageContext, *, include_closed: bool) -> list[HeldMoney]:
    """Return held money, the newest first: what is neither released nor returned, or all."""
    return await app.store.scan(
        held_money.list_held_money(_LIST_MAX, include_closed=include_closed)
    )


async def count_waiting(app: StorageContext) -> int:
    """Return how many decisions are required."""
    counts = await app.store.read(held_money.count_unresolved())
    return sum(count for _, state, count in counts if state is HeldMoneyState.HELD)


async def describe_problem(app: StorageContext, chain_id: str) -> str:
    """Return what the operator has to check on a chain, in a sentence; empty if nothing."""
    return describe(await app.store.read(held_money.count_unresolved())).get(chain_id, "")


def describe(counts: Collection[tuple[str, HeldMoneyState, int]]) -> dict[str, str]:
    """Return what the operator has to check, by chain."""
    return {
        chain: _WAITING_TEXT.format(count)
        for chain, state, count in counts
        if state is HeldMoneyState.HELD
    }


async def resolve(
    app: _Context,
    held_id: str,
    verdict: HeldMoneyState,
    note: str,
    *,
    even_if_blocked: bool = False,
    return_to: str | None = None,
) -> HeldMoney:
    """Resolve held money by the operator's decision; the same decision again changes nothing.

    Released money is settled and its payment succeeds; this is refused for late money. Returned
    money leaves in a payout, and kept money stays; in both cases a waiting payment fails. Kept
    money can be returned later. invalid_params for an unknown id; invalid_state for a decision that
    cannot follow the former one, and for a return to a payer who is still blocked, without
    `even_if_blocked`.

    Money that came to a payment's own address returns to the account `return_to` (CAIP-10), which
    is required if its sender is unknown; other money returns to its payer.
    """
    money = await app.store.read(held_money.find(held_id))
    if money is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Held payment {held_id} not found")
    if money.state is verdict:
        return money
    receiver = get_receiver(app, money, return_to) if verdict is HeldMoneyState.RETURNED else ""
    if receiver and not even_if_blocked and await is_blocked(app, receiver):
        raise ApiError(
            ErrorCode.INVALID_STATE,
            "Payer is still blocked: add --even-if-blocked to return the money anyway"
            if receiver == money.payer
            else "The account to return it to is blocked",
        )
    work = decide(app, held_id, verdict, note, receiver, even_if_blocked=even_if_blocked)
    # a decision that another call made meanwhile changes nothing
    done, changed = await app.store.write(
        audited_change(
            app,
            held_money.find(held_id),
            work,
            lambda before, result: (
                None
                if before is None or before.state is verdict
                else describe_verdict(result[0], verdict)
            ),
        )
    )
    _log.warning(
        "the operator decided on %s: it is %s (%d of %s): %s",
        held_id,
        verdict,
        done.held,
        done.asset,
        note,
    )
    if changed is not None:
        app.notifier.publish_payment(changed)
    app.notifier.publish(Topic.PAYOUTS_DUE)
    return done


def get_receiver(app: ChainContext, money: HeldMoney, return_to: str | None) -> str:
    """Return the account that money returns to; ApiError if it is not the right kind of account."""
    if return_to is None:
        if money.has_unknown_sender:
            raise ApiError(
                ErrorCode.INVALID_PARAMS,
                f"The sender of {money.id} is unknown: name the account to return it to",
            )
        return money.payer
    rail = app.rails.get(money.chain_id)
    receiver = None if rail is None else rail.find_payer(return_to)
    if receiver is None or money.address is None:
        raise ApiError(
            ErrorCode.INVALID_PARAMS,
            f"{money.id} cannot be returned to {return_to[:100]}: name an account of the chain "
            f"{money.chain_id}, and only for money that came to a payment's own address",
        )
    return receiver


@operation
def decide(
    app: StorageContext,
    held_id: str,
    verdict: HeldMoneyState,
    note: str,
    receiver: str,
    *,
    even_if_blocked: bool = False,
    decider: ClaimDecider = ClaimDecider.OPERATOR,
) -> Op[tuple[HeldMoney, Payment | None]]:
    """Record a decision, with its payout, and close the claims; part of an operation.

    Return the money, and the payment if it changed.
    """
    money = yield from held_money.lock(held_id)
    if money is None:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Held payment {held_id} not found")
    if money.state is verdict:
        return money, None
    if money.state not in ALLOWED_VERDICTS[verdict]:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            f"Held payment {held_id} is {money.state} and cannot be {verdict}",
        )
    if money.late and verdict is HeldMoneyState.RELEASED:
        raise ApiError(
            ErrorCode.INVALID_STATE,
            "The money arrived late and pays for nothing: return it or keep it",
        )
    now_us = app.clock.now_us()
    payment = (yield from payments.find_many((money.payment_id,)))[money.payment_id]
    changed = None
    if money.state is HeldMoneyState.HELD and not money.late:
        payment = changed = yield from held_money.end_payment(money, verdict, now_us)
    payout_id = None
    if verdict is HeldMoneyState.RELEASED:
        yield from _settle(money, payment, note, now_us)
    elif verdict is HeldMoneyState.RETURNED and money.held:
        payout = build_payout(app, money, payment, receiver, now_us)
        yield from payouts.add(payout)
        payout_id = payout.id
    done = yield from held_money.record_verdict(
        held_id, verdict, note, payout_id, now_us, even_if_blocked=even_if_blocked
    )
    yield from deposit_claims.close(held_id, receiver, decider, now_us)
    return done, changed


@operation
def _settle(held: HeldMoney, payment: Payment, note: str, now_us: int) -> Op[None]:
    option = None
    if payment.option_id is not None:
        option = yield from payments.find_option(payment.id, payment.option_id)
    owed_fee = option.fee if option is not None and option.is_fee_owed else 0
    ledger_postings = postings.build_release_postings(held, payment.merchant_id, owed_fee)
    if ledger_postings:
        key = journals.settle_key(payment.id)
        yield from ledger.post_again(
            key,
            journals.JournalKind.SETTLE,
            payment.id,
            held.tx_hash,
            ledger_postings,
            now_us,
            note,
        )


def build_payout(
    app: StorageContext, held: HeldMoney, payment: Payment, receiver: str, now_us: int
) -> Payout:
    """Return the payout of held money: all of it that Florin has, including the fee."""
    return Payout(
        id=generate_short_id("pout_", app.randbytes),
        kind=PayoutKind.RETURN,
        merchant_id=payment.merchant_id,
        payment_id=payment.id,
        live=payment.live,
        chain_id=held.chain_id,
        asset=held.asset,
        value=held.held,
        account=receiver,
        created_at_us=now_us,
        backed=True,
        held_id=held.id,
        owed_account=None if held.address is None else held.account,
    )
