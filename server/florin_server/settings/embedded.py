"""The chains that Florin brings along."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class EmbeddedChainSettings(BaseModel):
    """The EVM chain that Florin brings along, for demos, tests and test mode."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(
        default=True, description="`false` leaves this chain out although test accounts are on"
    )
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="port; 0: any free port, used again after a restart"
    )
    block_interval_s: float = Field(
        default=0.5,
        ge=0,
        description="seconds between two blocks; 0: one block for each transaction",
    )
    confirmations: int = Field(
        default=2, ge=1, description="confirmation depth; deep enough to see `processing`"
    )


class EmbeddedSolanaSettings(BaseModel):
    """The Solana chain that Florin runs for tests."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(
        default=True, description="`false` leaves this chain out although test accounts are on"
    )
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="port; 0: any free port, used again after a restart"
    )
    slot_s: float = Field(
        default=0.4, ge=0, description="seconds between two slots; 0: one slot for each transaction"
    )
    finalized_slots: int = Field(
        default=4, ge=1, description="slots on top of a final slot: 32 on Solana, fewer for tests"
    )
    takes_confirmed: bool = Field(
        default=True, description="`false` rejects the commitment `confirmed`, as clusters may do"
    )
    durable_nonces: int = Field(
        default=0,
        ge=0,
        le=100,
        description="durable nonces: payments at a time whose buyers can sign slowly; 0, so that "
        "fetched transactions lapse with their blockhash",
    )
    accounts_a_day: int = Field(
        default=50,
        ge=0,
        description="token accounts that Florin opens for receivers in a day, in all",
    )
    accounts_a_merchant_day: int = Field(
        default=10,
        ge=0,
        description="token accounts for one merchant in a day; more than it has tokens",
    )
    accounts_a_partner_day: int = Field(
        default=20, ge=0, description="token accounts for all merchants of one partner in a day"
    )
