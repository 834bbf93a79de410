"""Parts of the application for accounts: requests for icons, and uses of keys."""

from __future__ import annotations

from typing import Protocol

from florin_server.accounts.service.key_uses import KeyUses


class IconRequests(Protocol):
    """Fetches icons after a while."""

    def request(self, url: str, partner_id: str) -> None:
        """Have an icon fetched that is missing or old."""


class IconRequestContext(Protocol):
    """Requests for icons of merchants."""

    @property
    def icons(self) -> IconRequests:
        """Return the requests for icons."""


class KeyUseContext(Protocol):
    """The last uses of API keys."""

    @property
    def key_uses(self) -> KeyUses:
        """Return the uses that this process saw."""
