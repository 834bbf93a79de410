"""The part of the application for readers of archived payments."""

from __future__ import annotations

from typing import Protocol

from florin_server.money.archive.service.reader import PaymentArchive


class ArchiveContext(Protocol):
    """The archive of payments."""

    @property
    def archive(self) -> PaymentArchive:
        """Return the reader of archived payments."""
