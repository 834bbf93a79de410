"""What the operator tells about one Solana cluster and the tokens taken on it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from florin_server.chains.solana.spl import pubkey
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.networks import registry
from florin_server.rails.networks import settings as shared
from florin_server.rails.networks.registry import defaults_of


def _address(text: str) -> str:
    return str(pubkey(text))


def _account(text: str) -> str:
    """An address, alone or behind its chain."""
    pubkey(text.rpartition(":")[2])
    return text


Address = Annotated[str, AfterValidator(_address)]
_SOL_SLIP44 = 501
DURABLE_NONCES_MAX = 100
LAMPORTS_PER_SIGNATURE = 5_000
# the relayer and the payer sign every payment
_SIGNATURES_FEE = 2 * LAMPORTS_PER_SIGNATURE
# wallets raise the price while the cluster is busy
_FEE_MAX_MULTIPLE = 5


class SolanaAsset(BaseModel):
    """A token of the Token or Token-2022 program."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    mint: Address = Field(description="its mint account")
    name: shared.Name
    symbol: shared.Symbol
    decimals: int = Field(ge=0, le=18, description="of one whole unit; compared with the mint")
    peg: shared.Peg = None
    icon_url: shared.Icon = None


class SolanaCoin(BaseModel):
    """A cluster's own coin. It is offered if there is a rate for it; it has 9 decimals."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: shared.Name = "Solana"
    symbol: shared.Text = Field(default="SOL", description="the same where there is little room")
    icon_url: shared.Icon = None


class SolanaChain(NodeSettings):
    """One Solana cluster. On a network of the registry most of it has a default.

    Of such a network `name`, `live`, `poll_ms` and `eta_s` are known; where money is real,
    `stalled_after_s` is 300. What is final is what the cluster calls final.
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
        description="a node that is further behind the others is left out: 10 s at slots of "
        "214 ms, as nodes differ by some seconds",
    )
    treasury: Annotated[shared.Treasury, AfterValidator(_account)]
    relayer_keystores: tuple[Path, ...] = Field(
        default=(),
        description="keys that submit and pay for it; empty: the installation's own key does",
    )
    treasury_keystore: shared.TreasuryKeystore = None
    eta_s: shared.EtaS = 3
    faucet: bool = Field(
        default=False, description="buyers are given test money; never on a live cluster"
    )
    coin: SolanaCoin | None = Field(default=None, description="the cluster's coin, if it is taken")
    icon_url: shared.ChainIcon = None
    compute_units: int = Field(
        default=200_000, ge=50_000, le=1_400_000, description="bounds one payment"
    )
    compute_price: int = Field(
        default=1_000, ge=0, le=5_000_000, description="what is offered for a compute unit"
    )
    compute_price_max: int = Field(
        default=5_000_000,
        ge=0,
        le=50_000_000,
        description="accepted from wallets that raise it, as far as `fee_max` allows",
    )
    compute_units_max: int = Field(
        default=1_400_000,
        ge=50_000,
        le=1_400_000,
        description="accepted from wallets that set the limit anew, as far as `fee_max` allows",
    )
    wallet_guards_max: int = Field(
        default=4,
        ge=0,
        le=8,
        description="instructions of the Lighthouse program that a wallet may add to a payment: "
        "they compare accounts and fail the transaction; 0 refuses them",
    )
    fee_max: int | None = Field(
        default=None,
        ge=_SIGNATURES_FEE,
        description="lamports that the fee of one payment may cost the relayer, with the price "
        "that a wallet raised; a transaction that costs more is refused. Unset: five times the fee "
        "that Florin offers itself, 51,000 with the other defaults",
    )
    durable_nonces: int = Field(
        default=4,
        ge=0,
        le=DURABLE_NONCES_MAX,
        description="buyers at a time who may take as long to sign as their payment lives, and not "
        "as a blockhash lasts, half a minute; each is an account of the relayer's with 0.0015 SOL "
        "of rent, opened while the relayer keeps 0.05 SOL",
    )
    accounts_a_day: int = Field(
        default=50,
        ge=0,
        le=10_000,
        description="token accounts that the relayer opens for receivers, however it comes: each "
        "costs about 0.002 SOL of rent, which its owner may take by closing it; none is opened "
        "twice, and the treasury's own are never refused",
    )
    accounts_a_merchant_day: int = Field(
        default=10,
        ge=0,
        le=10_000,
        description="of these for one merchant: more than it has tokens",
    )
    accounts_a_partner_day: int = Field(
        default=20,
        ge=0,
        le=10_000,
        description="of these for all merchants of one partner, who creates as many as it likes: "
        "less than half of all, so that no partner takes the others' share",
    )
    tokens: shared.RegisteredTokens = ()
    assets: tuple[SolanaAsset, ...] = Field(default=(), description="tokens that it does not know")

    @model_validator(mode="before")
    @classmethod
    def _registered(cls, data: Any) -> Any:
        """What is not said about a network of the registry is taken from there."""
        if not isinstance(data, dict):
            return data
        known = registry.network(f"solana:{data.get('reference')}")
        defaults = {} if known is None else defaults_of(known)
        defaults.pop("confirmations", None)  # final is what the cluster calls final
        return shared.with_registered(data, known, defaults, lambda token: {"mint": token.address})

    @model_validator(mode="after")
    def _consistent(self) -> Self:
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
        """The fee of a payment as Florin builds it, in lamports."""
        return _SIGNATURES_FEE - (-self.compute_units * self.compute_price // 1_000_000)

    @property
    def payment_fee_max(self) -> int:
        """The highest fee that the relayer pays for one payment, in lamports."""
        return self.payment_fee * _FEE_MAX_MULTIPLE if self.fee_max is None else self.fee_max

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
    def pegs(self) -> dict[str, str | None]:
        """The peg of every asset that is named, by CAIP-19, whether it is taken or not."""
        found = {f"{self.caip2}/token:{one.mint}": one.peg for one in self.assets}
        if self.coin is not None:
            found[self.coin_id] = None
        return found

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""
        return f"{self.caip2}:{self.treasury.rpartition(':')[2]}"
