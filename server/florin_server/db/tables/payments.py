"""Tables of payments, their events and their confirmations.

Conventions as in `tables`.
"""

from enum import StrEnum
from typing import Any

from sqlalchemy import Index, Text, func, text
from sqlmodel import Field

from florin_server.db.engine.columns import JsonPairs, JsonRows, JsonTexts, sortable_amount
from florin_server.db.tables.fields import (
    METADATA,
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    bytes_column,
    check_enum,
    enum_column,
    integer_column,
    json_column,
    partial_index,
    text_column,
)
from florin_server.domain.payments.order import PaymentLine
from florin_server.domain.payments.payment import CancellationReason, FailureCode, PaymentStatus

# predicates of partial indexes; a query uses the index only if it repeats the predicate exactly
UNCONFIRMED_PREDICATE = "status = 'requires_action'"
UNSETTLED_PREDICATE = "state <> 'done'"
EXPIRING_PREDICATE = "expires_at_us IS NOT NULL"
HAS_PAYER_PREDICATE = "payer IS NOT NULL"
HAS_TX_PREDICATE = "tx_id IS NOT NULL"
# the hash of one transaction of the buyer's; signatures and transactions are longer
TX_OUTPUT_PREDICATE = "length(outputs) <= 80"


class ConfirmationState(StrEnum):
    """The state of a confirmed payment's settlement."""

    WAITING = "waiting"
    SUBMITTED = "submitted"  # in a transaction of ours, or left to the buyer's own transaction
    HELD = "held"  # paid by a blocked payer: only the operator's decision ends it
    DONE = "done"


class PaymentRow(TableRow, table=True):
    """A payment in its current state; `version` counts its events."""

    __tablename__ = "payment"
    __table_args__ = (
        check_enum("status", PaymentStatus),
        check_enum("failure_code", FailureCode),
        check_enum("cancelled_reason", CancellationReason),
        partial_index("ix_payment_expiry", UNCONFIRMED_PREDICATE, "expires_at"),
        # lists: ids are in the order of creation
        Index("ix_payment_merchant", "merchant_id", "id"),
        Index("ix_payment_partner", "partner_id", "live", "id"),
        # counts of payers: equal payers are adjacent
        partial_index("ix_payment_merchant_payer", HAS_PAYER_PREDICATE, "merchant_id", "payer"),
        partial_index(
            "ix_payment_partner_payer", HAS_PAYER_PREDICATE, "partner_id", "live", "payer"
        ),
        # searches: a transaction has at most one batch of payments, a reference any number
        Index("ix_payment_partner_reference", "partner_id", "live", "reference_id", "id"),
        partial_index("ix_payment_tx_id", HAS_TX_PREDICATE, "tx_id"),
        WITHOUT_ROWID,
    )

    id: str = text_column(key=True)
    partner_id: str = text_column()
    merchant_id: str = text_column()
    live: bool
    status: PaymentStatus = enum_column(PaymentStatus)
    version: int = integer_column()
    unit: str = text_column()
    value: int = amount_column()
    reference_id: str = text_column()
    success_url: str | None = text_column()
    error_url: str | None = text_column()
    salt: bytes = bytes_column()
    created_at_us: int = integer_column()
    updated_at_us: int = integer_column()
    expires_at: int = integer_column()
    option_id: str | None = text_column()
    payer: str | None = text_column()
    provider_name: str | None = text_column()
    provider_icon: str | None = text_column()
    tx_id: str | None = text_column()
    option_unit: str | None = text_column()
    option_value: int | None = amount_column()
    settled_value: int | None = amount_column()
    failure_code: FailureCode | None = enum_column(FailureCode)
    failure_detail: str | None = text_column()
    cancelled_reason: CancellationReason | None = enum_column(CancellationReason)
    description: str | None = text_column()
    lines: tuple[PaymentLine, ...] | None = Field(sa_type=JsonRows(PaymentLine))
    # the name that SQLModel leaves to a table's columns
    metadata_: tuple[tuple[str, str], ...] | None = Field(
        sa_type=JsonPairs, sa_column_kwargs={"name": "metadata"}
    )


class PaymentEventRow(TableRow, table=True):
    """A change of a payment, written with it and never changed."""

    __tablename__ = "payment_event"
    __table_args__ = (check_enum("status", PaymentStatus), WITHOUT_ROWID)

    payment_id: str = text_column(key=True)
    version: int = integer_column(key=True)
    status: PaymentStatus = enum_column(PaymentStatus)
    at_us: int = integer_column()
    cause: str = text_column()
    detail: dict[str, Any] | None = json_column()


class ConfirmationRow(TableRow, table=True):
    """The confirmation bound to a payment; chain and block are missing if it was refused.

    `failures` and `reverted` count final transactions that included it: those that did not pay it,
    and those of several payments that reverted as a whole.
    """

    __tablename__ = "confirm"
    __table_args__ = (
        check_enum("state", ConfirmationState),
        partial_index("ix_confirm_unsettled", UNSETTLED_PREDICATE, "chain_id", "state", "at_us"),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    option_id: str = text_column()
    outputs: tuple[str, ...] = Field(sa_type=JsonTexts)
    digest: bytes = bytes_column()
    at_us: int = integer_column()
    chain_id: str | None = text_column()
    from_block: int | None = integer_column()
    state: ConfirmationState = enum_column(ConfirmationState)
    retry_at_us: int = integer_column()
    app: str = text_column(default="")
    failures: int = integer_column(default="0")
    reverted: int = integer_column(default="0")


class IdempotencyRow(TableRow, table=True):
    """The response to a request that must run only once."""

    __tablename__ = "idempotency"
    # keys come in no order: rows by age and a small tree of keys change fewer pages
    __table_args__ = (partial_index("ix_idempotency_expiry", EXPIRING_PREDICATE, "expires_at_us"),)

    scope: str = text_column(key=True)
    key: str = text_column(key=True)
    fingerprint: bytes = bytes_column()
    body: bytes = bytes_column()
    created_at_us: int = integer_column()
    expires_at_us: int | None = integer_column()


_PAYMENT = METADATA.tables["payment"]
# by the number of requested minor units
Index(
    "ix_payment_merchant_value",
    _PAYMENT.c.merchant_id,
    sortable_amount(_PAYMENT.c.value),
    _PAYMENT.c.id,
)
Index(
    "ix_payment_partner_value",
    _PAYMENT.c.partner_id,
    _PAYMENT.c.live,
    sortable_amount(_PAYMENT.c.value),
    _PAYMENT.c.id,
)
_CONFIRMATION = METADATA.tables["confirm"]
# wallets write hashes in any case
Index(
    "ix_confirm_outputs",
    func.lower(_CONFIRMATION.c.outputs, type_=Text()),
    sqlite_where=text(TX_OUTPUT_PREDICATE),
    postgresql_where=text(TX_OUTPUT_PREDICATE),
)
