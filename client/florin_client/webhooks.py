"""Verifies webhooks, as Standard Webhooks 1.0 has them."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

TOLERANCE_S = 300
_SECRET, _PUBLIC = "whsec_", "whpk_"
# a message is signed with three secrets at most, each in two ways
_SIGNATURES_MAX = 16


class WebhookError(ValueError):
    """A message that is not what it seems: nothing of it is to be believed."""


def verify(
    body: bytes | str,
    headers: Mapping[str, str],
    key: str,
    *,
    tolerance_s: float = TOLERANCE_S,
    now: Callable[[], float] = time.time,
) -> Any:
    """The event of a message, once it is known to be Florin's; WebhookError if it is not.

    `body` is what came, byte for byte. `key` is an endpoint's secret (`whsec_…`), or its public key
    (`whpk_…`), which needs the package `cryptography`. A message that was signed longer ago than
    `tolerance_s`, or as much in the future, is refused: it may have been caught and sent again.
    """
    raw = body.encode() if isinstance(body, str) else body
    given = {name.lower(): value for name, value in headers.items()}
    try:
        event_id, at, signed = (
            given[f"webhook-{name}"] for name in ("id", "timestamp", "signature")
        )
    except KeyError as missing:
        raise WebhookError(f"the header {missing.args[0]} is missing") from None
    if not (at.isascii() and at.isdigit() and len(at) <= 12):
        raise WebhookError("webhook-timestamp is no time")
    if abs(now() - int(at)) > tolerance_s:
        raise WebhookError("webhook-timestamp is too long ago, or in the future")
    content = f"{event_id}.{at}.".encode() + raw
    if not _signed(content, signed.split(" ")[:_SIGNATURES_MAX], key):
        raise WebhookError("no signature is right")
    try:
        return json.loads(raw)
    except ValueError:
        raise WebhookError("the body is no JSON") from None


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
