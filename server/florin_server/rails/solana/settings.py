"""The operator's settings for one Solana cluster and its accepted tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.domain.chains.solana.spl import parse_pubkey
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.networks import registry
from florin_server.rails.networks import settings as shared
from florin_server.rails.networks.registry import get_defaults


def _normalize_address(text: str) -> str:
    return str(parse_pubkey(text))


def _normalize_account(text: str) -> str:
    """Return an address, alone or after its chain, once it is valid."""
    parse_pubkey(text.rpartition(":")[2])
    return text


Address = Annotated[str, AfterValidator(_normalize_address)]
_SOL_SLIP44 = 501
DURABLE_NONCES_MAX = 100
LAMPORTS_PER_SIGNATURE = 5_000
# the relayer and the payer sign every payment
_SIGNATURES_FEE = 2 * LAMPORTS_PER_SIGNATURE
# wallets raise the price while the cluster is busy
_FEE_MAX_MULTIPLE = 5


class SolanaAssetSettings(BaseModel):
    """A token of the Token or Token-2022 program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mint: Address = Field(description="its mint account")
    name: shared.Name
    symbol: shared.Symbol
    decimals: int = Field(
        ge=0, le=18, description="decimals of the token, which are compared with the mint"
    )
    peg: shared.Peg = None
    icon_url: shared.Icon = None


