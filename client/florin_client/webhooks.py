"""Verify webhooks as Standard Webhooks 1.0 signs them, and describe what they carry."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Literal, NotRequired, TypedDict, cast

TOLERANCE_S = 300
# what the names of headers begin with; both families carry the same values
_FAMILIES = ("webhook", "svix")
_PARTS = ("id", "timestamp", "signature")
_SECRET, _PUBLIC = "whsec_", "whpk_"
# a message is signed with three secrets at most, each in two ways
_SIGNATURES_MAX = 16


class AmountValue(TypedDict):
    """An amount in minor units, as decimal digits."""

    unit: str
    value: str


class Fraction(TypedDict):
    """An exact fraction of two integers, as decimal digits."""

    numerator: str
    denominator: str


class Fee(TypedDict):
    """A fee, and how it was computed."""

    kind: str
    base_amount: AmountValue
    percent: Fraction
    percent_amount: AmountValue
    total_amount: AmountValue


class Processing(TypedDict):
    """How a buyer pays."""

    processing_at: str
    option_amount: AmountValue
    fee: Fee | None
    settlement_amount: AmountValue
    buyer_caip10: str | None
    chain_caip2: str


class Success(TypedDict):
    """A payment succeeded."""

    succeeded_at: str
    tx_id: str | None


class Failure(TypedDict):
    """A payment failed."""

    failed_at: str
    failure_reason: str | None


class Cancellation(TypedDict):
    """A payment was cancelled."""

    cancelled_at: str
    cancellation_reason: str | None


class Expiry(TypedDict):
    """A payment expired."""

    expired_at: str


class Settlement(TypedDict):
    """The merchant received its money."""

    settled_at: str
    tx_id: str | None
    amount: AmountValue


class RefundSnapshot(TypedDict):
    """A refund as it was when an event happened."""

    refund_id: str
    status: Literal["pending", "processing", "succeeded", "failed"]
    amount: AmountValue
    tx_id: str | None
    created_at: str
    completed_at: str | None
    reason: str | None


class PaymentSnapshot(TypedDict):
    """A payment as it was when an event happened; a section is None until it is reached."""

    payment_id: str
    merchant_id: str
    live: bool
    payment_state_version: int
    reference_id: str
    status: Literal["requires_action", "processing", "succeeded", "failed", "expired", "cancelled"]
    amount: AmountValue
    created_at: str
    expires_at: str
    processing: Processing | None
    success: Success | None
    failed: Failure | None
    cancelled: Cancellation | None
    expired: Expiry | None
    settled: Settlement | None
    is_final: NotRequired[bool]
    refunds: NotRequired[list[RefundSnapshot]]


class Event(TypedDict):
    """The body of a webhook. More types and members may be added: ignore those you do not know."""

    id: str
    type: str
    api_version: str
    created_at: str
    data: PaymentSnapshot


class WebhookError(ValueError):
    """A message that is not what it seems: nothing of it is to be believed."""


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    key: str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Return the event of a message after its signature was verified; else raise WebhookError.

    The headers may be those that begin with `webhook-` or with `svix-`. `body` is what came, byte
    for byte. `key` is an endpoint's secret (`whsec_…`), or its public key (`whpk_…`), which needs
    the package `cryptography`. A message that was signed longer ago than `tolerance_s`, or as much
    in the future, is refused: it may have been caught and sent again.
    """
    raw = body.encode() if isinstance(body, str) else body
    event_id, at, signed = _signed_by(headers)
    if not (at.isascii() and at.isdigit() and len(at) <= 12):
        raise WebhookError("the timestamp is no time")
    if abs(now() - int(at)) > tolerance_s:
        raise WebhookError("the timestamp is too long ago, or in the future")
    content = f"{event_id}.{at}.".encode() + raw
    if not _signed(content, signed.split(" ")[:_SIGNATURES_MAX], key):
        raise WebhookError("no signature is right")
    try:
        event = json.loads(raw)
    except ValueError:
        raise WebhookError("the body is no JSON") from None
    if not isinstance(event, dict):
        raise WebhookError("the body is no JSON object")
    return cast("Event", event)


def _signed_by(headers: Mapping[str, str]) -> list[str]:
    """Return id, timestamp and signatures of the first family of headers that is complete."""
    lower = {name.lower(): value for name, value in headers.items()}
    names = [[f"{family}-{part}" for part in _PARTS] for family in _FAMILIES]
    for family in names:
        if all(name in lower for name in family):
            return [lower[name] for name in family]
    missing = next(name for name in names[0] if name not in lower)
    raise WebhookError(f"the header {missing} is missing")


def _signed(content: bytes, signatures: list[str], key: str) -> bool:
    """True if one of the signatures of the key's kind is right."""
    if key.startswith(_PUBLIC):
        kind, is_right = "v1a", _public(_decoded(key.removeprefix(_PUBLIC)), content)
    else:
        kind, is_right = "v1", _shared(_decoded(key.removeprefix(_SECRET)), content)
    for one in signatures:
        version, _, text = one.partition(",")
        if version == kind:
            try:
                found = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                continue
            if is_right(found):
                return True
    return False


def _shared(secret: bytes, content: bytes) -> Callable[[bytes], bool]:
    wanted = hmac.digest(secret, content, "sha256")
    return lambda found: hmac.compare_digest(found, wanted)


def _public(key: bytes, content: bytes) -> Callable[[bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  (an extra)
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )
    except ImportError:
        raise ImportError(
            "public keys of webhooks are used with cryptography: pip install cryptography, or "
            "verify with the endpoint's secret"
        ) from None
    try:
        public = Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        raise WebhookError("the key is no public key of webhooks") from None

    def is_right(found: bytes) -> bool:
        try:
            public.verify(found, content)
        except InvalidSignature:
            return False
        return True

    return is_right


def _decoded(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise WebhookError("the key is no secret of webhooks")
    return key
