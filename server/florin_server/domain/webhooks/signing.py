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
# what the names of headers begin with
FAMILIES: Final = ("webhook", "svix")


@dataclass(frozen=True, slots=True)
class Keys:
    """What an endpoint's messages are signed with; both signatures come with every message."""

    shared: bytes = field(repr=False)
    seed: bytes = field(repr=False)

    @classmethod
    def new(cls, randbytes: Callable[[int], bytes]) -> Keys:
        """Keys that nobody has."""
        return cls(randbytes(_HMAC_BYTES), randbytes(_SEED_BYTES))

    @classmethod
    def of(cls, kept: bytes) -> Keys:
        """Those that were kept."""
        return cls(kept[:_HMAC_BYTES], kept[_HMAC_BYTES:])

    @property
    def kept(self) -> bytes:
        """Both, to be sealed."""
        return self.shared + self.seed

    @property
    def secret(self) -> str:
        """What the receiver verifies `v1` with, told once."""
        return _SECRET + base64.b64encode(self.shared).decode()

    @property
    def public_key(self) -> str:
        """What anybody verifies `v1a` with."""
        key = Ed25519PrivateKey.from_private_bytes(self.seed).public_key()
        return _PUBLIC + base64.b64encode(key.public_bytes_raw()).decode()


def event_id(payment_id: str, version: int) -> str:
    """The id of a change, the same whenever it is told and to whomever; it has no dot in it."""
    return f"evt_{payment_id.removeprefix('pay_')}_{version}"


def headers(keys: Sequence[Keys], event: str, at_s: int, body: bytes) -> dict[str, str]:
    """Return the headers of a message, signed with each of the keys, the newest first.

    Libraries read one family of headers or the other, so both come with equal values.
    """
    content = f"{event}.{at_s}.".encode() + body
    signed = []
    for one in keys:
        code = hmac.digest(one.shared, content, "sha256")
        sign = Ed25519PrivateKey.from_private_bytes(one.seed).sign(content)
        signed += [f"v1,{base64.b64encode(code).decode()}"]
        signed += [f"v1a,{base64.b64encode(sign).decode()}"]
    values = {"id": event, "timestamp": str(at_s), "signature": " ".join(signed)}
    return {f"{family}-{name}": value for family in FAMILIES for name, value in values.items()}
