"""Tables of the books.

Conventions as in `tables`.
"""

from sqlalchemy import CheckConstraint, Index

from florin_server.store.tables.fields import BY_KEY, Base, amount, number, text_


class JournalRow(Base, table=True):
    """One entry of the ledger; its key makes sure that it is booked once."""

    __tablename__ = "ledger_journal"
    __table_args__ = (BY_KEY,)

    idem_key: str = text_(key=True)
    type: str = text_()
    payment_id: str | None = text_()
    tx_hash: str | None = text_()
    at_us: int = number()
    note: str | None = text_()


class TransferRow(Base, table=True):
    """A transfer between two accounts in one asset: it balances because it is one row."""

    __tablename__ = "ledger_transfer"
    __table_args__ = (
        CheckConstraint("debit <> credit", name="two_accounts"),
        CheckConstraint("amount <> '0'", name="amount"),
        Index("ix_ledger_transfer_debit", "debit", "asset"),
        Index("ix_ledger_transfer_credit", "credit", "asset"),
        BY_KEY,
    )

    idem_key: str = text_(key=True)
    n: int = number(key=True)
    debit: str = text_()
    credit: str = text_()
    asset: str = text_()
    amount: int = amount()
