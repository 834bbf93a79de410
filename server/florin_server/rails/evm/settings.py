"""What the operator tells about one EVM chain and the tokens taken on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.domain.caip import evm_address
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.evm.larger_amounts import STEPS_MAX, LargerAmounts, require_deeper
from florin_server.rails.networks import registry
from florin_server.rails.networks import settings as shared
from florin_server.rails.networks.network import Pace, Token
from florin_server.rails.networks.registry import defaults_of

GWEI = 10**9
_COIN = "0x" + "0" * 40  # in a token's place
_COIN_DECIMALS = 18


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
FinalityTag = Literal["none", "safe", "finalized"]
MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11"  # on every chain that has it


class EvmAsset(BaseModel):
    """A token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Address = Field(description="its contract")
    name: shared.Name
    symbol: shared.Symbol
    decimals: int = Field(ge=0, le=36, description="of one whole unit; compared with the contract")
    peg: shared.Peg = None
    method: Literal["eip3009", "permit2"] = Field(
        default="eip3009",
        description="how buyers sign: by the token's own signatures, or by Permit2, which any "
        "token can do after an approval",
    )
    approve_from_zero: bool = Field(
        default=False,
        description="with Permit2: the token changes an allowance only from, or to, zero",
    )
    domain_name: shared.Text | None = Field(
        default=None,
        description="name in the domain of its EIP-3009 signatures; unset: `name`",
    )
    domain_version: shared.Text = Field(default="2", description="version in the same domain")
    icon_url: shared.Icon = None

    @property
    def signing_name(self) -> str:
        """The name in the domain of its signatures."""
        return self.domain_name or self.name


def _of_token(token: Token) -> dict[str, Any]:
    """What an operator would write down about a token of the registry."""
    said: dict[str, Any] = {
        "address": token.address,
        "method": token.method,
        "approve_from_zero": token.approve_from_zero,
    }
    if token.domain is not None:
        said["domain_name"], said["domain_version"] = token.domain
    return said


