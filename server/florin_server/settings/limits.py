"""Limits of callers, and budgets of what relayers can lose."""

from __future__ import annotations

from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

# a budget below the cost of one payment would let none through
_GAS_LEAST = 1_500_000
# several payments at the usual fee, so that a budget never stops the first
_FEE_LEAST = 100_000


class LimitSettings(BaseModel):
    """Limits of callers; 0 per minute, or 0 open calls, turns a limit off.

    A burst is the number of calls that can come at once, before the rate applies.
    """

    model_config = ConfigDict(frozen=True)

    key_per_minute: int = Field(
        default=12_000,
        ge=0,
        description="calls of one API key a minute; 200 calls a second suit a very large shop",
    )
    key_burst: int = Field(
        default=600, ge=1, description="burst: 3 s at that rate, for example after a pause"
    )
    app_per_minute: int = Field(
        default=1_200,
        ge=0,
        description="calls of one App-Id with Client-Id; 20 polls a second of one device",
    )
    app_burst: int = Field(default=120, ge=1, description="burst: 6 s at that rate")
    address_per_minute: int = Field(
        default=3_000,
        ge=0,
        description="calls of App-Ids from one address (IPv6: /64), for any Client-Id, because "
        "callers choose it freely; enough for fifty buyers behind one router, each "
        "with a poll a second",
    )
    address_burst: int = Field(default=200, ge=1, description="burst: 4 s at that rate")
    app_total_per_minute: int = Field(
        default=60_000,
        ge=0,
        description="calls of one App-Id from all addresses, because App-Ids are public; 1,000 "
        "calls a second are more than one process answers beside others",
    )
    app_total_burst: int = Field(default=6_000, ge=1, description="burst: 6 s at that rate")
    payment_per_minute: int = Field(
        default=20,
        ge=0,
        description="new confirms, cancels and forms, each, of one payment by one caller (an API "
        "key or an address); each may call a node, and no buyer needs more. "
        "Plausible signatures are counted by signing account, separately",
    )
    payment_burst: int = Field(
        default=20, ge=1, description="burst: a wallet that tries several in a row"
    )
    payment_total_per_minute: int = Field(
        default=200,
        ge=0,
        description="confirms of one payment by all callers that only a chain can judge, and as "
        "many Solana Pay transactions; enough for ten callers",
    )
    payment_total_burst: int = Field(
        default=200, ge=1, description="burst: one minute at that rate"
    )
    options_per_minute: int = Field(
        default=60,
        ge=0,
        description="options calls of one payment by one caller; each calls nodes. Enough for a "
        "wallet that polls each second",
    )
    options_burst: int = Field(
        default=60, ge=1, description="burst: a buyer who tries several accounts in a row"
    )
    failure_per_minute: int = Field(
        default=60, ge=0, description="401 responses for one address; makes guessing hopeless"
    )
    failure_burst: int = Field(
        default=60, ge=1, description="burst: a deployment with a mistyped key"
    )
    page_per_minute: int = Field(
        default=600,
        ge=0,
        description="buyer page requests of one address; many buyers can share it",
    )
    page_burst: int = Field(
        default=100, ge=1, description="burst: a queue at a point of sale behind one address"
    )
    guard_per_minute: int = Field(
        default=60,
        ge=0,
        description="new idempotency keys of App-Ids from one address; Florin keeps each for days",
    )
    guard_burst: int = Field(
        default=60, ge=1, description="burst: every step of ten payments at the same time"
    )
    nonce_payer_per_hour: int = Field(
        default=6,
        ge=0,
        description="durable nonces of all Solana clusters for one payer by one caller; above, "
        "transactions are valid as long as a blockhash",
    )
    nonce_address_per_hour: int = Field(
        default=6,
        ge=0,
        description="durable nonces for App-Ids from one address: the wallets of one buyer",
    )
    nonce_key_per_hour: int = Field(
        default=120,
        ge=0,
        description="durable nonces for one API key: the back end of a wallet has many buyers",
    )
    nonce_partner_per_hour: int = Field(
        default=240, ge=0, description="durable nonces for all payments of one partner"
    )
    held_per_credential: int = Field(
        default=1_000,
        ge=0,
        description="open long polls and streams of one credential; each needs memory",
    )
    held_per_payment: int = Field(
        default=50,
        ge=0,
        description="open long polls and streams of one payment by its merchant; more than it "
        "shows on screens",
    )
    held_per_payment_caller: int = Field(
        default=20,
        ge=0,
        description="open long polls and streams of one payment by one caller of a wallet (an "
        "API key or an address; half of them for one Client-Id), besides the "
        "merchant's; a buyer has one or two",
    )
    held_per_payment_total: int = Field(
        default=500,
        ge=0,
        description="open long polls and streams of one payment by all wallets, so that a few "
        "callers cannot use up the room of others",
    )
    held_per_address: int = Field(
        default=200,
        ge=0,
        description="open long polls and streams of one address, for all payments, Client-Ids "
        "and health streams",
    )
    held_per_app: int = Field(
        default=10_000,
        ge=0,
        description="open long polls and streams of one App-Id: 200 MB at 20 kB each",
    )


