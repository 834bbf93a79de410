"""Encrypted data, and keys that only the installation has."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class Ciphertext:
    """An AES-256-GCM envelope. `key_id` identifies the key without revealing anything about it."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


class DecryptionError(Exception):
    """The envelope cannot be opened: its key is lost, or it is not at its place."""


@dataclass(frozen=True, slots=True)
class Cipher:
    """Encrypts with the newest of its keys, the last one, and opens what any of them encrypted."""

    keys: Sequence[bytes] = field(default=(), repr=False)

    def encrypt(
        self, plaintext: bytes, context: str, randbytes: Callable[[int], bytes]
    ) -> Ciphertext:
        """Encrypt a text for one place, as which it is opened; LookupError without a key."""
        key, nonce = self._newest(), randbytes(_NONCE_BYTES)
        return Ciphertext(
            _get_key_id(key), nonce, AESGCM(key).encrypt(nonce, plaintext, context.encode())
        )

    def decrypt(self, ciphertext: Ciphertext, context: str) -> bytes:
        """Return the text that was sealed for that place; DecryptionError if it cannot be read."""
        for key in self.keys:
            if _get_key_id(key) == ciphertext.key_id:
                try:
                    return AESGCM(key).decrypt(
                        ciphertext.nonce, ciphertext.ciphertext, context.encode()
                    )
                except InvalidTag as error:
                    raise DecryptionError from error
        raise DecryptionError

    def derive(self, purpose: str, *parts: str) -> tuple[bytes, ...]:
        """Return 256 secret bits, always the same for a purpose and its parts.

        One value for each key, the newest first: values derived before a new key was added stay
        known. LookupError without a key.
        """
        text = "\0".join((purpose, *parts)).encode()
        self._newest()
        return tuple(
            hmac.digest(_derive_key(key, b"derive"), text, "sha256") for key in reversed(self.keys)
        )

    def _newest(self) -> bytes:
        if not self.keys:
            raise LookupError("no encryption key exists")
        return self.keys[-1]


def _get_key_id(key: bytes) -> str:
    return _derive_key(key, b"id").hex()[:16]


def _derive_key(key: bytes, label: bytes) -> bytes:
    """Return a separate key for each use."""
    return hmac.digest(key, b"florin capture " + label, hashlib.sha256)
