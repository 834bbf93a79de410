"""Payments: creation, options, confirmation, and the ends that need no chain.

Every change of status is one compare-and-set that increments `version` and writes an event. Of
several concurrent changes of one payment exactly one wins; the others get None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Update, select, text, update

from florin_server.db.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.payments import UNCONFIRMED_PREDICATE, ConfirmationState
from florin_server.db.tables.tables import confirm as confirmation_table
from florin_server.db.tables.tables import issued as resolved_build_table
from florin_server.db.tables.tables import payment as payment_table
from florin_server.db.tables.tables import payment_event, payment_option
from florin_server.domain.payments.payment import (
    Action,
    BuildAction,
    CancellationReason,
    Confirmation,
    FailureCode,
    Payment,
    PaymentOption,
    PaymentStatus,
    ResolvedBuild,
)
from florin_server.domain.payments.state import CREATED_CAUSE, PaymentStateEvent
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.money.outbox.store import outbox
from florin_server.money.payments.store import settled
from florin_server.operations.store.quarantine import is_excluded

# the member of an event's detail for the call that caused it
_REQUEST_ID: Final = "requestId"


@dataclass(frozen=True, slots=True)
class PaymentEventRecord:
    """One event of a payment. `cause` is a PaymentStateEvent, or "created"."""

    payment_id: str
    version: int
    status: PaymentStatus
    at_us: int
    cause: str
    detail: Mapping[str, Any] | None = None

    @property
    def request_id(self) -> str:
        """Return the id of the call that caused it; empty if no call did."""
        return str((self.detail or {}).get(_REQUEST_ID, ""))

    @property
    def details(self) -> Mapping[str, Any]:
        """Return the other recorded details."""
        return {name: value for name, value in (self.detail or {}).items() if name != _REQUEST_ID}


def _update_unconfirmed() -> Update:
    """Build an update of a payment that can still be confirmed at `now_s`."""
    return (
        update(payment_table)
        .where(
            payment_table.c.id == param("payment_id"),
            payment_table.c.status == PaymentStatus.REQUIRES_ACTION,
            payment_table.c.expires_at > param("now_s"),
        )
        .values(version=payment_table.c.version + 1, updated_at_us=param("now_us"))
        .returning(*payment_table.c)
    )


_INSERT = Statement(insert(payment_table))
_FIND_MANY = Statement(select(payment_table).where(is_in(payment_table.c.id, "ids")))
_FIND = Statement(select(payment_table).where(payment_table.c.id == param("payment_id")))
_VERSIONS = Statement(
    select(payment_table.c.id, payment_table.c.version).where(is_in(payment_table.c.id, "ids"))
)
_EVENT = Statement(insert(payment_event))
_EVENTS = Statement(
    select(payment_event)
    .where(payment_event.c.payment_id == param("payment_id"))
    .order_by(payment_event.c.version)
)
_ACCEPT = Statement(
    _update_unconfirmed().values(
        status=PaymentStatus.PROCESSING,
        option_id=param("option_id"),
        payer=param("payer"),
        provider_name=param("provider_name"),
        provider_icon=param("provider_icon"),
        option_unit=param("option_unit"),
        option_value=param("option_value"),
    )
)
_REFUSE = Statement(
    _update_unconfirmed().values(
        status=PaymentStatus.FAILED,
        failure_code=param("failure_code"),
        failure_detail=param("failure_detail"),
    )
)
_CANCEL = Statement(
    _update_unconfirmed().values(
        status=PaymentStatus.CANCELLED, cancelled_reason=param("cancelled_reason")
    )
)
_EXPIRY_EXCLUDED = is_excluded(QuarantinedItemKind.EXPIRY, payment_table.c.id)
_DUE = Statement(
    select(payment_table.c.id)
    .where(
        text(UNCONFIRMED_PREDICATE), payment_table.c.expires_at <= param("now_s"), ~_EXPIRY_EXCLUDED
    )
    .order_by(payment_table.c.expires_at)
    .limit(param("limit"))
    # another process that is expiring a payment needs no help
    .with_for_update(skip_locked=True)
)
_EXPIRE = Statement(
    update(payment_table)
    .where(
        is_in(payment_table.c.id, "ids"),
        payment_table.c.status == PaymentStatus.REQUIRES_ACTION,
        payment_table.c.expires_at <= param("now_s"),
    )
    .values(
        status=PaymentStatus.EXPIRED,
        version=payment_table.c.version + 1,
        updated_at_us=param("now_us"),
    )
    .returning(*payment_table.c)
)
_NEXT_EXPIRY = Statement(
    select(payment_table.c.expires_at)
    .where(text(UNCONFIRMED_PREDICATE), ~_EXPIRY_EXCLUDED)
    .order_by(payment_table.c.expires_at)
    .limit(1)
)
_BIND = Statement(insert(confirmation_table))
_FIND_CONFIRMATION = Statement(
    select(*columns(confirmation_table, Confirmation)).where(
        confirmation_table.c.payment_id == param("payment_id")
    )
)
_PUT_OPTION = Statement(insert(payment_option).on_conflict_do_nothing())
_OPTION_COLUMNS = columns(payment_option, PaymentOption)
_OPTIONS = Statement(
    select(*_OPTION_COLUMNS)
    .where(
        payment_option.c.payment_id == param("payment_id"),
        is_in(payment_option.c.payer, "payers"),
    )
    .order_by(payment_option.c.created_at_us, payment_option.c.id)
)
_OPTION = Statement(
    select(*_OPTION_COLUMNS).where(
        payment_option.c.payment_id == param("payment_id"),
        payment_option.c.id == param("option_id"),
    )
)
_PUT_BUILD = Statement(insert(resolved_build_table).on_conflict_do_nothing())
_LIST_BUILDS = Statement(
    select(*columns(resolved_build_table, ResolvedBuild))
    .where(
        resolved_build_table.c.payment_id == param("payment_id"),
        resolved_build_table.c.option_id == param("option_id"),
    )
    .order_by(resolved_build_table.c.n.desc())
)


@operation
def create(payment: Payment, request_id: str = "") -> Op[Payment]:
    """Store a new payment."""
    yield _INSERT.bind_object(payment)
    yield from put_events([to_event_row(payment, CREATED_CAUSE, request_id=request_id)])
    return payment


@operation
def find(payment_id: str) -> Op[Payment | None]:
    """Return a payment; None if it does not exist."""
    rows = yield _FIND(payment_id=payment_id)
    return Payment(*rows[0]) if rows else None


@operation
def find_many(ids: Collection[str]) -> Op[dict[str, Payment]]:
    """Return the payments that exist, by id."""
    rows = yield _FIND_MANY(ids=ids)
    return {row[0]: Payment(*row) for row in rows}


@operation
def list_newer(known_versions: Sequence[tuple[str, int]]) -> Op[list[Payment]]:
    """Return the payments with a higher version than the known version."""
    versions = dict(known_versions)
    rows = yield _VERSIONS(ids=versions)
    newer_ids = [payment_id for payment_id, version in rows if version > versions[payment_id]]
    if not newer_ids:
        return []
    return [Payment(*row) for row in (yield _FIND_MANY(ids=newer_ids))]


@operation
def list_events(payment_id: str) -> Op[list[PaymentEventRecord]]:
    """Return all changes, from the creation on."""
    return [PaymentEventRecord(*row) for row in (yield _EVENTS(payment_id=payment_id))]


@operation
def put_options(options: Sequence[PaymentOption]) -> Op[None]:
    """Store options; known options stay unchanged."""
    yield _PUT_OPTION.bind_many(
        [
            {**to_row_params(option), "actions": _encode_actions(option.actions)}
            for option in options
        ]
    )


@operation
def find_option(payment_id: str, option_id: str) -> Op[PaymentOption | None]:
    """Return an option of a payment; None if it does not exist."""
    rows = yield _OPTION(payment_id=payment_id, option_id=option_id)
    return to_option(rows[0]) if rows else None


@operation
def list_options(payment_id: str, payers: Collection[str]) -> Op[list[PaymentOption]]:
    """Return all options that some accounts (canonical CAIP-10) were ever offered, in order."""
    rows = yield _OPTIONS(payment_id=payment_id, payers=payers)
    return [to_option(row) for row in rows]


@operation
def put_resolved_build(resolved_build: ResolvedBuild) -> Op[list[ResolvedBuild]]:
    """Store a resolved build; return all resolved builds of the option, the newest first.

    Of two builds with the same number the first stays.
    """
    yield _PUT_BUILD(
        **{**to_row_params(resolved_build), "actions": _encode_actions(resolved_build.actions)}
    )
    return (yield from list_resolved_builds(resolved_build.payment_id, resolved_build.option_id))


@operation
def list_resolved_builds(payment_id: str, option_id: str) -> Op[list[ResolvedBuild]]:
    """Return all resolved builds of an option, the newest first."""
    rows = yield _LIST_BUILDS(payment_id=payment_id, option_id=option_id)
    return [to_resolved_build(row) for row in rows]


@operation
def find_confirmation(payment_id: str) -> Op[Confirmation | None]:
    """Return the confirmation of a payment; None if it has none."""
    rows = yield _FIND_CONFIRMATION(payment_id=payment_id)
    return to_confirmation(rows[0]) if rows else None


@operation
def accept(
    confirmation: Confirmation,
    option: PaymentOption,
    from_block: int,
    provider: tuple[str | None, str | None],
    now_us: int,
    *,
    app: str = "",
    cause: PaymentStateEvent = PaymentStateEvent.CONFIRM_ACCEPTED,
    request_id: str = "",
) -> Op[Payment | None]:
    """Bind a verified confirmation, which then waits for settlement on the option's chain.

    Return None if the payment has expired or no longer needs action. `provider` is the wallet's
    name and icon, `app` the wallet app or the key that confirmed. With SEEN_ON_CHAIN the chain, and
    no wallet, reported the payment.
    """
    rows = yield _ACCEPT(
        payment_id=confirmation.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        option_id=confirmation.option_id,
        payer=option.payer,
        provider_name=provider[0],
        provider_icon=provider[1],
        option_unit=f"caip19/{option.asset}",
        option_value=option.value,
    )
    if not rows:
        return None
    changed_payment = Payment(*rows[0])
    # the option may have been erased since it was read; a bound option is kept
    yield from put_options([option])
    yield _BIND(
        **to_row_params(confirmation),
        chain_id=option.chain_id,
        from_block=from_block,
        state=ConfirmationState.WAITING,
        retry_at_us=now_us,
        app=app,
        failures=0,
        reverted=0,
    )
    yield from put_events(
        [to_event_row(changed_payment, cause, {"optionId": confirmation.option_id}, request_id)]
    )
    return changed_payment


@operation
def refuse(
    confirmation: Confirmation,
    status_detail: str,
    failure_code: FailureCode | None,
    now_us: int,
    request_id: str = "",
) -> Op[Payment | None]:
    """Fail a payment whose confirmation can never pay it; return None as `accept` does."""
    rows = yield _REFUSE(
        payment_id=confirmation.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        failure_code=failure_code,
        failure_detail=status_detail,
    )
    if not rows:
        return None
    changed_payment = Payment(*rows[0])
    yield _BIND(
        **to_row_params(confirmation),
        chain_id=None,
        from_block=None,
        state=ConfirmationState.DONE,
        retry_at_us=now_us,
        app="",
        failures=0,
        reverted=0,
    )
    declined = failure_code is FailureCode.DECLINED_USER
    cause = PaymentStateEvent.PAYER_DECLINED if declined else PaymentStateEvent.CONFIRM_MISMATCH
    yield from put_events(
        [to_event_row(changed_payment, cause, {"reason": status_detail}, request_id)]
    )
    return changed_payment


@operation
def cancel(
    payment_id: str, reason: CancellationReason, now_us: int, request_id: str = ""
) -> Op[Payment | None]:
    """Cancel a payment; return None as `accept` does."""
    rows = yield _CANCEL(
        payment_id=payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        cancelled_reason=reason,
    )
    if not rows:
        return None
    changed_payment = Payment(*rows[0])
    event_row = to_event_row(
        changed_payment, PaymentStateEvent.CANCEL, {"reason": reason.value}, request_id
    )
    yield from put_events([event_row])
    return changed_payment


@operation
def expire_due(now_us: int, limit: int) -> Op[list[Payment]]:
    """Expire payments that are due, the longest overdue first."""
    due = yield _DUE(now_s=now_us // 1_000_000, limit=limit)
    return (yield from expire([payment_id for (payment_id,) in due], now_us)) if due else []


@operation
def list_due(now_us: int, limit: int) -> Op[list[str]]:
    """Return the ids of payments that are due to expire, the longest overdue first."""
    rows = yield _DUE(now_s=now_us // 1_000_000, limit=limit)
    return [payment_id for (payment_id,) in rows]


@operation
def expire(ids: Collection[str], now_us: int) -> Op[list[Payment]]:
    """Expire the payments that are due among these; return the expired payments."""
    rows = yield _EXPIRE(ids=ids, now_s=now_us // 1_000_000, now_us=now_us)
    changed_payments = [Payment(*row) for row in rows]
    if changed_payments:
        yield from put_events(
            [to_event_row(payment, PaymentStateEvent.CLOCK) for payment in changed_payments]
        )
    return changed_payments


@operation
def find_next_expiry() -> Op[int | None]:
    """Return when the next unconfirmed payment expires, or should have, in Unix seconds."""
    rows = yield _NEXT_EXPIRY()
    return rows[0][0] if rows else None


def to_event_row(
    payment: Payment,
    cause: str,
    detail: Mapping[str, Any] | None = None,
    request_id: str = "",
) -> Params:
    """Return the event row of a payment's current version; `request_id` is of its call."""
    if request_id:
        detail = {**(detail or {}), _REQUEST_ID: request_id}
    return {
        "payment_id": payment.id,
        "version": payment.version,
        "status": payment.status,
        "at_us": payment.updated_at_us,
        "cause": str(cause),
        "detail": detail,
    }


