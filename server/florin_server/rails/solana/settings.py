"""What the operator tells about one Solana cluster and the tokens taken on it."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.domain.caip import parse_account
from florin_server.domain.spl import pubkey
from florin_server.rails.nodes import NodeSettings


def _address(text: str) -> str:
    return str(pubkey(text))


def _account(text: str) -> str:
    """An address, alone or behind its chain."""
    pubkey(text.rpartition(":")[2])
    return text


Address = Annotated[str, AfterValidator(_address)]
_Text = Annotated[str, Field(min_length=1, max_length=100)]


class SolanaAsset(BaseModel):
    """A token of the Token or Token-2022 program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mint: Address
    name: _Text
    symbol: _Text
    decimals: int = Field(ge=0, le=18)
    peg: str | None = Field(default=None, pattern=r"^[A-Z]{3}$")
    icon_url: str | None = None


class SolanaChain(NodeSettings):
    """One cluster. `reference` is the CAIP-2 reference: 32 characters of the genesis hash.

    `treasury` may be written as CAIP-10. `compute_units` bounds one payment; `compute_price` is
    offered and `compute_price_max` accepted from wallets that raise it, in millionths of a lamport
    for each unit.
    """

    reference: str = Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{32}$")
    name: _Text
    live: bool = False
    lag_max: int = Field(default=50, ge=1)  # slots: 20 s, nodes differ by some seconds
    treasury: Annotated[str, AfterValidator(_account)]
    eta_s: int = Field(default=15, ge=0)
    faucet: bool = False
    icon_url: str | None = None
    compute_units: int = Field(default=200_000, ge=50_000, le=1_400_000)
    compute_price: int = Field(default=1_000, ge=0, le=5_000_000)
    compute_price_max: int = Field(default=5_000_000, ge=0, le=50_000_000)
    assets: tuple[SolanaAsset, ...] = ()

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.live and self.faucet:
            raise ValueError("a live chain has no faucet")
        mints = [asset.mint for asset in self.assets]
        if len(set(mints)) != len(mints):
            raise ValueError("a token is listed twice")
        if ":" in self.treasury and str(parse_account(self.treasury).chain) != self.caip2:
            raise ValueError("the treasury is on another chain")
        return self

    @property
    def caip2(self) -> str:
        """The chain's CAIP-2 id."""
        return f"solana:{self.reference}"

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"
