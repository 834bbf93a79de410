"""The operator's settings for one EVM chain and its accepted tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.domain.caip import parse_evm_address
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.evm.forwarder_settings import ForwarderSettings
from florin_server.rails.evm.larger_amounts import STEPS_MAX, LargerAmounts, require_deeper
from florin_server.rails.networks import registry
from florin_server.rails.networks import settings as shared
from florin_server.rails.networks.network import NetworkPace, NetworkToken
from florin_server.rails.networks.registry import get_defaults

GWEI = 10**9
_COIN = "0x" + "0" * 40  # instead of a token
_COIN_DECIMALS = 18


def _normalize_address(text: str) -> str:
    """Return an address in lower case; a mixed-case spelling must have a valid checksum."""
    return parse_evm_address(text)


def _normalize_account(text: str) -> str:
    """Return an address, alone or after its chain, in lower case."""
    chain, colon, address = text.rpartition(":")
    return chain + colon + parse_evm_address(address)


Address = Annotated[str, AfterValidator(_normalize_address)]
ReadMode = Literal["auto", "deployless", "multicall3", "batch"]
TrialMode = Literal["together", "alone"]
FinalityTag = Literal["none", "safe", "finalized"]
MULTICALL3 = "0xca11bde05977b3631167028862be2a173976ca11"  # the address on most chains that have it


class EvmAssetSettings(BaseModel):
    """A token."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    address: Address = Field(description="its contract")
    name: shared.Name
    symbol: shared.Symbol
    decimals: int = Field(
        ge=0, le=36, description="decimals of the token, which are compared with the contract"
    )
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
    approve_by_signature: bool = Field(
        default=False,
        description="with Permit2: the token takes approvals by signature (EIP-2612), which "
        "cost buyers no gas; needs the chain's `opener`",
    )
    domain_name: shared.Text | None = Field(
        default=None,
        description="name in the domain of the token's own signatures; unset: `name`",
    )
    domain_version: shared.Text = Field(default="2", description="version in the same domain")
    icon_url: shared.Icon = None

    @model_validator(mode="after")
    def _require_permit2(self) -> Self:
        if self.approve_by_signature and self.method != "permit2":
            raise ValueError("`approve_by_signature` is for tokens whose method is permit2")
        return self

    @property
    def signing_name(self) -> str:
        """Return the name in the domain of its signatures."""
        return self.domain_name or self.name


def _to_asset_settings(token: NetworkToken) -> dict[str, Any]:
    """Return the settings that an operator would write for a token of the registry."""
    settings: dict[str, Any] = {
        "address": token.address,
        "method": token.method,
        "approve_from_zero": token.approve_from_zero,
    }
    if token.domain is not None:
        settings["domain_name"], settings["domain_version"] = token.domain
    return settings


