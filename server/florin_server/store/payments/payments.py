"""Payments: creation, options, confirmation, and the ends that need no chain.

Every change of status is one compare-and-set that raises `version` and writes an event. Of several
that race for one payment exactly one wins; the others get None.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import Update, select, text, update

from florin_server.domain.payments.payment import (
    Action,
    Build,
    CancelledReason,
    Confirmation,
    FailureCode,
    Option,
    Payment,
    ResolvedBuild,
    Status,
)
from florin_server.domain.payments.state import CREATED, Event
from florin_server.domain.quarantine import ItemKind
from florin_server.store.engine.query import (
    Op,
    Params,
    Row,
    Statement,
    any_of,
    columns,
    insert,
    operation,
    param,
    record,
)
from florin_server.store.payments import settled
from florin_server.store.quarantine.items import is_left_out
from florin_server.store.tables.payments import UNCONFIRMED, ConfirmState
from florin_server.store.tables.tables import confirm as bound
from florin_server.store.tables.tables import issued as issue
from florin_server.store.tables.tables import payment, payment_event, payment_option
from florin_server.store.webhooks import outbox

# what of an event's detail names the call that caused it
_REQUEST_ID: Final = "requestId"


@dataclass(frozen=True, slots=True)
class Change:
    """One event of a payment. `cause` is a domain Event, or "created"."""

    payment_id: str
    version: int
    status: Status
    at_us: int
    cause: str
    detail: Mapping[str, Any] | None = None

    @property
    def request_id(self) -> str:
        """The id of the call that caused it; empty if none did."""
        return str((self.detail or {}).get(_REQUEST_ID, ""))

    @property
    def facts(self) -> Mapping[str, Any]:
        """What else was written down with it."""
        return {name: told for name, told in (self.detail or {}).items() if name != _REQUEST_ID}


def _unconfirmed() -> Update:
    """Claims a payment that can still be confirmed at `now_s`."""
    return (
        update(payment)
        .where(
            payment.c.id == param("payment_id"),
            payment.c.status == Status.REQUIRES_ACTION,
            payment.c.expires_at > param("now_s"),
        )
        .values(version=payment.c.version + 1, updated_at_us=param("now_us"))
        .returning(*payment.c)
    )


_INSERT = Statement(insert(payment))
_GET = Statement(select(payment).where(any_of(payment.c.id, "ids")))
_ONE = Statement(select(payment).where(payment.c.id == param("payment_id")))
_VERSIONS = Statement(select(payment.c.id, payment.c.version).where(any_of(payment.c.id, "ids")))
_EVENT = Statement(insert(payment_event))
_EVENTS = Statement(
    select(payment_event)
    .where(payment_event.c.payment_id == param("payment_id"))
    .order_by(payment_event.c.version)
)
_ACCEPT = Statement(
    _unconfirmed().values(
        status=Status.PROCESSING,
        option_id=param("option_id"),
        payer=param("payer"),
        provider_name=param("provider_name"),
        provider_icon=param("provider_icon"),
        option_unit=param("option_unit"),
        option_value=param("option_value"),
    )
)
_REFUSE = Statement(
    _unconfirmed().values(
        status=Status.FAILED,
        failure_code=param("failure_code"),
        failure_detail=param("failure_detail"),
    )
)
_CANCEL = Statement(
    _unconfirmed().values(status=Status.CANCELLED, cancelled_reason=param("cancelled_reason"))
)
_EXPIRY_LEFT_OUT = is_left_out(ItemKind.EXPIRY, payment.c.id)
_DUE = Statement(
    select(payment.c.id)
    .where(text(UNCONFIRMED), payment.c.expires_at <= param("now_s"), ~_EXPIRY_LEFT_OUT)
    .order_by(payment.c.expires_at)
    .limit(param("limit"))
    # whatever somebody else is about to end needs no second one
    .with_for_update(skip_locked=True)
)
_EXPIRE = Statement(
    update(payment)
    .where(
        any_of(payment.c.id, "ids"),
        payment.c.status == Status.REQUIRES_ACTION,
        payment.c.expires_at <= param("now_s"),
    )
    .values(status=Status.EXPIRED, version=payment.c.version + 1, updated_at_us=param("now_us"))
    .returning(*payment.c)
)
_NEXT_EXPIRY = Statement(
    select(payment.c.expires_at)
    .where(text(UNCONFIRMED), ~_EXPIRY_LEFT_OUT)
    .order_by(payment.c.expires_at)
    .limit(1)
)
_BIND = Statement(insert(bound))
_BOUND = Statement(
    select(*columns(bound, Confirmation)).where(bound.c.payment_id == param("payment_id"))
)
_PUT_OPTION = Statement(insert(payment_option).on_conflict_do_nothing())
_OPTION_COLUMNS = columns(payment_option, Option)
_OPTIONS = Statement(
    select(*_OPTION_COLUMNS)
    .where(
        payment_option.c.payment_id == param("payment_id"),
        any_of(payment_option.c.payer, "payers"),
    )
    .order_by(payment_option.c.created_at_us, payment_option.c.id)
)
_OPTION = Statement(
    select(*_OPTION_COLUMNS).where(
        payment_option.c.payment_id == param("payment_id"),
        payment_option.c.id == param("option_id"),
    )
)
_ISSUE = Statement(insert(issue).on_conflict_do_nothing())
_ISSUED = Statement(
    select(*columns(issue, ResolvedBuild))
    .where(
        issue.c.payment_id == param("payment_id"),
        issue.c.option_id == param("option_id"),
    )
    .order_by(issue.c.n.desc())
)


@operation
def create(new: Payment, request_id: str = "") -> Op[Payment]:
    """Stores a new payment."""
    yield _INSERT.of(new)
    yield from put_events([event_of(new, CREATED, request_id=request_id)])
    return new


@operation
def one(payment_id: str) -> Op[Payment | None]:
    """A payment; None if there is none."""
    rows = yield _ONE(payment_id=payment_id)
    return Payment(*rows[0]) if rows else None


@operation
def get(ids: Collection[str]) -> Op[dict[str, Payment]]:
    """The payments that exist, by id."""
    rows = yield _GET(ids=ids)
    return {row[0]: Payment(*row) for row in rows}


@operation
def newer(known: Sequence[tuple[str, int]]) -> Op[list[Payment]]:
    """The payments whose version is higher than the one that is known."""
    versions = dict(known)
    rows = yield _VERSIONS(ids=versions)
    changed = [found for found, version in rows if version > versions[found]]
    if not changed:
        return []
    return [Payment(*row) for row in (yield _GET(ids=changed))]


@operation
def events(payment_id: str) -> Op[list[Change]]:
    """All changes, from the creation on."""
    return [Change(*row) for row in (yield _EVENTS(payment_id=payment_id))]


@operation
def put_options(options: Sequence[Option]) -> Op[None]:
    """Stores options; those that are known stay as they are."""
    yield _PUT_OPTION.many(
        [{**record(option), "actions": _plain(option.actions)} for option in options]
    )


@operation
def option(payment_id: str, option_id: str) -> Op[Option | None]:
    """One option of a payment."""
    rows = yield _OPTION(payment_id=payment_id, option_id=option_id)
    return option_of(rows[0]) if rows else None


@operation
def options(payment_id: str, payers: Collection[str]) -> Op[list[Option]]:
    """All options that some accounts (canonical CAIP-10) were ever offered, in order."""
    rows = yield _OPTIONS(payment_id=payment_id, payers=payers)
    return [option_of(row) for row in rows]


@operation
def put_issued(new: ResolvedBuild) -> Op[list[ResolvedBuild]]:
    """Stores what a build was resolved to, and answers like `issued`.

    Of two with one number the first stays.
    """
    yield _ISSUE(**{**record(new), "actions": _plain(new.actions)})
    return (yield from issued(new.payment_id, new.option_id))


@operation
def issued(payment_id: str, option_id: str) -> Op[list[ResolvedBuild]]:
    """All that an option's build was resolved to, the newest first."""
    rows = yield _ISSUED(payment_id=payment_id, option_id=option_id)
    return [issued_of(row) for row in rows]


