"""Settings of x402: payments by programs."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

# a budget below the cost of one transfer would let none through
_GAS_LEAST = 500_000
_FEE_LEAST = 100_000


class FacilitatedGasSettings(BaseModel):
    """Units of gas for transfers of others on one EVM chain in an hour of the clock.

    A transfer reserves about 200,000, and uses 60,000 to 90,000 in the end.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=2_000_000, ge=_GAS_LEAST, description="gas of one payer's transfers in an hour"
    )
    key: int = Field(
        default=20_000_000,
        ge=_GAS_LEAST,
        description="gas of the transfers that one API key settles in an hour: about 200; a key's "
        "holder can make payers in any number",
    )
    chain: int = Field(
        default=60_000_000, ge=_GAS_LEAST, description="gas of all transfers in an hour"
    )


class FacilitatedFeeSettings(BaseModel):
    """Lamports for fees of transfers of others on one Solana cluster in an hour of the clock."""

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=500_000, ge=_FEE_LEAST, description="fees of one payer's transfers in an hour"
    )
    key: int = Field(
        default=25_000_000,
        ge=_FEE_LEAST,
        description="fees of the transfers that one API key settles in an hour",
    )
    chain: int = Field(
        default=75_000_000, ge=_FEE_LEAST, description="fees of all transfers in an hour"
    )


class X402Settings(BaseModel):
    """Payments by programs, by the protocol x402."""

    model_config = ConfigDict(frozen=True)

    facilitator: bool = Field(
        default=False,
        description="verify and settle payments of other servers, for API keys with the scope "
        "`facilitate`; the relayers pay for gas",
    )
    wait_s: float = Field(
        default=15,
        gt=0,
        le=60,
        description="longest time for which an answer waits until a transfer is final; later "
        "answers say `settlement_pending`, and callers ask again",
    )
