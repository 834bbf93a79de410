"""The part of the application for users of icons."""

from __future__ import annotations

from typing import Protocol

from florin_server.features.icons.service import IconCache


class IconContext(Protocol):
    """The icons of merchants."""

    @property
    def icons(self) -> IconCache:
        """Return the icons."""