@operation
def confirmation(payment_id: str) -> Op[Confirmation | None]:
    """What a payment is bound to."""
    rows = yield _BOUND(payment_id=payment_id)
    return confirmation_of(rows[0]) if rows else None


@operation
def accept(
    c: Confirmation,
    option: Option,
    from_block: int,
    provider: tuple[str | None, str | None],
    now_us: int,
    *,
    app: str = "",
    cause: Event = Event.CONFIRM_ACCEPTED,
    request_id: str = "",
) -> Op[Payment | None]:
    """Binds a verified confirmation; it waits to be settled on the option's chain.

    None if the payment is past its time or no longer needs action. `provider` is the wallet's
    name and icon, `app` the wallet app or the key that confirmed. With SEEN_ON_CHAIN the chain said
    what no wallet did.
    """
    rows = yield _ACCEPT(
        payment_id=c.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        option_id=c.option_id,
        payer=option.payer,
        provider_name=provider[0],
        provider_icon=provider[1],
        option_unit=f"caip19/{option.asset}",
        option_value=option.value,
    )
    if not rows:
        return None
    changed = Payment(*rows[0])
    # it may have been erased since it was read; what a payment is bound to is kept
    yield from put_options([option])
    yield _BIND(
        **record(c),
        chain_id=option.chain_id,
        from_block=from_block,
        state=ConfirmState.WAITING,
        retry_at_us=now_us,
        app=app,
        failures=0,
        reverted=0,
    )
    yield from put_events([event_of(changed, cause, {"optionId": c.option_id}, request_id)])
    return changed


