"""Keys that sign receipts: Ed25519, named by the thumbprints of their public parts."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from joserfc.jwk import OKPKey

from florin_server.domain.cipher import Ciphertext

ALGORITHM: Final = "Ed25519"  # RFC 9864; also the name of the curve
SEED_BYTES: Final = 32
# others can cache the published keys for this long; a new key signs once all caches have it
CACHE_S: Final = 300
PUBLISHED_KEYS_MAX: Final = 100
PUBLICATION_US: Final = 2 * CACHE_S * 1_000_000


@dataclass(frozen=True, slots=True)
class ReceiptKey:
    """A key as it is kept; `n` counts from 0, `id` is the thumbprint (RFC 7638) of `public`."""

    n: int
    id: str
    public: bytes
    encrypted_seed: Ciphertext
    created_at_us: int
    revoked_at_us: int | None = None

    @property
    def jwk(self) -> dict[str, str]:
        """Return the public part, as it is published."""
        x = base64.urlsafe_b64encode(self.public).decode().rstrip("=")
        report = {"kty": "OKP", "crv": ALGORITHM, "x": x}
        return {**report, "kid": self.id, "use": "sig", "alg": ALGORITHM}


def load_private_key(seed: bytes) -> OKPKey:
    """Return the key of 32 secret bytes."""
    return OKPKey.import_key(Ed25519PrivateKey.from_private_bytes(seed))


def load_public_key(public: bytes) -> OKPKey:
    """Return the key of a public part, which signs nothing. ValueError if it is none."""
    return OKPKey.import_key(Ed25519PublicKey.from_public_bytes(public))


def get_public_bytes(key: OKPKey) -> bytes:
    """Return the 32 public bytes of a key."""
    public_key = key.public_key
    if not isinstance(public_key, Ed25519PublicKey):
        raise TypeError("another kind of key")
    return public_key.public_bytes_raw()


def get_cipher_context(key_id: str) -> str:
    """Return the context that the secret part of a key is encrypted for."""
    return f"receipt key {key_id}"


def find_signing_key(keys: Sequence[ReceiptKey], now_us: int) -> ReceiptKey | None:
    """Return the key, of all keys from the oldest on, that signs at a time; None without one.

    It is the newest key that every reader must know by then. A younger key signs only if no older
    key exists.
    """
    good = [key for key in keys if key.revoked_at_us is None]
    published_keys = [key for key in good if key.created_at_us + PUBLICATION_US <= now_us]
    if published_keys:
        return published_keys[-1]
    return good[0] if good else None