class EvmCoinSettings(BaseModel):
    """A chain's native coin. It is offered if it has a rate, and always has 18 decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: shared.Name
    symbol: shared.Symbol
    icon_url: shared.Icon = None


class EvmChainSettings(NodeSettings):
    """One EVM chain. On a network of the registry most settings have defaults.

    The registry sets `name`, `live`, `confirmations`, `final_after_s`, `finality_tag`, `poll_ms`,
    `eta_s`, `native_slip44` and `fee_token`. Where the usual values do not fit, it also sets
    `gas_max` and `payment_gas_max`. Where money is real, `stalled_after_s` is 300.
    """

    chain_id: int = Field(gt=0, lt=2**53, description="compared with the nodes' answers")
    name: shared.ChainName
    genesis: Annotated[str, Field(pattern=r"^0x[0-9a-f]{64}$")] | None = Field(
        default=None, description="hash of the first block, if nodes are compared by it"
    )
    live: shared.Live = False
    confirmations: int = Field(
        default=1,
        ge=1,
        le=1000,
        description="the least number of confirmations that make a payment final",
    )
    final_after_s: int = Field(
        default=0,
        ge=0,
        le=86_400,
        description="seconds of blocks that make a payment final, at any block time; 0: "
        "`confirmations` alone decides",
    )
    finality_tag: FinalityTag = Field(
        default="none",
        description="block tag that a payment's block must also reach before it is final",
    )
    larger_amounts: tuple[LargerAmounts, ...] = Field(
        default=(),
        max_length=STEPS_MAX,
        description="amounts that wait longer than `final_after_s`, which then applies to "
        "smaller amounts",
    )
    settler: Address = Field(
        description="the settlement contract; `florin chain deploy` prints its address"
    )
    former_settlers: tuple[Address, ...] = Field(
        default=(),
        description="earlier settlement contracts of this version, which open payments may "
        "still use",
    )
    opener: Address | None = Field(
        default=None,
        description="contract that creates accounts whose owners signed before the account exists "
        "(ERC-6492); without it such signatures are refused",
    )
    factories: tuple[Address, ...] = Field(
        default=(), description="contracts that can create such accounts; others are never called"
    )
    forwarder: ForwarderSettings | None = Field(
        default=None,
        description="payments to addresses; unset: no addresses are given out",
    )
    exchanges: tuple[Address, ...] = Field(
        default=(),
        description="accounts of exchanges that pay to addresses of payments. They would credit "
        "returned money to no customer, so it is held until you name an account",
    )
    treasury: Annotated[shared.Treasury, AfterValidator(_normalize_account)]
    relayer_keystores: tuple[Path, ...] = Field(
        default=(),
        description="keys that submit transactions and pay for gas; empty: the installation's "
        "own key",
    )
    treasury_keystore: shared.TreasuryKeystore = None
    eta_s: shared.EtaS = 5
    faucet: bool = Field(
        default=False, description="whether buyers can get test money; never on a live chain"
    )
    native_slip44: int = Field(default=60, ge=0, description="the native coin's number in CAIP-19")
    fee_token: Address | None = Field(
        default=None,
        description="token of six decimals in which the chain charges for gas, where it has no "
        "native coin (Tempo); unset: gas is paid in the native coin",
    )
    reads: ReadMode = Field(
        default="auto", description="how balances are read; auto: the fastest method on the node"
    )
    trials: TrialMode = Field(
        default="together",
        description="how concurrent payments are dry-run; alone: one call for each",
    )
    multicall3: Address = Field(
        default=MULTICALL3, description="address of the Multicall3 contract"
    )
    coin: EvmCoinSettings | None = Field(
        default=None, description="the chain's native coin, if you accept it"
    )
    icon_url: shared.ChainIcon = None
    gas_max: int = Field(
        default=15_000_000,
        ge=1_000_000,
        description="gas limit of one transaction: at least what the heaviest payment can use "
        "alone, and "
        "below 2^24, the limit of the protocol",
    )
    payment_gas_max: int = Field(
        default=1_000_000,
        ge=300_000,
        description="the most gas for one payment or payout. Most need far less. Florin gives more "
        "than usual only where it measured that the chain or the token needs it, and never more "
        "than half of `gas_max`",
    )
    fee_max: int = Field(
        default=500 * GWEI,
        gt=0,
        description="the most wei per unit of gas, even if a node suggests more; above it "
        "Florin waits",
    )
    tip_max: int = Field(default=50 * GWEI, gt=0, description="the most wei of that as a tip")
    gas_reserve: int = Field(
        default=50,
        ge=1,
        le=1_000_000,
        description="Florin alerts you if a key cannot pay for this many more payments: as many "
        "as are sent "
        "together, because nodes refuse transactions from keys with less",
    )
    tokens: shared.RegisteredTokens = ()
    assets: tuple[EvmAssetSettings, ...] = Field(
        default=(), description="tokens that the registry does not know"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete_from_registry(cls, data: Any) -> Any:
        """Add the registry's values for settings that the operator left out."""
        if not isinstance(data, dict):
            return data
        network = registry.find_network(f"eip155:{data.get('chain_id')}")
        defaults = {} if network is None else get_defaults(network)
        return shared.complete_settings(data, network, defaults, _to_asset_settings)

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        shared.require_consistent(
            self.caip2,
            live=self.live,
            faucet=self.faucet,
            treasury=self.treasury,
            tokens=[asset.address for asset in self.assets],
        )
        if self.coin is not None and self.fee_token is not None:
            raise ValueError("a chain that charges fees in a token has no coin to accept")
        if self.factories and self.opener is None:
            raise ValueError("only the opener calls factories: set `opener` too")
        if self.opener is None and any(asset.approve_by_signature for asset in self.assets):
            raise ValueError("only the opener submits signed approvals: set `opener` too")
        usual = NetworkPace(
            confirmations=self.confirmations,
            poll_ms=self.poll_ms,
            eta_s=self.eta_s,
            final_after_s=self.final_after_s,
            finality_tag=self.finality_tag,
        )
        if self.forwarder is not None and self.home in self._contracts:
            raise ValueError("forwarder: `home` must be an account whose key you have")
        symbols = self.asset_ids.values()
        require_deeper(self.larger_amounts, symbols, usual, registry.find_network(self.caip2))
        return self

    @property
    def _contracts(self) -> frozenset[str]:
        """Return the contracts of the settings, which have no key."""
        tokens = (asset.address for asset in self.assets)
        return self.settlers.union(tokens, self.factories, (self.opener or "", _COIN))

    @property
    def caip2(self) -> str:
        """Return the chain's CAIP-2 id."""
        return f"eip155:{self.chain_id}"

    @property
    def coin_asset(self) -> str:
        """Return the CAIP-19 id of the chain's native coin, even if the chain has no coin."""
        return f"{self.caip2}/slip44:{self.native_slip44}"

    @property
    def native_asset(self) -> str:
        """Return the CAIP-19 id of the asset that pays for gas: the coin, or the fee token."""
        if self.fee_token is None:
            return self.coin_asset
        return f"{self.caip2}/erc20:{self.fee_token}"

    @property
    def asset_ids(self) -> dict[str, str]:
        """Return the symbols of all named assets by CAIP-19, accepted or not."""
        symbols = {f"{self.caip2}/erc20:{token.address}": token.symbol for token in self.assets}
        if self.coin is not None:
            symbols[self.coin_asset] = self.coin.symbol
        return symbols

    @property
    def pegs(self) -> dict[str, str | None]:
        """Return the peg of every named asset by CAIP-19, accepted or not."""
        pegs = {f"{self.caip2}/erc20:{token.address}": token.peg for token in self.assets}
        if self.coin is not None:
            pegs[self.coin_asset] = None
        return pegs

    def final_after(self, token: str, value: int) -> int:
        """Return the seconds of blocks that make a payment final.

        `token` is an address, the zero address for the coin; `value` is in its minor units. An
        asset that the chain no longer has waits like the largest amount.
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
        """Return the symbol and decimals of each asset, by address."""
        units = {token.address: (token.symbol, token.decimals) for token in self.assets}
        if self.coin is not None:
            units[_COIN] = (self.coin.symbol, _COIN_DECIMALS)
        return units

    @property
    def treasury_account(self) -> str:
        """Return the treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"

    @property
    def settlers(self) -> frozenset[str]:
        """Return every contract whose events of payments count, the forwarder included."""
        forwarders = () if self.forwarder is None else (self.forwarder.address,)
        return frozenset((self.settler, *self.former_settlers, *forwarders))

    @property
    def home(self) -> str:
        """Return the address that receives what is not part of a payment to an address."""
        own = None if self.forwarder is None else self.forwarder.home
        return own or self.treasury.rpartition(":")[2]
