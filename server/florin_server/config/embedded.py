"""The chains that Florin brings along."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class EmbeddedChain(BaseModel):
    """The EVM chain that Florin brings along, for demos, tests and test mode."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=True, description="`false` leaves it out where test money works")
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="0 takes any free port, then keeps it"
    )
    block_interval_s: float = Field(
        default=0.5, ge=0, description="between two blocks; 0 seals one for each transaction"
    )
    confirmations: int = Field(
        default=2, ge=1, description="final then; enough to see `processing`"
    )


class EmbeddedSolana(BaseModel):
    """The Solana chain that Florin brings along, for the same."""

    model_config = ConfigDict(frozen=True)

    enabled: bool = Field(default=True, description="`false` leaves it out where test money works")
    rpc_port: int = Field(
        default=0, ge=0, le=65535, description="0 takes any free port, then keeps it"
    )
    slot_s: float = Field(
        default=0.4, ge=0, description="between two slots; 0 gives each transaction its own"
    )
    finalized_slots: int = Field(
        default=4, ge=1, description="on top of a final one: 32 on Solana, fewer for tests"
    )
    takes_confirmed: bool = Field(
        default=True, description="`false` refuses the commitment `confirmed`, as clusters will"
    )
    durable_nonces: int = Field(
        default=0,
        ge=0,
        le=100,
        description="payments whose buyers may sign slowly, at a time; none, so that slots that go "
        "by end what was fetched",
    )
    accounts_a_day: int = Field(
        default=50, ge=0, description="token accounts opened for receivers, however it comes"
    )
    accounts_a_merchant_day: int = Field(
        default=10, ge=0, description="of these for one merchant: more than it has tokens"
    )
    accounts_a_partner_day: int = Field(
        default=20, ge=0, description="of these for all merchants of one partner"
    )
