"""Payments as Florin stores them, as plain values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from florin_server.domain.caip import canonicalize_asset
from florin_server.domain.payments.order import PaymentLine
from florin_server.domain.payments.triggers import SandboxTrigger, find_trigger


class PaymentStatus(StrEnum):
    """The status of a payment; the values of the documented API."""

    REQUIRES_ACTION = "requires_action"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @property
    def is_final(self) -> bool:
        """Return whether the status is final, so that the payment never leaves it."""
        return self not in {PaymentStatus.REQUIRES_ACTION, PaymentStatus.PROCESSING}


class FailureCode(StrEnum):
    """The reason of a failed payment, as far as the API reports it."""

    DECLINED_USER = "declined_user"


class CancellationReason(StrEnum):
    """The party that canceled a payment."""

    BY_USER = "cancelled_by_user"
    BY_MERCHANT = "cancelled_by_merchant"


@dataclass(frozen=True, slots=True)
class Payment:
    """One payment. Times ending in `_us` are microseconds, others seconds, since the Unix epoch.

    `salt` is 16 random bytes that no answer holds: the on-chain reference is derived from it.
    `version` rises by one with every change, from 0 at creation. For `description`, `lines` and
    `metadata` see `Order`.
    """

    id: str
    partner_id: str
    merchant_id: str
    live: bool
    status: PaymentStatus
    version: int
    unit: str
    value: int
    reference_id: str
    success_url: str | None
    error_url: str | None
    salt: bytes
    created_at_us: int
    updated_at_us: int
    expires_at: int
    option_id: str | None = None
    payer: str | None = None  # CAIP-10
    provider_name: str | None = None
    provider_icon: str | None = None
    tx_id: str | None = None
    option_unit: str | None = None
    option_value: int | None = None
    settled_value: int | None = None  # received at the merchant's own destination
    failure_code: FailureCode | None = None
    failure_detail: str | None = None
    cancelled_reason: CancellationReason | None = None
    description: str | None = None
    lines: tuple[PaymentLine, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()

    def with_expiry(self, now_us: int) -> Payment:
        """Return the payment at a time: an unconfirmed payment is expired from `expires_at` on."""
        if self.status is PaymentStatus.REQUIRES_ACTION and now_us >= self.expires_at * 1_000_000:
            return replace(self, status=PaymentStatus.EXPIRED)
        return self

    @property
    def trigger(self) -> SandboxTrigger | None:
        """Return the test outcome that its reference id requests; None for a live payment."""
        return None if self.live else find_trigger(self.reference_id)


@dataclass(frozen=True, slots=True)
class Action:
    """A call that a wallet executes. `params_json` is a JSON array as text."""

    chain_id: str  # CAIP-2
    method: str
    params_json: str


@dataclass(frozen=True, slots=True)
class BuildAction:
    """A step that is resolved into actions by fetch."""

    data: str


@dataclass(frozen=True, slots=True)
class PaymentOption:
    """One way to pay a payment; at most one of its actions is a build.

    `account` is as the wallet wrote it, `payer` the same account in canonical form (CAIP-10, EVM
    addresses lower-case). `asset` is CAIP-19. `eta_s` is in seconds. `expires_at` (Unix seconds) is
    set if the price lapses before the payment does. `terms` contains what the rail needs to verify
    and settle it again later (JSON values only); it never changes once stored. `fee` is what the
    operator keeps of `value`: `fee_fixed` and `fee_basis_points` of it, rounded up. If `terms` have
    `owed_fee`, the merchant receives all of `value`, and owes the fee.

    `reference` (0x-hex) is in its settlement event; None where Florin alone can settle. `head` was
    the newest known block when it was offered, None for options of a release that did not store it.
    """

    id: str
    payment_id: str
    account: str
    payer: str
    chain_id: str
    asset: str
    value: int
    eta_s: int
    expires_at: int | None
    method: str  # the rail's own name of the way to pay, e.g. "eip3009"
    actions: tuple[Action | BuildAction, ...]
    terms: Mapping[str, object]
    created_at_us: int
    fee: int = 0
    fee_fixed: int = 0
    fee_basis_points: int = 0
    reference: str | None = None
    head: int | None = None

    @property
    def is_fee_owed(self) -> bool:
        """Return True if the merchant receives the whole value, and owes the fee."""
        return "owed_fee" in self.terms

    def first_block(self, reorg_depth: int, default_head: int) -> int:
        """Return the block below which none can contain its effect, for any reorganization.

        `default_head` replaces the newest block at the time of the offer, if that is not known.
        """
        return max(0, (default_head if self.head is None else self.head) - reorg_depth)

    @property
    def build(self) -> BuildAction | None:
        """Return the action that fetch resolves; None if the option contains all its actions."""
        return next((step for step in self.actions if isinstance(step, BuildAction)), None)

    def resolve_actions(
        self, resolved_builds: Sequence[ResolvedBuild]
    ) -> tuple[Action, ...] | None:
        """Return what the wallet executes, in order; None if the build was never resolved.

        `resolved_builds` are those of the option; the actions of all of them have the same kinds.
        """
        steps: list[Action] = []
        for step in self.actions:
            if isinstance(step, Action):
                steps.append(step)
            elif resolved_builds:
                steps += resolved_builds[0].actions
            else:
                return None
        return tuple(steps)


@dataclass(frozen=True, slots=True)
class ResolvedBuild:
    """One result of resolving an option's build; `n` counts from 0.

    Every issued build is valid until `expires_at` (Unix seconds), or as long as its option if that
    is None. `head` was the newest block then: the actions have no effect in earlier blocks. `terms`
    belong to the rail, JSON values only.
    """

    payment_id: str
    option_id: str
    n: int
    actions: tuple[Action, ...]
    terms: Mapping[str, object]
    head: int
    issued_at_us: int
    expires_at: int | None = None

    @property
    def has_nonce(self) -> bool:
        """Return True if its transaction uses a durable nonce instead of a blockhash."""
        return "nonce" in self.terms


@dataclass(frozen=True, slots=True)
class FreeNonce:
    """A free durable nonce, with its value in the final block `slot`."""

    address: str
    value: str
    slot: int


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The content bound to a payment by its confirm. `outputs` are JSON texts, in order."""

    payment_id: str
    option_id: str
    outputs: tuple[str, ...]
    digest: bytes
    at_us: int


