"""The part of the application for users of the settings."""

from __future__ import annotations

from typing import Protocol

from florin_server.domain.payments.links import CheckoutLinks
from florin_server.settings import Settings


class SettingsContext(Protocol):
    """The settings of the installation."""

    @property
    def settings(self) -> Settings:
        """Return the settings."""

    @property
    def links(self) -> CheckoutLinks:
        """Return the base of payment links."""

    @property
    def disabled_ids(self) -> frozenset[str]:
        """Return the ids of keys and apps that do not work while the test accounts are off."""
