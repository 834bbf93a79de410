"""The model of a payment: its allowed actions, as a short reference for the service.

It uses no code of the service. Every method returns the API's expected answer (None for success)
and changes the model as the service must change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

SECOND_US = 1_000_000
# how long after its expiry a signed authorization remains valid
GRACE_S = 300
KEY_TTL_US = 7 * 86_400 * SECOND_US

Refusal = tuple[int, str]

EXPIRED: Refusal = (410, "payment_expired")
WRONG_STATE: Refusal = (400, "invalid_state")
UNKNOWN: Refusal = (400, "invalid_params")
CONFLICT: Refusal = (409, "idempotency_conflict")
INVALID: Refusal = (400, "params_validation")
UNPAID: Refusal = (400, "payment_not_succeeded")
REFUNDED: Refusal = (409, "already_refunded")
FINAL = frozenset({"succeeded", "failed", "expired", "cancelled"})


@dataclass(frozen=True)
class Submission:
    """A wallet's outputs, and what is wrong with them.

    `fault` is "" for valid outputs, "mismatch" for outputs that answer other actions, and "bad" for
    unreadable or invalid outputs.
    """

    option_id: str
    outputs: tuple[str, ...]
    fault: str = ""
    payer: str | None = None


# a currency has four digits fewer than an asset, so the payment's own rate is exact here
MINOR_UNITS = 10_000
REFUNDS_MAX = 20


@dataclass(frozen=True)
class Part:
    """A refund, in token units and in the payment's currency."""

    id: str
    token: int
    fiat: int


@dataclass
class Life:
    """One payment. `bound` is the submission to which it is bound, whatever its result."""

    id: str
    value: str
    reference: str | None
    expires_at: int
    now_us: int
    status: str = "requires_action"
    version: int = 0
    bound: tuple[str, tuple[str, ...]] | None = None
    buyer: str | None = None
    cancelled_by: str | None = None
    cancelled_at_us: int = 0
    stalled: bool = False
    simulated: bool = False
    parts: list[Part] = field(default_factory=list)
    # learned from the first answer that has it; later answers must be equal
    info: dict[str, Any] | None = None
    offers: dict[str, str] = field(default_factory=dict)
    # the version that all readers have returned
    read_version: int = -1
    story: list[str] = field(default_factory=list)

    def __repr__(self) -> str:
        return f"<{self.id[-4:]}>"

    @property
    def is_open(self) -> bool:
        return self.status == "requires_action"

    @property
    def is_final(self) -> bool:
        return self.status in FINAL

    def _become(self, status: str) -> None:
        assert not self.is_final
        self.status = status
        self.version += 1

    def clock(self, now_us: int) -> None:
        """Expire an unconfirmed payment from `expires_at` on."""
        self.now_us = now_us
        if self.is_open and now_us >= self.expires_at * SECOND_US:
            self._become("expired")

    def unpayable(self) -> Refusal | None:
        """Return why no action can be fetched, or None."""
        if self.status == "expired":
            return EXPIRED
        return None if self.is_open else WRONG_STATE

    def confirm(self, sent: Submission) -> Refusal | None:
        if not self.is_open and self.bound == (sent.option_id, sent.outputs):
            return None
        if self.status == "expired":
            return EXPIRED
        if self.status in {"cancelled", "failed"}:
            return WRONG_STATE
        if self.status in {"processing", "succeeded"}:
            return CONFLICT
        if sent.option_id not in self.offers.values() or sent.fault == "bad":
            return UNKNOWN
        self.bound = (sent.option_id, sent.outputs)
        if sent.fault == "mismatch":
            self._become("failed")
        else:
            self.buyer = sent.payer
            self._become("processing")
        return None

    def cancel(self, by: str) -> Refusal | None:
        if self.status == "cancelled":
            return None
        if not self.is_open:
            return WRONG_STATE
        self.cancelled_by, self.cancelled_at_us = f"cancelled_by_{by}", self.now_us
        self._become("cancelled")
        return None

    def simulate(self, outcome: str) -> Refusal | None:
        """End a test payment as the partner says, or keep it from ending on its own."""
        after = "processing" if outcome == "stall" else outcome
        if self.is_final or (outcome == "cancelled" and not self.is_open):
            return None if self.status == after else WRONG_STATE
        if outcome == "cancelled":
            self.cancelled_by, self.cancelled_at_us = "cancelled_by_merchant", self.now_us
        if self.stalled and outcome == "stall":
            return None
        self.stalled, self.simulated = outcome == "stall", True
        self._become(after)
        return None

    @property
    def token_left(self) -> int:
        """Return the token units that are left to refund."""
        return int(self.value) * MINOR_UNITS - sum(part.token for part in self.parts)

    @property
    def fiat_left(self) -> int:
        """Return the largest possible refund in the payment's currency."""
        unrefunded = int(self.value) - sum(part.fiat for part in self.parts)
        return min(unrefunded, self.token_left // MINOR_UNITS)

    def refund(self, unit: str, value: int) -> Refusal | tuple[int, int]:
        """Refund part of what was paid or, as the first refund, all of it.

        Return the refund's token units and currency amount, or its refusal.
        """
        if self.status != "succeeded":
            return UNPAID
        if not unit:
            paid = int(self.value)
            return REFUNDED if self.parts else (paid * MINOR_UNITS, paid)
        if unit == "other" or value < 1:
            return INVALID
        left = self.token_left if unit == "token" else self.fiat_left
        if value > left or len(self.parts) >= REFUNDS_MAX:
            return REFUNDED
        if unit == "fiat":
            return value * MINOR_UNITS, value
        last = int(self.value) - sum(part.fiat for part in self.parts)
        return value, last if value == left else min(value // MINOR_UNITS, self.fiat_left)

    def settle(self, chain_s: int) -> None:
        """Seal what was submitted in a block; a lapsed authorization moves no money."""
        if self.status == "processing" and not self.stalled:
            self._become("succeeded" if chain_s < self.expires_at + GRACE_S else "failed")

    # the API's answers

    def build_status(self) -> dict[str, Any]:
        """Return the expected Status, except `info`."""
        answer: dict[str, Any] = {"status": self.status, "isFinal": self.is_final}
        if not self.is_final:
            # both chains take a second; a simulated payment is on no chain
            chain_ms = 2000 if self.buyer is None else 500
            answer["pollInMs"] = 1000 if self.is_open else chain_ms
        if self.status == "failed":
            answer["failureCode"] = None
        return answer

    def cancelled(self) -> dict[str, Any]:
        return {
            "paymentId": self.id,
            "status": "cancelled",
            "cancelledReason": self.cancelled_by,
            "cancelledAt": stamp(self.cancelled_at_us),
        }

    def detailed(self) -> dict[str, Any]:
        """Return the members of Detail that a life changes, and those that it must not change."""
        over = self.status == "cancelled"
        return {
            "status": self.status,
            "isFinal": self.is_final,
            "version": self.version,
            "paymentId": self.id,
            "referenceId": self.reference,
            "expiresAt": self.expires_at,
            "info": self.info,
            "cancelledReason": self.cancelled_by if over else None,
            "cancelledAt": stamp(self.cancelled_at_us) if over else None,
        }


def stamp(at_us: int) -> str:
    """Format a time as in answers, to the millisecond."""
    moment = datetime.fromtimestamp(at_us // 1000 / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


@dataclass
class Key:
    """The request bound to an idempotency key."""

    body: dict[str, Any]
    answer: dict[str, Any]
    at_us: int
    life: Life

    def lapsed(self, now_us: int) -> bool:
        return now_us >= self.at_us + KEY_TTL_US
