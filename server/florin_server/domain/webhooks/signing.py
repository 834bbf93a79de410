"""Signatures and secrets as Standard Webhooks 1.0 has them: HMAC-SHA256 (`v1`), Ed25519 (`v1a`)."""

from __future__ import annotations

import base64
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

_HMAC_BYTES: Final = 32
_SEED_BYTES: Final = 32
_SECRET, _PUBLIC = "whsec_", "whpk_"
# the prefixes of the header names
HEADER_FAMILIES: Final = ("webhook", "svix")


@dataclass(frozen=True, slots=True)
class WebhookKeys:
    """The keys that sign an endpoint's messages; every message has both signatures."""

    shared: bytes = field(repr=False)
    seed: bytes = field(repr=False)

    @classmethod
    def generate(cls, randbytes: Callable[[int], bytes]) -> WebhookKeys:
        """Return new random keys."""
        return cls(randbytes(_HMAC_BYTES), randbytes(_SEED_BYTES))

    @classmethod
    def from_bytes(cls, stored: bytes) -> WebhookKeys:
        """Return stored keys."""
        return cls(stored[:_HMAC_BYTES], stored[_HMAC_BYTES:])

    @property
    def stored_bytes(self) -> bytes:
        """Return both keys, to be encrypted."""
        return self.shared + self.seed

    @property
    def secret(self) -> str:
        """Return the secret with which the receiver verifies `v1`, shown once."""
        return _SECRET + base64.b64encode(self.shared).decode()

    @property
    def public_key(self) -> str:
        """Return the public key that verifies `v1a`."""
        key = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return _PUBLIC + base64.b64encode(key.public_bytes_raw()).decode()


def format_event_id(payment_id: str, version: int) -> str:
    """Return the id of a change, the same for every endpoint and attempt; it contains no dot."""
    return f"evt_{payment_id.removeprefix('pay_')}_{version}"


def build_headers(
    keys: Sequence[WebhookKeys], event: str, at_s: int, body: bytes
) -> dict[str, str]:
    """Return the headers of a message, signed with each of the keys, the newest first.

    Libraries read one family of headers or the other, so both come with equal values.
    """
    content = f"{event}.{at_s}.".encode() + body
    signed = []
    for key in keys:
        code = hmac.digest(key.shared, content, "sha256")
        sign = Ed25519PrivateKey.from_private_bytes(key.seed).sign(content)
        signed += [f"v1,{base64.b64encode(code).decode()}"]
        signed += [f"v1a,{base64.b64encode(sign).decode()}"]
    values = {"id": event, "timestamp": str(at_s), "signature": " ".join(signed)}
    return {
        f"{family}-{name}": value for family in HEADER_FAMILIES for name, value in values.items()
    }
