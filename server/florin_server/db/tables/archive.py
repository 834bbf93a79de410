"""Tables of archived payments, and of the files of the archive.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    amount_column,
    bytes_column,
    integer_column,
    partial_index,
    text_column,
)

# a query uses a partial index only if it repeats the predicate exactly
UNREMOVED_PREDICATE = "removed_at_us IS NULL"


class ArchiveFileRow(TableRow, table=True):
    """A file of the archive: payments, or transactions, of a month, from the first id to the last.

    `payments` counts them. `removed_at_us` is null until their rows are deleted.
    """

    __tablename__ = "archive_file"
    __table_args__ = (partial_index("ix_archive_file_unremoved", UNREMOVED_PREDICATE, "n"),)

    n: int = integer_column(key=True)
    name: str = text_column()
    sha256: bytes = bytes_column()
    size: int = integer_column()
    payments: int = integer_column()
    first_id: str = text_column()
    last_id: str = text_column()
    written_at_us: int = integer_column()
    removed_at_us: int | None = integer_column()


class ArchivedPaymentRow(TableRow, table=True):
    """A payment that is in a file of the archive, at this version.

    Its rows may still exist: then they are newer than the file, or about to be deleted.
    """

    __tablename__ = "archived_payment"
    __table_args__ = (Index("ix_archived_payment_file", "file_n"), WITHOUT_ROWID)

    payment_id: str = text_column(key=True)
    file_n: int = integer_column()
    version: int = integer_column()
    partner_id: str = text_column()
    merchant_id: str = text_column()
    live: bool
    unit: str = text_column()
    value: int = amount_column()
