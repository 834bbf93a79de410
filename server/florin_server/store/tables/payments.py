"""Tables about payments: what they are, what happened to them, how they were confirmed.

Conventions as in `tables`.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import Index

from florin_server.domain.payments.payment import CancelledReason, FailureCode, Status
from florin_server.store.engine.columns import by_size
from florin_server.store.tables.fields import (
    BY_KEY,
    METADATA,
    Base,
    amount,
    bytes_,
    json_,
    number,
    one_of,
    only,
    partial,
    text_,
)

# predicates of partial indexes; a query uses the index only if it repeats the very same words
UNCONFIRMED = "status = 'requires_action'"
UNSETTLED = "state <> 'done'"
LAPSES = "expires_at_us IS NOT NULL"
PAYS = "payer IS NOT NULL"


class ConfirmState(StrEnum):
    """Where the settlement of a confirmed payment stands."""

    WAITING = "waiting"
    SUBMITTED = "submitted"  # in a transaction of ours, or left to the buyer's own
    HELD = "held"  # paid by a blocked payer: the operator's verdict ends it, and nothing else
    DONE = "done"


class PaymentRow(Base, table=True):
    """A payment as it stands; `version` counts its events."""

    __tablename__ = "payment"
    __table_args__ = (
        only("status", Status),
        only("failure_code", FailureCode),
        only("cancelled_reason", CancelledReason),
        partial("ix_payment_expiry", UNCONFIRMED, "expires_at"),
        # lists: ids are in the order of creation
        Index("ix_payment_merchant", "merchant_id", "id"),
        Index("ix_payment_partner", "partner_id", "live", "id"),
        # how many pay: equal ones are neighbours
        partial("ix_payment_merchant_payer", PAYS, "merchant_id", "payer"),
        partial("ix_payment_partner_payer", PAYS, "partner_id", "live", "payer"),
        BY_KEY,
    )

    id: str = text_(key=True)
    partner_id: str = text_()
    merchant_id: str = text_()
    live: bool
    status: Status = one_of(Status)
    version: int = number()
    unit: str = text_()
    value: int = amount()
    reference_id: str = text_()
    success_url: str | None = text_()
    error_url: str | None = text_()
    salt: bytes = bytes_()
    created_at_us: int = number()
    updated_at_us: int = number()
    expires_at: int = number()
    option_id: str | None = text_()
    payer: str | None = text_()
    provider_name: str | None = text_()
    provider_icon: str | None = text_()
    tx_id: str | None = text_()
    option_unit: str | None = text_()
    option_value: int | None = amount()
    settled_value: int | None = amount()
    failure_code: FailureCode | None = one_of(FailureCode)
    failure_detail: str | None = text_()
    cancelled_reason: CancelledReason | None = one_of(CancelledReason)


class PaymentEventRow(Base, table=True):
    """One change of a payment, written with it and never again."""

    __tablename__ = "payment_event"
    __table_args__ = (only("status", Status), BY_KEY)

    payment_id: str = text_(key=True)
    version: int = number(key=True)
    status: Status = one_of(Status)
    at_us: int = number()
    cause: str = text_()
    detail: dict[str, Any] | None = json_()


class ConfirmRow(Base, table=True):
    """The content bound to a payment; chain and block are missing if it was refused.

    `failures` and `reverted` count final transactions that carried it: those that did not pay it,
    and those of several payments that came to nothing as a whole.
    """

    __tablename__ = "confirm"
    __table_args__ = (
        only("state", ConfirmState),
        partial("ix_confirm_unsettled", UNSETTLED, "chain_id", "state", "at_us"),
        BY_KEY,
    )

    payment_id: str = text_(key=True)
    option_id: str = text_()
    outputs: list[str] = json_()
    digest: bytes = bytes_()
    at_us: int = number()
    chain_id: str | None = text_()
    from_block: int | None = number()
    state: ConfirmState = one_of(ConfirmState)
    retry_at_us: int = number()
    app: str = text_(default="")
    failures: int = number(default="0")
    reverted: int = number(default="0")


class IdempotencyRow(Base, table=True):
    """The answer to a request that must not be done twice."""

    __tablename__ = "idempotency"
    # keys come in no order: rows by age and a small tree of keys dirty fewer pages
    __table_args__ = (partial("ix_idempotency_expiry", LAPSES, "expires_at_us"),)

    scope: str = text_(key=True)
    key: str = text_(key=True)
    fingerprint: bytes = bytes_()
    body: bytes = bytes_()
    created_at_us: int = number()
    expires_at_us: int | None = number()


_PAYMENT = METADATA.tables["payment"]
# by the number of minor units that was asked for
Index("ix_payment_merchant_value", _PAYMENT.c.merchant_id, by_size(_PAYMENT.c.value), _PAYMENT.c.id)
Index(
    "ix_payment_partner_value",
    _PAYMENT.c.partner_id,
    _PAYMENT.c.live,
    by_size(_PAYMENT.c.value),
    _PAYMENT.c.id,
)
