"""The part of the application for users of blocked accounts."""

from __future__ import annotations

from typing import Protocol

from florin_server.compliance.screening.service.cache import ScreeningCache
from florin_server.domain.screening.blocklist import Blocklist


class ScreeningContext(Protocol):
    """Blocked accounts."""

    @property
    def screening(self) -> ScreeningCache:
        """Return the lists of blocked accounts."""

    @property
    def blocklist(self) -> Blocklist:
        """Return the blocked accounts of the settings."""
