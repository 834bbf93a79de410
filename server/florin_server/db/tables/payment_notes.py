"""Notes on payments. Conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.db.tables.fields import TableRow, integer_column, text_column


class PaymentNoteRow(TableRow, table=True):
    """A note on a payment; a deleted one can be restored for a day."""

    __tablename__ = "payment_note"
    __table_args__ = (
        Index("ix_payment_note_payment_id", "payment_id", "created_at_us"),
        Index("ix_payment_note_deleted_at_us", "deleted_at_us"),
    )

    id: str = text_column(key=True)
    payment_id: str = text_column()
    key_id: str | None = text_column()
    text: str = text_column()
    created_at_us: int = integer_column()
    deleted_at_us: int | None = integer_column()