@dataclass(frozen=True, slots=True)
class Merchant:
    """The merchant that is paid. `support_email` and `support_url` are shown to buyers.

    `accent` is the color of buttons on its checkout page, `#rrggbb`.
    """

    id: str
    partner_id: str
    name: str
    email: str
    icon_url: str | None
    status: str  # active, inactive, suspended
    live: bool
    created_at_us: int
    deleted_at_us: int | None = None
    support_email: str | None = None
    support_url: str | None = None
    accent: str | None = None


@dataclass(frozen=True, slots=True)
class Destination:
    """A merchant's destination (CAIP-10) for one asset (CAIP-19), on its chain, as written."""

    id: str
    merchant_id: str
    asset: str
    account: str

    @property
    def asset_key(self) -> str:
        """Return the asset in its form for comparison.

        A merchant has at most one destination for each.
        """
        return canonicalize_asset(self.asset, checksum=False)


@dataclass(frozen=True, slots=True)
class BankAccount:
    """A merchant's bank account, in the operator's words."""

    id: str
    merchant_id: str
    status: str
    bank_type: str


class RefundStatus(StrEnum):
    """The status of a refund."""

    PENDING = "pending"
    PROCESSING = "processing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Refund:
    """Money of a succeeded payment that goes back to the account that paid it, all or a part.

    `account` is CAIP-10, None if no account did (a simulated payment). `version` counts the changes
    of all refunds of the payment, from 1; it is the count at this refund's latest change. `ordinal`
    counts the refunds of the payment, from 1. `payment_value` is `value` in the payment's own unit,
    at the payment's own rate.
    """

    id: str
    payment_id: str
    unit: str
    value: int
    account: str | None
    status: RefundStatus
    tx_id: str | None
    created_at_us: int
    completed_at_us: int | None = None
    version: int = 1
    ordinal: int = 1
    reason: str | None = None
    payment_value: int = 0
