"""What the operator tells about one EVM chain and the tokens taken on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.domain.caip import evm_address, parse_account
from florin_server.rails.connection.nodes import NodeSettings
from florin_server.rails.networks import registry
from florin_server.rails.networks.network import Token
from florin_server.rails.networks.registry import defaults_of, is_test_network, registered

GWEI = 10**9


def _address(text: str) -> str:
    """Lower-case; a mixed-case spelling must carry its right checksum."""
    return evm_address(text)


def _account(text: str) -> str:
    """An address, alone or behind its chain, lower-case."""
    chain, colon, address = text.rpartition(":")
    return chain + colon + evm_address(address)


Address = Annotated[str, AfterValidator(_address)]
Reads = Literal["auto", "deployless", "multicall3", "batch"]
Trials = Literal["together", "alone"]
MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11"  # on every chain that has it
_Text = Annotated[str, Field(min_length=1, max_length=100)]


class EvmAsset(BaseModel):
    """A token. The domain is that of its EIP-3009 signatures, named as the token if unset.

    With `permit2` the token needs no signatures of its own, and `approve_from_zero` tells that it
    refuses to change an allowance unless it is, or becomes, zero.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Address
    name: _Text
    symbol: _Text
    decimals: int = Field(ge=0, le=36)
    peg: str | None = Field(default=None, pattern=r"^[A-Z]{3}$")
    method: Literal["eip3009", "permit2"] = "eip3009"
    approve_from_zero: bool = False
    domain_name: _Text | None = None
    domain_version: _Text = "2"
    icon_url: str | None = None

    @property
    def signing_name(self) -> str:
        """The name in the domain of its signatures."""
        return self.domain_name or self.name


def _asset(token: Token) -> dict[str, Any]:
    """A token of the registry as an operator would write it down."""
    said: dict[str, Any] = {
        "address": token.address,
        "name": token.name,
        "symbol": token.symbol,
        "decimals": token.decimals,
        "peg": token.peg,
        "method": token.method,
        "approve_from_zero": token.approve_from_zero,
    }
    if token.domain is not None:
        said["domain_name"], said["domain_version"] = token.domain
    return said


class EvmCoin(BaseModel):
    """A chain's own coin. It is offered if there is a rate for it; it has 18 decimals anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: _Text
    symbol: _Text
    icon_url: str | None = None


class EvmChain(NodeSettings):
    """One chain. Money limits are in wei, times in seconds or as their name tells.

    `settler` is the settlement contract; `former_settlers` are those that open payments may still
    refer to, of the same version. `factories` are those that may create accounts which signed
    before they exist (ERC-6492), through the contract `opener`; without both such signatures are
    refused. `treasury` may be written as CAIP-10. Without `relayer_keystores` the installation's
    own key submits; `treasury_keystore` is needed to pay out of the treasury. `genesis` is the hash
    of the first block, if it is to be compared. `gas_max` bounds one transaction, `fee_max` and
    `tip_max` what a unit of gas may cost, whatever a node suggests. The operator is told of a key
    that cannot pay for `gas_reserve` more payments: as many as are sent together, which nodes
    refuse from poorer keys. On a network of the registry most of it has a default, and `tokens`
    names the registry's tokens by their symbols.
    """

    chain_id: int = Field(gt=0, lt=2**53)
    name: _Text
    genesis: Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")] | None = None
    live: bool = False
    confirmations: int = Field(default=1, ge=1, le=1000)
    settler: Address
    former_settlers: tuple[Address, ...] = ()
    opener: Address | None = None
    factories: tuple[Address, ...] = ()
    treasury: Annotated[str, AfterValidator(_account)]
    relayer_keystores: tuple[Path, ...] = ()
    treasury_keystore: Path | None = None
    eta_s: int = Field(default=5, ge=0)
    faucet: bool = False
    native_slip44: int = Field(default=60, ge=0)
    reads: Reads = Field(
        default="auto", description="how balances are read; auto: as proves fastest on the node"
    )
    trials: Trials = Field(
        default="together",
        description="how payments of one moment are tried; alone: by one call for each",
    )
    multicall3: Address = Field(default=MULTICALL3, description="where that contract is")
    coin: EvmCoin | None = None
    icon_url: str | None = None
    # at least what the heaviest payment may use alone; the protocol stops at 2^24
    gas_max: int = Field(default=15_000_000, ge=1_000_000)
    fee_max: int = Field(default=500 * GWEI, gt=0)
    tip_max: int = Field(default=50 * GWEI, gt=0)
    gas_reserve: int = Field(default=50, ge=1, le=1_000_000)
    tokens: tuple[str, ...] = ()
    assets: tuple[EvmAsset, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        """What is not said about a network of the registry is taken from there."""
        if not isinstance(data, dict):
            return data
        known = registry.network(f"eip155:{data.get('chain_id')}")
        defaults = {} if known is None else defaults_of(known)
        if known is not None:
            defaults["native_slip44"] = known.coin.slip44
        assets = [_asset(one) for one in registered(known, data.get("tokens", ()))]
        return {**defaults, **data, "assets": [*data.get("assets", ()), *assets]}

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.live and self.faucet:
            raise ValueError("a live chain has no faucet")
        if self.factories and self.opener is None:
            raise ValueError("factories are called by the opener only, and none is named")
        if self.live and is_test_network(self.caip2):
            raise ValueError("money of a test network is worth nothing: it is not live")
        addresses = [asset.address for asset in self.assets]
        if len(set(addresses)) != len(addresses):
            raise ValueError("a token is listed twice")
        if ":" in self.treasury and str(parse_account(self.treasury).chain) != self.caip2:
            raise ValueError("the treasury is on another chain")
        return self

    @property
    def caip2(self) -> str:
        """The chain's CAIP-2 id."""
        return f"eip155:{self.chain_id}"

    @property
    def asset_ids(self) -> dict[str, str]:
        """The symbols of all assets that are named, by CAIP-19, whether they are taken or not."""
        found = {f"{self.caip2}/erc20:{one.address}": one.symbol for one in self.assets}
        if self.coin is not None:
            found[f"{self.caip2}/slip44:{self.native_slip44}"] = self.coin.symbol
        return found

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"

    @property
    def settlers(self) -> frozenset[str]:
        """Every settlement contract whose events count."""
        return frozenset((self.settler, *self.former_settlers))