class FailedGasSettings(BaseModel):
    """Units of gas that relayers can lose on one EVM chain in an hour of the clock.

    A payment by a contract account can use 300,000 to 600,000, and 530,000 more if it creates the
    account. Florin sends no more of them at a time than fit into the remaining budget.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=2_000_000,
        ge=_GAS_LEAST,
        description="gas of failed payments of one payer in an hour: one payment that fails "
        "three times, and some more; above, Florin sends nothing of that payer for "
        "the rest of the hour",
    )
    app: int = Field(
        default=15_000_000,
        ge=_GAS_LEAST,
        description="gas of failed payments that one wallet app or API key confirmed; above, its "
        "payments by contract accounts are paused",
    )
    chain: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="gas of all failed payments: one full block, 0.3 ether at a gas price of 10 "
        "gwei; above, all payments by contract accounts are paused, but never "
        "payments by plain keys",
    )
    opened_app: int = Field(
        default=30_000_000,
        ge=_GAS_LEAST,
        description="gas of successful payments of one app that create their accounts: about 70 "
        "at 400,000 each; limits strangers who pay themselves cents from new accounts",
    )
    opened_chain: int = Field(
        default=60_000_000,
        ge=_GAS_LEAST,
        description="gas of successful payments of all apps that create their accounts",
    )


class RefundCreditSettings(BaseModel):
    """The credit of merchants for refunds of live payments, in minor units of one asset.

    A partner can create any number of merchants, so the limit of one merchant alone is no bound.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    partner: int = Field(ge=0, description="credit of all merchants of one partner together")
    merchant: int | None = Field(
        default=None, ge=0, description="credit of each merchant; unset: as much as its partner"
    )
    total: int | None = Field(
        default=None,
        ge=0,
        description="credit of all partners together; unset: ten times the partner's",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, data: Any) -> Any:
        """Read a plain number as the partner's credit."""
        is_number = isinstance(data, int) and not isinstance(data, bool)
        return {"partner": data} if is_number else data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if not self.merchant_max <= self.partner <= self.total_max:
            raise ValueError("credit of a merchant <= of its partner <= in total")
        return self

    @property
    def merchant_max(self) -> int:
        """Return the credit of each merchant."""
        return self.partner if self.merchant is None else self.merchant

    @property
    def total_max(self) -> int:
        """Return the credit of all merchants together."""
        return 10 * self.partner if self.total is None else self.total


class FailedFeeSettings(BaseModel):
    """Lamports that relayers can lose on one Solana cluster in an hour of the clock.

    A transaction costs its fee even if it fails, and a payer can move the money away after Florin
    tried the payment. Florin sends no more payments at a time than fit into what is left.
    """

    model_config = ConfigDict(frozen=True)

    payer: int = Field(
        default=250_000,
        ge=_FEE_LEAST,
        description="fees of failed payments of one payer in an hour; above, its payments are "
        "paused",
    )
    app: int = Field(
        default=25_000_000,
        ge=_FEE_LEAST,
        description="fees of failed payments that one wallet app or API key confirmed; above, "
        "all its payments on the cluster are paused",
    )
    chain: int = Field(
        default=50_000_000,
        ge=_FEE_LEAST,
        description="fees of all failed payments: 0.05 SOL, about 5,000 of them; above, all "
        "payments on the cluster are paused",
    )
