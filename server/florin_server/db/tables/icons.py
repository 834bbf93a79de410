"""The table of merchants' pictures; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.db.tables.fields import (
    WITHOUT_ROWID,
    TableRow,
    bytes_column,
    integer_column,
    text_column,
)


class IconRow(TableRow, table=True):
    """The result of the last fetch of a URL.

    `png` is the last picture that was fetched, `digest` names it, and `fault` says why the last
    fetch brought no new picture.
    """

    __tablename__ = "icon"
    __table_args__ = (
        Index("ix_icon_digest", "digest"),
        Index("ix_icon_tried_at_us", "tried_at_us"),
        WITHOUT_ROWID,
    )

    url: str = text_column(key=True)
    digest: str | None = text_column()
    png: bytes | None = bytes_column()
    fault: str | None = text_column()
    tried_at_us: int = integer_column()
