"""The audit log: who did what, to what, when and from where.

An entry holds ids, words and short values, never a secret or data about a buyer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from florin_server.domain.text import replace_unprintable

# values are cut to this length, and longer lists of changes too
VALUE_MAX: Final = 300
CHANGES_MAX: Final = 20
_ADDRESS_MAX: Final = 100


class ActorKind(StrEnum):
    """Kind of actor."""

    OPERATOR = "operator"
    KEY = "key"  # an API key, by its id
    FLORIN = "florin"  # the service itself
    STRANGER = "stranger"  # a caller whose secret was wrong


class AuditChannel(StrEnum):
    """The way by which an action came."""

    API = "api"  # REST or gRPC
    CONSOLE = "console"
    CLI = "cli"
    FLORIN = "florin"


class AuditObject(StrEnum):
    """Kind of thing that an action changed."""

    BOOKS = "books"
    CLOCK = "clock"
    CUSTOMER = "customer"
    EXECUTOR = "executor"
    HELD_MONEY = "held_money"
    KEY = "key"
    LEASE = "lease"
    MERCHANT = "merchant"
    PARTNER = "partner"
    PAYMENT = "payment"
    PAYOUT = "payout"
    QUARANTINED_ITEM = "quarantined_item"
    RECEIPT_KEY = "receipt_key"
    SCREENING_LIST = "screening_list"
    SERVICE = "service"
    SESSION = "session"
    WALLET = "wallet"
    WEBHOOK = "webhook"


class AuditAction(StrEnum):
    """A recorded action; the part before the dot is its object in a word."""

    BOOKS_DIFFERENCE_BOOKED = "books.difference_booked"
    CLOCK_ADVANCED = "clock.advanced"
    CUSTOMER_ERASED = "customer.erased"
    EXECUTOR_PAUSED = "executor.paused"
    EXECUTOR_RESUMED = "executor.resumed"
    HELD_MONEY_RELEASED = "held_money.released"
    HELD_MONEY_RETURNED = "held_money.returned"
    HELD_MONEY_KEPT = "held_money.kept"
    KEY_CREATED = "key.created"
    KEY_CHANGED = "key.changed"
    KEY_REVOKED = "key.revoked"
    LEASE_RELEASED = "lease.released"
    MERCHANT_CREATED = "merchant.created"
    MERCHANT_CHANGED = "merchant.changed"
    MERCHANT_DELETED = "merchant.deleted"
    MERCHANT_STATUS_CHANGED = "merchant.status_changed"
    MERCHANT_DESTINATION_ADDED = "merchant.destination_added"
    MERCHANT_DESTINATION_CHANGED = "merchant.destination_changed"
    MERCHANT_DESTINATION_REMOVED = "merchant.destination_removed"
    MERCHANT_BANK_ACCOUNT_ADDED = "merchant.bank_account_added"
    PARTNER_CREATED = "partner.created"
    PARTNER_STATUS_CHANGED = "partner.status_changed"
    PAYMENT_CANCELLED = "payment.cancelled"
    PAYMENT_CLAIM_CONFIRMED = "payment.claim_confirmed"
    PAYMENT_CLAIM_REJECTED = "payment.claim_rejected"
    PAYMENT_REFUNDED = "payment.refunded"
    PAYMENT_NOTE_ADDED = "payment.note_added"
    PAYMENT_NOTE_DELETED = "payment.note_deleted"
    PAYMENT_NOTE_RESTORED = "payment.note_restored"
    PAYMENT_RESTORED = "payment.restored"
    PAYOUT_CREATED = "payout.created"
    PAYOUT_REFUSED = "payout.refused"
    PAYOUT_RESOLVED = "payout.resolved"
    QUARANTINED_ITEM_RETRIED = "quarantined_item.retried"
    QUARANTINED_ITEM_RESOLVED = "quarantined_item.resolved"
    RECEIPT_KEY_ROTATED = "receipt_key.rotated"
    RECEIPT_KEY_REVOKED = "receipt_key.revoked"
    SCREENING_LIST_IMPORTED = "screening_list.imported"
    SCREENING_LIST_REMOVED = "screening_list.removed"
    SERVICE_STARTED = "service.started"
    SIGN_IN_DONE = "sign_in.done"
    SIGN_IN_FAILED = "sign_in.failed"
    VERSION_CHANGED = "version.changed"
    WALLET_REGISTERED = "wallet.registered"
    WALLET_REVOKED = "wallet.revoked"
    WEBHOOK_CREATED = "webhook.created"
    WEBHOOK_CHANGED = "webhook.changed"
    WEBHOOK_PAUSED = "webhook.paused"
    WEBHOOK_RESUMED = "webhook.resumed"
    WEBHOOK_DELETED = "webhook.deleted"
    WEBHOOK_SECRET_ROTATED = "webhook.secret_rotated"  # noqa: S105  (the name of an action)
    WEBHOOK_REPLAYED = "webhook.replayed"


class FieldChange(NamedTuple):
    """A changed value, as text; empty where it was not set before or is not any more."""

    name: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Actor:
    """The actor of an entry.

    `id` is the id of an API key, `peer` the address of the call without its port.
    """

    kind: ActorKind
    channel: AuditChannel
    id: str = ""
    peer: str = ""
    request_id: str = ""


@dataclass(frozen=True, slots=True)
class AuditChange:
    """The change of an action.

    `partner_id` is the partner that sees the entry, in the mode `live`; without both, only the
    operator sees it.
    """

    action: AuditAction
    object_kind: AuditObject
    object_id: str
    partner_id: str | None = None
    live: bool | None = None
    changes: tuple[FieldChange, ...] = ()
    count: int = 1


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """One entry of the log; `count` is above 1 if it stands for several equal actions."""

    at_us: int
    id: str
    actor_kind: str
    actor_id: str
    channel: str
    peer: str
    request_id: str
    action: str
    object_kind: str
    object_id: str
    partner_id: str | None
    live: bool | None
    changes: tuple[FieldChange, ...]
    count: int


def build_entry(at_us: int, id_: str, actor: Actor, change: AuditChange) -> AuditEntry:
    """Return the entry of an action; texts are cut and have no control characters."""
    return AuditEntry(
        at_us=at_us,
        id=id_,
        actor_kind=actor.kind,
        actor_id=_clean(actor.id),
        channel=actor.channel,
        peer=_clean(actor.peer)[:_ADDRESS_MAX],
        request_id=_clean(actor.request_id),
        action=change.action,
        object_kind=change.object_kind,
        object_id=_clean(change.object_id),
        partner_id=change.partner_id,
        live=change.live,
        changes=tuple(
            FieldChange(name, _clean(before), _clean(after))
            for name, before, after in change.changes[:CHANGES_MAX]
        ),
        count=change.count,
    )


def list_changes(
    before: Mapping[str, object], after: Mapping[str, object]
) -> tuple[FieldChange, ...]:
    """Return the values that differ, as text; None and missing values are empty."""
    return tuple(
        FieldChange(name, old, new)
        for name in dict.fromkeys((*before, *after))
        if (old := _to_text(before.get(name))) != (new := _to_text(after.get(name)))
    )


def _to_text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset | set):
        return ", ".join(sorted(map(str, value)))
    return str(value)


def _clean(text: str) -> str:
    clean = replace_unprintable(text[: VALUE_MAX + 1], " ")
    return clean if len(clean) <= VALUE_MAX else f"{clean[: VALUE_MAX - 1]}…"
