"""Settings of the data that buyers must give."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from florin_server.domain.caip import canonicalize_asset


class CaptureSettings(BaseModel):
    """Payments that need data about their buyers, and how long Florin keeps it.

    Data is valid for its payment if the wallet that sent it, by a form or with its calls, confirms
    the payment. It is valid for later payments of the same account and wallet app only if the
    account signed for it. It did not sign where its wallet sends the transaction itself.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(
        default=False,
        description="whether Florin asks for data about buyers; most merchants do not need it",
    )
    from_amount: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="smallest amount that needs data, in minor units, by currency (ISO 4217) or "
        "asset (CAIP-19) of the payment; a currency or asset that is not listed "
        "always needs data",
    )
    modes: tuple[Literal["live", "test"], ...] = Field(
        default=("live", "test"), description="payments whose buyers must give data"
    )
    assets: tuple[Annotated[str, AfterValidator(canonicalize_asset)], ...] = Field(
        default=(), description="paying assets (CAIP-19) that need data; empty: all"
    )
    retention_days: int = Field(
        default=5 * 365,
        ge=1,
        description="days for which Florin keeps buyer data; anti-money-laundering rules "
        "commonly ask for five years",
    )
    terms_url: Annotated[str, Field(pattern=r"^https://[^\s\"'<>\\]+$", max_length=500)] | None = (
        Field(
            default=None,
            description="page (https) with the terms of service that buyers accept; the form links "
            "to it",
        )
    )
    frame_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^\s;,'\"/]+$")], ...] = Field(
        default=(), description="sites of web wallets that may show the form in a frame"
    )
