"""Tables of the ledger.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    integer_column,
    text_column,
)


class JournalRow(TableRow, table=True):
    """A ledger entry; its key makes sure that it is booked once.

    `merchant_id` is empty for journals without a merchant, such as gas, and null if a release
    before v0030 booked it.
    """

    __tablename__ = "ledger_journal"
    __table_args__ = (
        # statements: the journals of a merchant, or all, by time
        Index("ix_ledger_journal_merchant", "merchant_id", "at_us"),
        Index("ix_ledger_journal_at", "at_us", "idem_key"),
        WITHOUT_ROWID,
    )

    idem_key: str = text_column(key=True)
    type: str = text_column()
    payment_id: str | None = text_column()
    tx_hash: str | None = text_column()
    at_us: int = integer_column()
    note: str | None = text_column()
    merchant_id: str | None = text_column()


class FeeDebtorRow(TableRow, table=True):
    """A merchant that has owed fees in an asset: one whose debts are counted."""

    __tablename__ = "fee_debtor"
    __table_args__ = (WITHOUT_ROWID,)

    asset: str = text_column(key=True)
    merchant_id: str = text_column(key=True)


class TransferRow(TableRow, table=True):
    """A transfer between two accounts in one asset, balanced because it is one row."""

    __tablename__ = "ledger_transfer"
    __table_args__ = (
        CheckConstraint("debit <> credit", name="two_accounts"),
        CheckConstraint("amount <> '0'", name="amount"),
        Index("ix_ledger_transfer_debit", "debit", "asset"),
        Index("ix_ledger_transfer_credit", "credit", "asset"),
        WITHOUT_ROWID,
    )

    idem_key: str = text_column(key=True)
    n: int = integer_column(key=True)
    debit: str = text_column()
    credit: str = text_column()
    asset: str = text_column()
    amount: int = amount_column()