class EvmCoin(BaseModel):
    """A chain's own coin. It is offered if there is a rate for it; it has 18 decimals anywhere."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: shared.Name
    symbol: shared.Symbol
    icon_url: shared.Icon = None


class EvmChain(NodeSettings):
    """One EVM chain. On a network of the registry most of it has a default.

    Of such a network `name`, `live`, `confirmations`, `final_after_s`, `finality_tag`, `poll_ms`,
    `eta_s`, `native_slip44`, `fee_token` and, where the usual ones do not fit, `gas_max` and
    `payment_gas_max` are known; where money is real, `stalled_after_s` is 300.
    """

    chain_id: int = Field(gt=0, lt=2**53, description="compared with what the nodes say")
    name: shared.ChainName
    genesis: Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")] | None = Field(
        default=None, description="hash of the first block, if nodes are to be compared by it"
    )
    live: shared.Live = False
    confirmations: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="the least number of blocks that make a payment final",
    )
    final_after_s: int = Field(
        default=0,
        ge=0,
        le=86_400,
        description="blocks of so many seconds make a payment final, however fast they come; 0: "
        "`confirmations` alone decide",
    )
    finality_tag: FinalityTag = Field(
        default="none",
        description="the node must call a payment's block so as well before it is final",
    )
    larger_amounts: tuple[LargerAmounts, ...] = Field(
        default=(),
        max_length=STEPS_MAX,
        description="amounts that wait longer than `final_after_s`, which then is for smaller ones",
    )
    settler: Address = Field(description="the settlement contract: `florin chain deploy` tells it")
    former_settlers: tuple[Address, ...] = Field(
        default=(),
        description="earlier ones of the same version, to which open payments may still refer",
    )
    opener: Address | None = Field(
        default=None,
        description="contract through which accounts are created that signed before they exist "
        "(ERC-6492); without it such signatures are refused",
    )
    factories: tuple[Address, ...] = Field(
        default=(), description="contracts that may create such accounts; others are never called"
    )
    treasury: Annotated[shared.Treasury, AfterValidator(_account)]
    relayer_keystores: tuple[Path, ...] = Field(
        default=(),
        description="keys that submit and pay for gas; empty: the installation's own key does",
    )
    treasury_keystore: shared.TreasuryKeystore = None
    eta_s: shared.EtaS = 5
    faucet: bool = Field(
        default=False, description="buyers are given test money; never on a live chain"
    )
    native_slip44: int = Field(default=60, ge=0, description="names the coin in CAIP-19")
    fee_token: Address | None = Field(
        default=None,
        description="token of six decimals in which the chain charges for gas, where it has no "
        "coin (Tempo); unset: gas is paid in the coin",
    )
    reads: Reads = Field(
        default="auto", description="how balances are read; auto: as proves fastest on the node"
    )
    trials: Trials = Field(
        default="together",
        description="how payments of one moment are tried; alone: by one call for each",
    )
    multicall3: Address = Field(default=MULTICALL3, description="where the Multicall3 contract is")
    coin: EvmCoin | None = Field(default=None, description="the chain's own coin, if it is taken")
    icon_url: shared.ChainIcon = None
    gas_max: int = Field(
        default=15_000_000,
        ge=1_000_000,
        description="bounds one transaction: at least what the heaviest payment may use alone, and "
        "below 2^24, where the protocol stops",
    )
    payment_gas_max: int = Field(
        default=1_000_000,
        ge=300_000,
        description="the most gas for one payment or payout. Most need far less; Florin gives more "
        "than usual only where it measured that the chain or the token asks for it, and never more "
        "than half of `gas_max`",
    )
    fee_max: int = Field(
        default=500 * GWEI,
        gt=0,
        description="the most for a unit of gas, whatever a node suggests; above it Florin waits",
    )
    tip_max: int = Field(default=50 * GWEI, gt=0, description="the most of that which is a tip")
    gas_reserve: int = Field(
        default=50,
        ge=1,
        le=1_000_000,
        description="you are told of a key that cannot pay for so many more: as many as are sent "
        "together, which nodes refuse from poorer keys",
    )
    tokens: shared.RegisteredTokens = ()
    assets: tuple[EvmAsset, ...] = Field(default=(), description="tokens that it does not know")

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        """What is not said about a network of the registry is taken from there."""
        if not isinstance(data, dict):
            return data
        known = registry.network(f"eip155:{data.get('chain_id')}")
        defaults = {} if known is None else defaults_of(known)
        return shared.with_registered(data, known, defaults, _of_token)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        shared.require_consistent(
            self.caip2,
            live=self.live,
            faucet=self.faucet,
            treasury=self.treasury,
            tokens=[asset.address for asset in self.assets],
        )
        if self.coin is not None and self.fee_token is not None:
            raise ValueError("a chain that charges fees in a token has no coin to take")
        if self.factories and self.opener is None:
            raise ValueError("factories are called by the opener only, and none is named")
        usual = Pace(
            confirmations=self.confirmations,
            poll_ms=self.poll_ms,
            eta_s=self.eta_s,
            final_after_s=self.final_after_s,
            finality_tag=self.finality_tag,
        )
        symbols = self.asset_ids.values()
        require_deeper(self.larger_amounts, symbols, usual, registry.network(self.caip2))
        return self

    @property
    def caip2(self) -> str:
        """The chain's CAIP-2 id."""
        return f"eip155:{self.chain_id}"

    @property
    def coin_asset(self) -> str:
        """The CAIP-19 id of the chain's own coin, whether there is one or not."""
        return f"{self.caip2}/slip44:{self.native_slip44}"

    @property
    def native_asset(self) -> str:
        """The CAIP-19 id of what gas is paid with: the coin, or the fee token."""
        if self.fee_token is None:
            return self.coin_asset
        return f"{self.caip2}/erc20:{self.fee_token}"

    @property
    def asset_ids(self) -> dict[str, str]:
        """The symbols of all assets that are named, by CAIP-19, whether they are taken or not."""
        found = {f"{self.caip2}/erc20:{one.address}": one.symbol for one in self.assets}
        if self.coin is not None:
            found[self.coin_asset] = self.coin.symbol
        return found

    @property
    def pegs(self) -> dict[str, str | None]:
        """The peg of every asset that is named, by CAIP-19, whether it is taken or not."""
        found = {f"{self.caip2}/erc20:{one.address}": one.peg for one in self.assets}
        if self.coin is not None:
            found[self.coin_asset] = None
        return found

    def final_after(self, token: str, value: int) -> int:
        """Return the seconds of blocks that make a payment final.

        `token` is an address, that of zeros for the coin, `value` in its minor units. An asset that
        is not among the chain's any more waits as the largest amount does.
        """
        if not self.larger_amounts:
            return self.final_after_s
        unit = self._units.get(token)
        after_s = self.final_after_s
        for step in self.larger_amounts:
            least = None if unit is None else step.least_units(*unit)
            if least is None or value >= least:
                after_s = step.final_after_s
        return after_s

    @property
    def _units(self) -> dict[str, tuple[str, int]]:
        """Symbol and decimals of each asset, by its address."""
        found = {one.address: (one.symbol, one.decimals) for one in self.assets}
        if self.coin is not None:
            found[_COIN] = (self.coin.symbol, _COIN_DECIMALS)
        return found

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"

    @property
    def settlers(self) -> frozenset[str]:
        """Every settlement contract whose events count."""
        return frozenset((self.settler, *self.former_settlers))
