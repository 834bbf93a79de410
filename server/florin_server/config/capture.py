"""What buyers are asked about themselves."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from florin_server.domain.caip import canonical_asset


class CaptureSettings(BaseModel):
    """Whose data is asked for before a payment, and how long it is kept.

    Data counts for its payment if the wallet that told it, by a form or along with its calls,
    confirms the payment; for later ones of the same account and wallet app only if the account
    signed for it, which it does not where its wallet sends the transaction by itself.
    """

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=False, description="most merchants need no data about buyers")
    from_amount: dict[str, Annotated[int, Field(ge=0)]] = Field(
        default={},
        description="minor units of a currency (ISO 4217), or of an asset (CAIP-19) in which a "
        "payment may be asked for, from which on data is needed; for others it always is",
    )
    modes: tuple[Literal["live", "test"], ...] = Field(
        default=("live", "test"), description="payments whose buyers are asked"
    )
    assets: tuple[Annotated[str, AfterValidator(canonical_asset)], ...] = Field(
        default=(), description="CAIP-19 of what is paid with; empty: all"
    )
    retention_days: int = Field(
        default=5 * 365, ge=1, description="what anti-money-laundering rules commonly ask for"
    )
    frame_origins: tuple[Annotated[str, Field(pattern=r"^https?://[^\s;,'\"/]+$")], ...] = Field(
        default=(), description="sites of web wallets that may show the form in a frame"
    )