class SolanaCoinSettings(BaseModel):
    """A cluster's native coin. It is offered if it has a rate, and has 9 decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: shared.Name = "Solana"
    symbol: shared.Text = Field(default="SOL", description="short name that buyers see")
    icon_url: shared.Icon = None


class SolanaChainSettings(NodeSettings):
    """One Solana cluster. On a network of the registry most settings have defaults.

    The registry sets `name`, `live`, `poll_ms` and `eta_s`; where money is real, `stalled_after_s`
    is 300. A block is final if the cluster calls it final.
    """

    reference: str = Field(
        pattern=r"^[1-9A-HJ-NP-Za-km-z]{32}$",
        description="CAIP-2 reference: the first 32 characters of the genesis hash",
    )
    name: shared.ChainName
    live: shared.Live = False
    lag_max: int = Field(
        default=50,
        ge=1,
        description="a node that is more slots behind the others is left out: 10 s at slots of "
        "214 ms, as nodes differ by some seconds",
    )
    treasury: Annotated[shared.Treasury, AfterValidator(_normalize_account)]
    relayer_keystores: tuple[Path, ...] = Field(
        default=(),
        description="keys that submit transactions and pay fees; empty: the installation's own key",
    )
    treasury_keystore: shared.TreasuryKeystore = None
    eta_s: shared.EtaS = 3
    faucet: bool = Field(
        default=False, description="whether buyers can get test money; never on a live cluster"
    )
    coin: SolanaCoinSettings | None = Field(
        default=None, description="the cluster's native coin, if you accept it"
    )
    icon_url: shared.ChainIcon = None
    compute_units: int = Field(
        default=200_000, ge=50_000, le=1_400_000, description="compute limit of one payment"
    )
    compute_price: int = Field(
        default=1_000,
        ge=0,
        le=5_000_000,
        description="micro-lamports that Florin offers per compute unit",
    )
    compute_price_max: int = Field(
        default=5_000_000,
        ge=0,
        le=50_000_000,
        description="highest price accepted from wallets that raise it, as far as `fee_max` allows",
    )
    compute_units_max: int = Field(
        default=1_400_000,
        ge=50_000,
        le=1_400_000,
        description="highest limit accepted from wallets that change it, as far as `fee_max` "
        "allows",
    )
    wallet_guards_max: int = Field(
        default=4,
        ge=0,
        le=8,
        description="instructions of the Lighthouse program that a wallet can add to a payment: "
        "they compare accounts and can fail the transaction; 0 refuses them",
    )
    fee_max: int | None = Field(
        default=None,
        ge=_SIGNATURES_FEE,
        description="the most lamports that one payment's fee can cost the relayer, with the price "
        "that a wallet raised; Florin refuses a transaction that costs more. Unset: five times "
        "the fee "
        "that Florin offers itself, 51,000 with the other defaults",
    )
    durable_nonces: int = Field(
        default=4,
        ge=0,
        le=DURABLE_NONCES_MAX,
        description="number of concurrent buyers who can sign until their payment expires, and "
        "not only "
        "while a blockhash lasts, half a minute; each is an account of the relayer with 0.0015 SOL "
        "of rent, opened while the relayer keeps 0.05 SOL",
    )
    accounts_a_day: int = Field(
        default=50,
        ge=0,
        le=10_000,
        description="token accounts that the relayer opens per day for receivers, for any "
        "reason: each "
        "costs about 0.002 SOL of rent, which its owner can take by closing it; none is opened "
        "twice, and the treasury's own are never refused",
    )
    accounts_a_merchant_day: int = Field(
        default=10,
        ge=0,
        le=10_000,
        description="of these for one merchant: set more than it has tokens",
    )
    accounts_a_partner_day: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="of these for all merchants of one partner, who can create any number of them: "
        "set less than half of all, so that no partner takes the others' share",
    )
    tokens: shared.RegisteredTokens = ()
    assets: tuple[SolanaAssetSettings, ...] = Field(
        default=(), description="tokens that the registry does not know"
    )

    @model_validator(mode="before")
    @classmethod
    def _complete_from_registry(cls, data: Any) -> Any:
        """Add the registry's values for settings that the operator left out."""
        if not isinstance(data, dict):
            return data
        network = registry.find_network(f"solana:{data.get('reference')}")
        defaults = {} if network is None else get_defaults(network)
        defaults.pop("confirmations", None)  # a block is final if the cluster calls it final
        return shared.complete_settings(
            data, network, defaults, lambda token: {"mint": token.address}
        )

    @model_validator(mode="after")
    def _require_consistent(self) -> Self:
        shared.require_consistent(
            self.caip2,
            live=self.live,
            faucet=self.faucet,
            treasury=self.treasury,
            tokens=[asset.mint for asset in self.assets],
        )
        if self.payment_fee > self.payment_fee_max:
            raise ValueError(
                f"fee_max of {self.fee_max} lamports is below what one payment costs with "
                f"compute_units and compute_price: {self.payment_fee}"
            )
        return self

    @property
    def payment_fee(self) -> int:
        """Return the fee of a payment as Florin builds it, in lamports."""
        return _SIGNATURES_FEE - (-self.compute_units * self.compute_price // 1_000_000)

    @property
    def payment_fee_max(self) -> int:
        """Return the highest fee that the relayer pays for one payment, in lamports."""
        return self.payment_fee * _FEE_MAX_MULTIPLE if self.fee_max is None else self.fee_max

    @property
    def caip2(self) -> str:
        """Return the chain's CAIP-2 id."""
        return f"solana:{self.reference}"

    @property
    def coin_id(self) -> str:
        """Return the coin's CAIP-19 id."""
        return f"{self.caip2}/slip44:{_SOL_SLIP44}"

    @property
    def asset_ids(self) -> dict[str, str]:
        """Return the symbols of all named assets by CAIP-19, accepted or not."""
        symbols = {f"{self.caip2}/token:{token.mint}": token.symbol for token in self.assets}
        if self.coin is not None:
            symbols[self.coin_id] = self.coin.symbol
        return symbols

    @property
    def pegs(self) -> dict[str, str | None]:
        """Return the peg of every named asset by CAIP-19, accepted or not."""
        pegs = {f"{self.caip2}/token:{token.mint}": token.peg for token in self.assets}
        if self.coin is not None:
            pegs[self.coin_id] = None
        return pegs

    @property
    def treasury_account(self) -> str:
        """Return the treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"
