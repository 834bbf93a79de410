"""Verify webhooks signed by Standard Webhooks 1.0; types of their bodies."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Literal, NotRequired, TypedDict, cast

TOLERANCE_S = 300
# prefixes of header names; both families have equal values
_HEADER_PREFIXES = ("webhook", "svix")
_HEADER_PARTS = ("id", "timestamp", "signature")
_SECRET_PREFIX, _PUBLIC_KEY_PREFIX = "whsec_", "whpk_"
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
    """Payment data once a buyer has committed to an option."""

    processing_at: str
    option_amount: AmountValue
    fee: Fee | None
    settlement_amount: AmountValue
    buyer_caip10: str | None
    chain_caip2: str


class Success(TypedDict):
    """Data of a succeeded payment."""

    succeeded_at: str
    tx_id: str | None


class Failure(TypedDict):
    """Data of a failed payment."""

    failed_at: str
    failure_reason: str | None


class Cancellation(TypedDict):
    """Data of a cancelled payment."""

    cancelled_at: str
    cancellation_reason: str | None


class Expiry(TypedDict):
    """Data of an expired payment."""

    expired_at: str


class Settlement(TypedDict):
    """Settlement of a payment to its merchant."""

    settled_at: str
    tx_id: str | None
    amount: AmountValue


class RefundSnapshot(TypedDict):
    """Snapshot of a refund at the time of an event."""

    refund_id: str
    status: Literal["pending", "processing", "succeeded", "failed"]
    amount: AmountValue
    tx_id: str | None
    created_at: str
    completed_at: str | None
    reason: str | None


class DepositSnapshot(TypedDict):
    """Money at an address of a payment: it arrived, or it was sent back.

    `received`, `missing` and `over` are None for a return; `returned_to_caip10` and `payout_id` are
    None for a deposit.
    """

    tx_id: str | None
    sender_caip10: str | None
    address_caip10: str
    amount: AmountValue
    is_final: bool
    received: AmountValue | None
    missing: AmountValue | None
    over: AmountValue | None
    returned_to_caip10: str | None
    payout_id: str | None


class PaymentSnapshot(TypedDict):
    """Snapshot of a payment at the time of an event; a section is None until it is reached."""

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
    deposit: NotRequired[DepositSnapshot]


class Event(TypedDict):
    """The body of a webhook. Types and members can be added: ignore those you do not know."""

    id: str
    type: str
    api_version: str
    created_at: str
    data: PaymentSnapshot


class WebhookError(ValueError):
    """A message that fails verification: do not trust any part of it."""


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    key: str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Event:
    """Return the event of a message after its signature was verified; else raise WebhookError.

    `headers` need the family that starts with `webhook-`, or the family with `svix-`. `body` must
    be the received bytes, unchanged. `key` is an endpoint's secret (`whsec_…`), or its public key
    (`whpk_…`), which needs the package `cryptography`. A message that was signed longer ago than
    `tolerance_s`, or as far in the future, is refused: it can be a replay of a captured message.
    """
    raw = body.encode() if isinstance(body, str) else body
    event_id, at, signed = _get_signature_headers(headers)
    if not (at.isascii() and at.isdigit() and len(at) <= 12):
        raise WebhookError("the timestamp is invalid")
    if abs(now() - int(at)) > tolerance_s:
        raise WebhookError("the timestamp is too old, or in the future")
    content = f"{event_id}.{at}.".encode() + raw
    if not _has_valid_signature(content, signed.split(" ")[:_SIGNATURES_MAX], key):
        raise WebhookError("no signature is valid")
    try:
        event = json.loads(raw)
    except ValueError:
        raise WebhookError("the body is not JSON") from None
    if not isinstance(event, dict):
        raise WebhookError("the body is not a JSON object")
    return cast("Event", event)


def _get_signature_headers(headers: Mapping[str, str]) -> list[str]:
    """Return id, timestamp and signatures of the first complete family of headers."""
    lower = {name.lower(): value for name, value in headers.items()}
    names = [[f"{family}-{part}" for part in _HEADER_PARTS] for family in _HEADER_PREFIXES]
    for family in names:
        if all(name in lower for name in family):
            return [lower[name] for name in family]
    missing = next(name for name in names[0] if name not in lower)
    raise WebhookError(f"the header {missing} is missing")


def _has_valid_signature(content: bytes, signatures: list[str], key: str) -> bool:
    """Return True if one of the signatures of the key's kind is valid."""
    if key.startswith(_PUBLIC_KEY_PREFIX):
        kind, is_right = (
            "v1a",
            _make_public_key_verifier(_decode_key(key.removeprefix(_PUBLIC_KEY_PREFIX)), content),
        )
    else:
        kind, is_right = (
            "v1",
            _make_secret_verifier(_decode_key(key.removeprefix(_SECRET_PREFIX)), content),
        )
    for signature in signatures:
        version, _, text = signature.partition(",")
        if version == kind:
            try:
                candidate = base64.b64decode(text, validate=True)
            except (binascii.Error, ValueError):
                continue
            if is_right(candidate):
                return True
    return False


def _make_secret_verifier(secret: bytes, content: bytes) -> Callable[[bytes], bool]:
    expected = hmac.digest(secret, content, "sha256")
    return lambda result: hmac.compare_digest(result, expected)


def _make_public_key_verifier(key: bytes, content: bytes) -> Callable[[bytes], bool]:
    try:
        from cryptography.exceptions import InvalidSignature  # noqa: PLC0415  (an extra)
        from cryptography.hazmat.primitives.asymmetric.ed25519 import (  # noqa: PLC0415
            Ed25519PublicKey,
        )
    except ImportError:
        raise ImportError(
            "public keys of webhooks need cryptography: pip install cryptography, or "
            "verify with the endpoint's secret"
        ) from None
    try:
        public = Ed25519PublicKey.from_public_bytes(key)
    except ValueError:
        raise WebhookError("the key is not a public key of webhooks") from None

    def is_right(result: bytes) -> bool:
        try:
            public.verify(result, content)
        except InvalidSignature:
            return False
        return True

    return is_right


def _decode_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:
        raise WebhookError("the key is not a secret of webhooks")
    return key
