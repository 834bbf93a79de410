"""Tables of blocked accounts.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    integer_column,
    text_column,
)


class ScreeningListRow(TableRow, table=True):
    """A list of blocked accounts, as last imported."""

    __tablename__ = "screening_list"
    __table_args__ = (WITHOUT_ROWID,)

    name: str = text_column(key=True)
    digest: str = text_column()
    published_at_us: int | None = integer_column()
    imported_at_us: int = integer_column()
    count: int = integer_column()


class ScreenedAddressRow(TableRow, table=True):
    """An address of a list, on every chain of its CAIP-2 namespace, in its comparable form."""

    __tablename__ = "screened_address"
    __table_args__ = (
        Index("ix_screened_address_namespace_address", "namespace", "address"),
        WITHOUT_ROWID,
    )

    list_name: str = text_column(key=True)
    namespace: str = text_column(key=True)
    address: str = text_column(key=True)
