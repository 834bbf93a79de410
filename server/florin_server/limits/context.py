"""The part of the application for users of limits."""

from __future__ import annotations

from typing import Protocol

from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.shared_limits import LimitSync


class LimitContext(Protocol):
    """The limits of callers."""

    @property
    def limits(self) -> ServiceLimits:
        """Return the limits."""

    @property
    def limit_sync(self) -> LimitSync | None:
        """Return the exchange of limits with other processes; None without any."""
