"""The part of the application that fetches icons for accounts."""

from __future__ import annotations

from typing import Protocol


class IconRequests(Protocol):
    """Fetches icons after a while."""

    def request(self, url: str, partner_id: str) -> None:
        """Have an icon fetched that is missing or old."""


class IconRequestContext(Protocol):
    """Requests for icons of merchants."""

    @property
    def icons(self) -> IconRequests:
        """Return the requests for icons."""
