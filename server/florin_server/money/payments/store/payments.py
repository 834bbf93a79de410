"""Payments: creation, options, confirmation, and the ends that need no chain.

Every change of status is one compare-and-set that increments `version` and writes an event. Of
several concurrent changes of one payment exactly one wins; the others get None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from sqlalchemy import Update, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Params,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.payments import UNCONFIRMED_PREDICATE, ConfirmationState
from florin_server.db.tables.tables import (
    confirmation_table,
    payment_event_table,
    payment_option_table,
    payment_table,
    resolved_build_table,
)
from florin_server.domain.payments.payment import (
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
from florin_server.money.payments.store import direct_settlement
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


class _PaymentVersion(NamedTuple):
    id: str
    version: int


_INSERT = Command(insert(payment_table))
_FIND_MANY = Statement(select(payment_table).where(is_in(payment_table.c.id, "ids")), Payment)
_FIND = Statement(select(payment_table).where(payment_table.c.id == param("payment_id")), Payment)
_VERSIONS = Statement(
    select(payment_table.c.id, payment_table.c.version).where(is_in(payment_table.c.id, "ids")),
    _PaymentVersion,
)
_EVENT = Command(insert(payment_event_table))
_EVENTS = Statement(
    select(payment_event_table)
    .where(payment_event_table.c.payment_id == param("payment_id"))
    .order_by(payment_event_table.c.version),
    PaymentEventRecord,
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
    ),
    Payment,
)
_REFUSE = Statement(
    _update_unconfirmed().values(
        status=PaymentStatus.FAILED,
        failure_code=param("failure_code"),
        failure_detail=param("failure_detail"),
    ),
    Payment,
)
_CANCEL = Statement(
    _update_unconfirmed().values(
        status=PaymentStatus.CANCELLED, cancelled_reason=param("cancelled_reason")
    ),
    Payment,
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
    .with_for_update(skip_locked=True),
    str,
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
    .returning(*payment_table.c),
    Payment,
)
_NEXT_EXPIRY = Statement(
    select(payment_table.c.expires_at)
    .where(text(UNCONFIRMED_PREDICATE), ~_EXPIRY_EXCLUDED)
    .order_by(payment_table.c.expires_at)
    .limit(1),
    int,
)
_BIND = Command(insert(confirmation_table))
_FIND_CONFIRMATION = Statement(
    select(*columns(confirmation_table, Confirmation)).where(
        confirmation_table.c.payment_id == param("payment_id")
    ),
    Confirmation,
)
_PUT_OPTION = Command(insert(payment_option_table).on_conflict_do_nothing())
_OPTION_COLUMNS = columns(payment_option_table, PaymentOption)
_OPTIONS = Statement(
    select(*_OPTION_COLUMNS)
    .where(
        payment_option_table.c.payment_id == param("payment_id"),
        is_in(payment_option_table.c.payer, "payers"),
    )
    .order_by(payment_option_table.c.created_at_us, payment_option_table.c.id),
    PaymentOption,
)
_OPTION = Statement(
    select(*_OPTION_COLUMNS).where(
        payment_option_table.c.payment_id == param("payment_id"),
        payment_option_table.c.id == param("option_id"),
    ),
    PaymentOption,
)
_PUT_BUILD = Command(insert(resolved_build_table).on_conflict_do_nothing())
_LIST_BUILDS = Statement(
    select(*columns(resolved_build_table, ResolvedBuild))
    .where(
        resolved_build_table.c.payment_id == param("payment_id"),
        resolved_build_table.c.option_id == param("option_id"),
    )
    .order_by(resolved_build_table.c.n.desc()),
    ResolvedBuild,
)


@operation
def create(payment: Payment, request_id: str = "") -> Op[Payment]:
    """Store a new payment."""
    yield _INSERT(payment)
    yield from put_events([to_event_row(payment, CREATED_CAUSE, request_id=request_id)])
    return payment


@operation
def find(payment_id: str) -> Op[Payment | None]:
    """Return a payment; None if it does not exist."""
    return (yield from _FIND.first(payment_id=payment_id))


@operation
def find_many(ids: Collection[str]) -> Op[dict[str, Payment]]:
    """Return the payments that exist, by id."""
    return {payment.id: payment for payment in (yield from _FIND_MANY.all(ids=ids))}


@operation
def list_newer(known_versions: Sequence[tuple[str, int]]) -> Op[list[Payment]]:
    """Return the payments with a higher version than the known version."""
    versions = dict(known_versions)
    rows = yield from _VERSIONS.all(ids=versions)
    newer_ids = [payment_id for payment_id, version in rows if version > versions[payment_id]]
    if not newer_ids:
        return []
    return (yield from _FIND_MANY.all(ids=newer_ids))


@operation
def list_events(payment_id: str) -> Op[list[PaymentEventRecord]]:
    """Return all changes, from the creation on."""
    return (yield from _EVENTS.all(payment_id=payment_id))


@operation
def put_options(options: Sequence[PaymentOption]) -> Op[None]:
    """Store options; known options stay unchanged."""
    yield _PUT_OPTION.bind_many([to_row_params(option) for option in options])


@operation
def find_option(payment_id: str, option_id: str) -> Op[PaymentOption | None]:
    """Return an option of a payment; None if it does not exist."""
    return (yield from _OPTION.first(payment_id=payment_id, option_id=option_id))


@operation
def list_options(payment_id: str, payers: Collection[str]) -> Op[list[PaymentOption]]:
    """Return all options that some accounts (canonical CAIP-10) were ever offered, in order."""
    return (yield from _OPTIONS.all(payment_id=payment_id, payers=payers))


@operation
def put_resolved_build(resolved_build: ResolvedBuild) -> Op[list[ResolvedBuild]]:
    """Store a resolved build; return all resolved builds of the option, the newest first.

    Of two builds with the same number the first stays.
    """
    yield _PUT_BUILD(resolved_build)
    return (yield from list_resolved_builds(resolved_build.payment_id, resolved_build.option_id))


@operation
def list_resolved_builds(payment_id: str, option_id: str) -> Op[list[ResolvedBuild]]:
    """Return all resolved builds of an option, the newest first."""
    return (yield from _LIST_BUILDS.all(payment_id=payment_id, option_id=option_id))


@operation
def find_confirmation(payment_id: str) -> Op[Confirmation | None]:
    """Return the confirmation of a payment; None if it has none."""
    return (yield from _FIND_CONFIRMATION.first(payment_id=payment_id))


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
    payer: str | None = "",
) -> Op[Payment | None]:
    """Bind a verified confirmation, which then waits for settlement on the option's chain.

    Return None if the payment has expired or no longer needs action. `provider` is the wallet's
    name and icon, `app` the wallet app or the key that confirmed. With SEEN_ON_CHAIN the chain, and
    no wallet, reported the payment. `payer` is the account that gets refunds, None if it is
    unknown; empty for the option's own payer.
    """
    changed_payment = yield from _ACCEPT.first(
        payment_id=confirmation.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        option_id=confirmation.option_id,
        payer=option.payer if payer == "" else payer,
        provider_name=provider[0],
        provider_icon=provider[1],
        option_unit=f"caip19/{option.asset}",
        option_value=option.value,
    )
    if changed_payment is None:
        return None
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
    changed_payment = yield from _REFUSE.first(
        payment_id=confirmation.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        failure_code=failure_code,
        failure_detail=status_detail,
    )
    if changed_payment is None:
        return None
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
    changed_payment = yield from _CANCEL.first(
        payment_id=payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        cancelled_reason=reason,
    )
    if changed_payment is None:
        return None
    event_row = to_event_row(
        changed_payment, PaymentStateEvent.CANCEL, {"reason": reason.value}, request_id
    )
    yield from put_events([event_row])
    return changed_payment


@operation
def expire_due(now_us: int, limit: int) -> Op[list[Payment]]:
    """Expire payments that are due, the longest overdue first."""
    due = yield from _DUE.all(now_s=now_us // 1_000_000, limit=limit)
    return (yield from expire(due, now_us)) if due else []


@operation
def list_due(now_us: int, limit: int) -> Op[list[str]]:
    """Return the ids of payments that are due to expire, the longest overdue first."""
    return (yield from _DUE.all(now_s=now_us // 1_000_000, limit=limit))


@operation
def expire(ids: Collection[str], now_us: int) -> Op[list[Payment]]:
    """Expire the payments that are due among these; return the expired payments."""
    changed_payments = yield from _EXPIRE.all(ids=ids, now_s=now_us // 1_000_000, now_us=now_us)
    if changed_payments:
        yield from put_events(
            [to_event_row(payment, PaymentStateEvent.CLOCK) for payment in changed_payments]
        )
    return changed_payments


@operation
def find_next_expiry() -> Op[int | None]:
    """Return when the next unconfirmed payment expires, or should have, in Unix seconds."""
    return (yield from _NEXT_EXPIRY.first())


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
        yield from direct_settlement.settle_direct(paid)
    yield from outbox.enqueue_changes([str(row["payment_id"]) for row in rows])