@operation
def refuse(
    c: Confirmation,
    status_detail: str,
    failure_code: FailureCode | None,
    now_us: int,
    request_id: str = "",
) -> Op[Payment | None]:
    """Fails a payment whose confirmation can never pay it; None like `accept`."""
    rows = yield _REFUSE(
        payment_id=c.payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        failure_code=failure_code,
        failure_detail=status_detail,
    )
    if not rows:
        return None
    changed = Payment(*rows[0])
    yield _BIND(
        **record(c),
        chain_id=None,
        from_block=None,
        state=ConfirmState.DONE,
        retry_at_us=now_us,
        app="",
        failures=0,
        reverted=0,
    )
    declined = failure_code is FailureCode.DECLINED_USER
    cause = Event.PAYER_DECLINED if declined else Event.CONFIRM_MISMATCH
    yield from put_events([event_of(changed, cause, {"reason": status_detail}, request_id)])
    return changed


@operation
def cancel(
    payment_id: str, reason: CancelledReason, now_us: int, request_id: str = ""
) -> Op[Payment | None]:
    """Calls a payment off; None like `accept`."""
    rows = yield _CANCEL(
        payment_id=payment_id,
        now_s=now_us // 1_000_000,
        now_us=now_us,
        cancelled_reason=reason,
    )
    if not rows:
        return None
    changed = Payment(*rows[0])
    told = event_of(changed, Event.CANCEL, {"reason": reason.value}, request_id)
    yield from put_events([told])
    return changed


@operation
def expire_due(now_us: int, limit: int) -> Op[list[Payment]]:
    """Expires payments whose time is over, the longest overdue first."""
    due = yield _DUE(now_s=now_us // 1_000_000, limit=limit)
    return (yield from expire([payment_id for (payment_id,) in due], now_us)) if due else []


@operation
def due(now_us: int, limit: int) -> Op[list[str]]:
    """Return the ids of payments whose time is over, the longest overdue first."""
    rows = yield _DUE(now_s=now_us // 1_000_000, limit=limit)
    return [payment_id for (payment_id,) in rows]


@operation
def expire(ids: Collection[str], now_us: int) -> Op[list[Payment]]:
    """Expires those of the payments whose time is over; returns those that it expired."""
    rows = yield _EXPIRE(ids=ids, now_s=now_us // 1_000_000, now_us=now_us)
    expired = [Payment(*row) for row in rows]
    if expired:
        yield from put_events([event_of(one, Event.CLOCK) for one in expired])
    return expired


@operation
def next_expiry() -> Op[int | None]:
    """When the next unconfirmed payment expires, or should have: seconds since the epoch."""
    rows = yield _NEXT_EXPIRY()
    return rows[0][0] if rows else None


def event_of(
    changed: Payment,
    cause: str,
    detail: Mapping[str, Any] | None = None,
    request_id: str = "",
) -> Params:
    """The event row of a payment's present version; `request_id` is of the call that made it."""
    if request_id:
        detail = {**(detail or {}), _REQUEST_ID: request_id}
    return {
        "payment_id": changed.id,
        "version": changed.version,
        "status": changed.status,
        "at_us": changed.updated_at_us,
        "cause": str(cause),
        "detail": detail,
    }


@operation
def put_events(rows: Sequence[Params]) -> Op[None]:
    """Part of an operation: write event rows, and queue them for endpoints.

    What succeeded with the money at its merchant is settled at once.
    """
    yield _EVENT.many(rows)
    if paid := [str(row["payment_id"]) for row in rows if row["status"] is Status.SUCCEEDED]:
        yield from settled.settle_direct(paid)
    yield from outbox.tell([str(row["payment_id"]) for row in rows])


def option_of(row: Row) -> Option:
    """An option from its columns, in the order of the dataclass."""
    actions = tuple(Action(*step) if len(step) == 3 else Build(*step) for step in row[10])
    return Option(*(*row[:10], actions, *row[11:]))


def issued_of(row: Row) -> ResolvedBuild:
    """What was issued from its columns, in the order of the dataclass."""
    actions = tuple(Action(*step) for step in row[3])
    return ResolvedBuild(*(*row[:3], actions, *row[4:]))


def confirmation_of(row: Row) -> Confirmation:
    """A confirmation from its columns, in the order of the dataclass."""
    payment_id, option_id, outputs, digest, at_us = row
    return Confirmation(payment_id, option_id, tuple(outputs), digest, at_us)


def _plain(actions: Sequence[Action | Build]) -> list[list[str]]:
    return [
        [step.chain_id, step.method, step.params_json] if isinstance(step, Action) else [step.data]
        for step in actions
    ]