@operation
def put_events(rows: Sequence[Params]) -> Op[None]:
    """Write event rows, and queue deliveries to endpoints; part of an operation.

    A payment that succeeded with the money at its merchant is settled at once.
    """
    yield _EVENT.bind_many(rows)
    if paid := [str(row["payment_id"]) for row in rows if row["status"] is PaymentStatus.SUCCEEDED]:
        yield from settled.settle_direct(paid)
    yield from outbox.enqueue_changes([str(row["payment_id"]) for row in rows])


def to_option(row: Row) -> PaymentOption:
    """Return an option from its columns, in the order of the dataclass."""
    actions = tuple(Action(*step) if len(step) == 3 else BuildAction(*step) for step in row[10])
    return PaymentOption(*(*row[:10], actions, *row[11:]))


def to_resolved_build(row: Row) -> ResolvedBuild:
    """Return a resolved build from its columns, in the order of the dataclass."""
    actions = tuple(Action(*step) for step in row[3])
    return ResolvedBuild(*(*row[:3], actions, *row[4:]))


def to_confirmation(row: Row) -> Confirmation:
    """Return a confirmation from its columns, in the order of the dataclass."""
    payment_id, option_id, outputs, digest, at_us = row
    return Confirmation(payment_id, option_id, tuple(outputs), digest, at_us)


def _encode_actions(actions: Sequence[Action | BuildAction]) -> list[list[str]]:
    return [
        [step.chain_id, step.method, step.params_json] if isinstance(step, Action) else [step.data]
        for step in actions
    ]
