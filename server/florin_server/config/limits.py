"""How much is taken from one caller, and what relayers may lose."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# a budget below what one payment may use would let none through
_GAS_LEAST = 1_500_000
# several payments at the usual fee, so that a budget never stops the first
_FEE_LEAST = 100_000


class LimitSettings(BaseModel):
    """How much is taken from whom; 0 a minute, or 0 held answers, turns a limit off.

    A burst is what may come at once, before the rate counts.
    """

    model_config = ConfigDict(frozen=True)

    key_per_minute: int = Field(
        default=12_000, ge=0, description="an API key: 200 calls a second are a very large shop"
    )
    key_burst: int = Field(default=600, ge=1, description="3 s of them, e.g. after a pause")
    app_per_minute: int = Field(
        default=1_200, ge=0, description="App-Id with Client-Id: 20 polls a second of one device"
    )
    app_burst: int = Field(default=120, ge=1, description="6 s of them")
    address_per_minute: int = Field(
        default=3_000,
        ge=0,
        description="App-Ids from one address (IPv6: /64), whatever their Client-Id: a caller "
        "writes what it likes into that one; fifty buyers behind one router, a poll a second each",
    )
    address_burst: int = Field(default=200, ge=1, description="4 s of them")
    app_total_per_minute: int = Field(
        default=60_000,
        ge=0,
        description="one App-Id, which is public, from everywhere: 1,000 calls a second are more "
        "than one process answers beside others",
    )
    app_total_burst: int = Field(default=6_000, ge=1, description="6 s of them")
    payment_per_minute: int = Field(
        default=20,
        ge=0,
        description="new confirms, cancels, and forms, of one payment by one caller (a key, or an "
        "address): each may ask a chain; no buyer needs more. Signed ones that may be right are "
        "counted by the account that signed, apart from all others",
    )
    payment_burst: int = Field(default=20, ge=1, description="a wallet that tries them in a row")
    payment_total_per_minute: int = Field(
        default=200,
        ge=0,
        description="confirms of one payment by anybody that only a chain can judge: ten callers",
    )
    payment_total_burst: int = Field(default=200, ge=1, description="a minute of them")
    options_per_minute: int = Field(
        default=60,
        ge=0,
        description="how often one caller asks for the options of one payment: each asks chains; "
        "a wallet that looks each second",
    )
    options_burst: int = Field(default=60, ge=1, description="a buyer who tries accounts in a row")
    failure_per_minute: int = Field(
        default=60, ge=0, description="401 answers for one address: guessing is hopeless, and quiet"
    )
    failure_burst: int = Field(default=60, ge=1, description="a deployment with a mistyped key")
    page_per_minute: int = Field(
        default=600, ge=0, description="buyer pages for one address: many buyers may share it"
    )
    page_burst: int = Field(default=100, ge=1, description="a queue at a till behind one address")
    guard_per_minute: int = Field(
        default=60,
        ge=0,
        description="new idempotency keys of App-Ids from one address that are kept, each for days",
    )
    guard_burst: int = Field(default=60, ge=1, description="every step of ten payments at once")
    nonce_payer_per_hour: int = Field(
        default=6,
        ge=0,
        description="durable nonces of all Solana clusters that one payer takes by one caller; "
        "above, its transactions are good as long as a blockhash",
    )
    nonce_address_per_hour: int = Field(
        default=6, ge=0, description="the same of App-Ids from one address: one buyer's wallets"
    )
    nonce_key_per_hour: int = Field(
        default=120, ge=0, description="the same of one key: a wallet's back end has many buyers"
    )
    nonce_partner_per_hour: int = Field(
        default=240, ge=0, description="the same of all payments of one partner"
    )
    held_per_credential: int = Field(
        default=1_000, ge=0, description="long polls and streams at a time; each holds memory"
    )
    held_per_payment: int = Field(
        default=50,
        ge=0,
        description="the same of one payment by its merchant: nobody shows it on more screens",
    )
    held_per_payment_caller: int = Field(
        default=20,
        ge=0,
        description="the same of one payment by one wallet's caller (a key, or an address; half "
        "of them for one Client-Id), apart from the merchant's: a buyer has one or two open",
    )
    held_per_payment_total: int = Field(
        default=500, ge=0, description="the same by all wallets: no few callers take it from others"
    )
    held_per_address: int = Field(
        default=200,
        ge=0,
        description="the same of one address, over all payments, Client-Ids and health streams",
    )
    held_per_app: int = Field(
        default=10_000, ge=0, description="the same of one App-Id: 200 MB, at 20 kB each"
    )


class FailedGasSettings(BaseModel):
    """Units of gas that relayers may lose on one EVM chain in an hour of the clock.

    A payment by a contract account may use 300,000 to 600,000, and 530,000 more if it creates the
    account. No more of them is on its way than fits into what is left.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=2_000_000,
        ge=_GAS_LEAST,
        description="failed payments of one payer: one that fails three times, and some bad luck; "
        "nothing of that payer is sent for the rest of the hour",
    )
    app: int = Field(
        default=15_000_000,
        ge=_GAS_LEAST,
        description="failed payments that one wallet app or key confirmed; above, its payments by "
        "contract accounts are paused",
    )
    chain: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="all failed payments: one full block, 0.3 ether where gas costs 10 gwei; "
        "above, all payments by contract accounts are paused, those by plain keys never",
    )
    opened_app: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="paid payments of one app that create their accounts: some 70, and 400,000 "
        "each; a stranger may pay itself a cent from ever new ones",
    )
    opened_chain: int = Field(
        default=60_000_000, ge=_GAS_LEAST, description="the same for all apps together"
    )


class RefundCredit(BaseModel):
    """What merchants may owe for refunds of live payments, in minor units of one asset.

    A partner creates as many merchants as it likes, so what one of them may owe is no bound.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partner: int = Field(ge=0, description="all merchants of one partner together")
    merchant: int | None = Field(
        default=None, ge=0, description="each merchant; unset: as much as its partner"
    )
    total: int | None = Field(
        default=None, ge=0, description="all partners together; unset: ten times one partner's"
    )

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, data: Any) -> Any:
        """A number alone is the partner's credit."""
        is_number = isinstance(data, int) and not isinstance(data, bool)
        return {"partner": data} if is_number else data

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.merchant_max <= self.partner <= self.total_max:
            raise ValueError("credit of a merchant <= of its partner <= in total")
        return self

    @property
    def merchant_max(self) -> int:
        """What each merchant may owe."""
        return self.partner if self.merchant is None else self.merchant

    @property
    def total_max(self) -> int:
        """What all merchants may owe together."""
        return 10 * self.partner if self.total is None else self.total


class FailedFeeSettings(BaseModel):
    """Lamports that relayers may lose on one Solana cluster in an hour of the clock.

    A transaction costs its fee even if it fails, and a payer may move the money away after Florin
    tried the payment. No more payments are on their way than fit into what is left.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=250_000,
        ge=_FEE_LEAST,
        description="fees of one payer's failed payments; above, its payments are paused",
    )
    app: int = Field(
        default=25_000_000,
        ge=_FEE_LEAST,
        description="fees of failed payments that one wallet app or key confirmed; above, all of "
        "its payments on the cluster are paused",
    )
    chain: int = Field(
        default=50_000_000,
        ge=_FEE_LEAST,
        description="fees of all failed payments, some 5,000 of them: 0.05 SOL; above, all "
        "payments on the cluster are paused",
    )
