"""Wallet apps that phones may open payment links in."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field


class AndroidApp(BaseModel):
    """An Android app, as Digital Asset Links names it."""

    model_config = ConfigDict(frozen=True)

    package: str = Field(
        pattern=r"^[A-Za-z][A-Za-z0-9_]*(\.[A-Za-z][A-Za-z0-9_]*)+$",
        max_length=255,
        description="application id, as in the app store",
    )
    fingerprints: tuple[Annotated[str, Field(pattern=r"^[0-9A-F]{2}(:[0-9A-F]{2}){31}$")], ...] = (
        Field(
            min_length=1,
            max_length=10,
            description="SHA-256 fingerprints of the certificates that sign the app",
        )
    )


class AppLinkSettings(BaseModel):
    """Wallets that phones may open payment links in, instead of a browser.

    Phones read them at `/.well-known/` of the pay host.
    """

    model_config = ConfigDict(frozen=True)

    ios: tuple[Annotated[str, Field(pattern=r"^[A-Z0-9]{10}\.[A-Za-z0-9.-]{1,155}$")], ...] = Field(
        default=(), max_length=100, description="team id and bundle id, joined by a dot"
    )
    android: tuple[AndroidApp, ...] = Field(
        default=(), max_length=100, description="Android apps, one table each"
    )
