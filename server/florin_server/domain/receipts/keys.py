"""Keys that sign receipts: Ed25519, named by the thumbprints of their public parts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.jwk import OKPKey

from florin_server.domain.sealed import Sealed

ALGORITHM: Final = "Ed25519"  # RFC 9864; also the name of the curve
SEED_BYTES: Final = 32
# others may keep what is published for so long; a new key signs once all of them must know it
KEPT_S: Final = 300
PUBLISHED_MAX: Final = 100
PUBLISHED_US: Final = 2 * KEPT_S * 1_000_000


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """A key as it is kept; `n` counts from 0, `id` is the thumbprint (RFC 7638) of `public`."""

    n: int
    id: str
    public: bytes
    sealed: Sealed
    created_at_us: int
    revoked_at_us: int | None = None

    @property
    def jwk(self) -> dict[str, str]:
        """The public part, as it is published."""
        x = base64.urlsafe_b64encode(self.public).decode().rstrip("=")
        told = {"kty": "OKP", "crv": ALGORITHM, "x": x}
        return {**told, "kid": self.id, "use": "sig", "alg": ALGORITHM}


def of_seed(seed: bytes) -> OKPKey:
    """The key that 32 secret bytes are."""
    return OKPKey.import_key(Ed25519PrivateKey.from_private_bytes(seed))


def of_public(public: bytes) -> OKPKey:
    """The key of a public part, which signs nothing. ValueError if it is none."""
    return OKPKey.import_key(Ed25519PublicKey.from_public_bytes(public))


def public_of(key: OKPKey) -> bytes:
    """The 32 public bytes of a key."""
    found = key.public_key
    if not isinstance(found, Ed25519PublicKey):
        raise TypeError("another kind of key")
    return found.public_bytes_raw()


def place(key_id: str) -> str:
    """What the secret part of a key is sealed for."""
    return f"receipt key {key_id}"


def signer(keys: Sequence[ReceiptKey], now_us: int) -> ReceiptKey | None:
    """Which of all keys, the oldest first, signs at a time; None if none may.

    It is the newest that everybody must know by then. A key is younger only where none is older.
    """
    good = [one for one in keys if one.revoked_at_us is None]
    known = [one for one in good if one.created_at_us + PUBLISHED_US <= now_us]
    if known:
        return known[-1]
    return good[0] if good else None
