"""The settings of payments to addresses on one EVM chain."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from florin_server.domain.caip import parse_evm_address
from florin_server.rails.evm.larger_amounts import WholeUnits, to_minor_units

# as long as an authorization can be submitted after the end of its payment
_GRACE_S: Final = 300


class ForwarderSettings(BaseModel):
    """Addresses to which any wallet or exchange can send a payment."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Annotated[str, AfterValidator(parse_evm_address)] = Field(
        description="the forwarder; `florin chain deploy --forwarder` prints its address"
    )
    home: Annotated[str, AfterValidator(parse_evm_address)] | None = Field(
        default=None,
        description="account that receives money which is not part of a payment, and whose key you "
        "have; unset: the treasury",
    )
    min_value: WholeUnits = Field(
        default="0",
        description="smallest payment in a pegged token that gets an address, in whole units. "
        "The cost of forwarding, with a rollup's fee for data, is a further bound for each asset, "
        "as far as prices are known",
    )
    grace_s: int = Field(
        default=_GRACE_S,
        ge=0,
        le=3600,
        description="seconds after the end of a payment during which money in a pegged token that "
        "came in time is forwarded; other assets have none, because no price outlives its quote",
    )
    sweep_factor: int = Field(
        default=3,
        ge=1,
        le=1000,
        description="money is moved from an address if it is worth so many times the cost",
    )
    hot_max: int = Field(
        default=20_000,
        ge=1,
        le=1_000_000,
        description="addresses that are watched in every block; above it no address is given out, "
        "and one merchant can use half of them",
    )

    def get_min_units(self, decimals: int) -> int:
        """Return `min_value` in the minor units of a pegged token."""
        return to_minor_units(self.min_value, decimals)
