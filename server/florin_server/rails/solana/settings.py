"""What the operator tells about one Solana cluster and the tokens taken on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.chains.solana.spl import pubkey
from florin_server.domain.caip import parse_account
from florin_server.rails.connection.nodes import NodeSettings
from florin_server.rails.networks import registry
from florin_server.rails.networks.registry import defaults_of, is_test_network, registered


def _address(text: str) -> str:
    return str(pubkey(text))


def _account(text: str) -> str:
    """An address, alone or behind its chain."""
    pubkey(text.rpartition(":")[2])
    return text


Address = Annotated[str, AfterValidator(_address)]
_SOL_SLIP44 = 501
DURABLE_NONCES_MAX = 100
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


class SolanaCoin(BaseModel):
    """A cluster's own coin. It is offered if there is a rate for it; it has 9 decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Text = "Solana"
    symbol: _Text = "SOL"
    icon_url: str | None = None


class SolanaChain(NodeSettings):
    """One cluster. `reference` is the CAIP-2 reference: 32 characters of the genesis hash.

    `treasury` may be written as CAIP-10. Without `relayer_keystores` the installation's own key
    submits; `treasury_keystore` is needed to pay out of the treasury. `compute_units` bounds one
    payment; `compute_price` is offered and `compute_price_max` accepted from wallets that raise it,
    in millionths of a lamport for each unit. `accounts_a_day` bounds the token accounts that the
    relayer opens for receivers, in advance, in payments and in payouts: each costs about 0.002 SOL
    of rent, which its owner may take by closing it. None is opened twice. `accounts_a_merchant_day`
    bounds those for one merchant: more than it has tokens, and a fifth of what a cluster opens by
    default, so that no merchant takes the others' share. The treasury's own count, and are never
    refused. `durable_nonces` is how many buyers at a time may take as long to sign as
    their payment lives, and not a minute; each is an account of the relayer's with 0.0015 SOL. On a
    network of the registry most of it has a default,
    and `tokens` names the registry's tokens by their symbols.
    """

    reference: str = Field(pattern=r"^[1-9A-HJ-NP-Za-km-z]{32}$")
    name: _Text
    live: bool = False
    lag_max: int = Field(default=50, ge=1)  # slots: 20 s, nodes differ by some seconds
    treasury: Annotated[str, AfterValidator(_account)]
    relayer_keystores: tuple[Path, ...] = ()
    treasury_keystore: Path | None = None
    eta_s: int = Field(default=15, ge=0)
    faucet: bool = False
    coin: SolanaCoin | None = None
    icon_url: str | None = None
    compute_units: int = Field(default=200_000, ge=50_000, le=1_400_000)
    compute_price: int = Field(default=1_000, ge=0, le=5_000_000)
    compute_price_max: int = Field(default=5_000_000, ge=0, le=50_000_000)
    durable_nonces: int = Field(default=0, ge=0, le=DURABLE_NONCES_MAX)
    accounts_a_day: int = Field(default=50, ge=0, le=10_000)
    accounts_a_merchant_day: int = Field(default=10, ge=0, le=10_000)
    tokens: tuple[str, ...] = ()
    assets: tuple[SolanaAsset, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        """What is not said about a network of the registry is taken from there."""
        if not isinstance(data, dict):
            return data
        known = registry.network(f"solana:{data.get('reference')}")
        defaults = {} if known is None else defaults_of(known)
        defaults.pop("confirmations", None)  # final is what the cluster calls final
        assets = [
            {
                "mint": token.address,
                "name": token.name,
                "symbol": token.symbol,
                "decimals": token.decimals,
                "peg": token.peg,
            }
            for token in registered(known, data.get("tokens", ()))
        ]
        return {**defaults, **data, "assets": [*data.get("assets", ()), *assets]}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.live and self.faucet:
            raise ValueError("a live chain has no faucet")
        if self.live and is_test_network(self.caip2):
            raise ValueError("money of a test network is worth nothing: it is not live")
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
    def coin_id(self) -> str:
        """The coin's CAIP-19 id."""
        return f"{self.caip2}/slip44:{_SOL_SLIP44}"

    @property
    def asset_ids(self) -> dict[str, str]:
        """The symbols of all assets that are named, by CAIP-19, whether they are taken or not."""
        found = {f"{self.caip2}/token:{one.mint}": one.symbol for one in self.assets}
        if self.coin is not None:
            found[self.coin_id] = self.coin.symbol
        return found

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"
