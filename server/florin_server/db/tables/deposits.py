"""Tables of payments' own addresses, and of the money that came there.

Conventions as in `tables`.
"""

from typing import Any

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    integer_column,
    json_column,
    text_column,
)


class DepositAddressRow(TableRow, table=True):
    """An address of its own of a payment's option, bare and lower-case; it never changes.

    Nothing came there before the block `from_block`. Every block is read for it until `until_s`.
    Money that is not part of the payment belongs to `refund_account` (CAIP-10), if the buyer named
    one.
    """

    __tablename__ = "deposit_address"
    __table_args__ = (
        Index("ix_deposit_address_payment", "payment_id"),
        Index("ix_deposit_address_watched", "chain_id", "until_s", "merchant_id"),
        WITHOUT_ROWID,
    )

    chain_id: str = text_column(key=True)
    address: str = text_column(key=True)
    payment_id: str = text_column()
    option_id: str = text_column()
    merchant_id: str = text_column()
    asset: str = text_column()
    refund_account: str | None = text_column()
    from_block: int = integer_column()
    opened_at_us: int = integer_column()
    until_s: int = integer_column()


class DepositRow(TableRow, table=True):
    """Money that came to such an address, as in `Deposit`.

    `is_final` is 1 once the block is final: until then the row goes with its block. `returned_by`
    is the payout that sent it back.
    """

    __tablename__ = "deposit"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    address: str = text_column(key=True)
    asset: str = text_column(key=True)
    block_number: int = integer_column(key=True)
    tx_hash: str = text_column(key=True)
    position: int = integer_column(key=True)
    block_hash: str = text_column()
    sender: str = text_column()
    value: int = amount_column()
    seen_at_us: int = integer_column()
    is_final: int = integer_column()
    returned_by: str | None = text_column()


class DepositCursorRow(TableRow, table=True):
    """The final block up to which a chain was read for deposits."""

    __tablename__ = "deposit_cursor"
    __table_args__ = (WITHOUT_ROWID,)

    chain_id: str = text_column(key=True)
    block: int = integer_column()


class DepositEventRow(TableRow, table=True):
    """An event about money at a payment's addresses; `name` is the deposit or the return.

    Before the end of the payment it is also a `payment_event`, which has its `detail`. Later it has
    a `version`, which counts such events together with those of the payment's refunds.
    """

    __tablename__ = "deposit_event"
    __table_args__ = (
        # of a partner, by time
        Index("ix_deposit_event_partner", "partner_id", "live", "at_us", "payment_id"),
        WITHOUT_ROWID,
    )

    payment_id: str = text_column(key=True)
    name: str = text_column(key=True)
    cause: str = text_column()
    version: int | None = integer_column()
    at_us: int = integer_column()
    detail: dict[str, Any] | None = json_column()
    partner_id: str = text_column()
    live: bool
