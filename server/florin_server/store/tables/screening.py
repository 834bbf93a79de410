"""Tables about accounts that are not served.

Conventions as in `tables`.
"""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, number, text_


class ScreeningListRow(Base, table=True):
    """A list of accounts that are not served, as it was imported last."""

    __tablename__ = "screening_list"
    __table_args__ = (BY_KEY,)

    name: str = text_(key=True)
    digest: str = text_()
    published_at_us: int | None = number()
    imported_at_us: int = number()
    count: int = number()


class ScreenedAddressRow(Base, table=True):
    """An address of a list, on every chain of its CAIP-2 namespace, in the form that compares."""

    __tablename__ = "screened_address"
    __table_args__ = (
        Index("ix_screened_address_namespace_address", "namespace", "address"),
        BY_KEY,
    )

    list_name: str = text_(key=True)
    namespace: str = text_(key=True)
    address: str = text_(key=True)
