"""The table of pictures that merchants name; conventions as in `tables`."""

from sqlalchemy import Index

from florin_server.store.tables.fields import BY_KEY, Base, bytes_, number, text_


class IconRow(Base, table=True):
    """What was found at an address when it was asked last.

    `png` is what was found the last time that there was something; `digest` names it, and `fault`
    says why nothing new was found.
    """

    __tablename__ = "icon"
    __table_args__ = (
        Index("ix_icon_digest", "digest"),
        Index("ix_icon_tried_at_us", "tried_at_us"),
        BY_KEY,
    )

    url: str = text_(key=True)
    digest: str | None = text_()
    png: bytes | None = bytes_()
    fault: str | None = text_()
    tried_at_us: int = number()
