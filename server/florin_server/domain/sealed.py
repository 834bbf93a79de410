"""What is kept encrypted, and keys that only the installation has."""

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
class Sealed:
    """An AES-256-GCM envelope. `key_id` tells the key without telling anything about it."""

    key_id: str
    nonce: bytes
    ciphertext: bytes


class Lost(Exception):  # noqa: N818  (a state of the world, not a mistake)
    """The envelope cannot be opened: its key is gone, or it is not where it was put."""


@dataclass(frozen=True, slots=True)
class Seal:
    """Encrypts with the newest of its keys, the last one, and opens what any of them encrypted."""

    keys: Sequence[bytes] = field(default=(), repr=False)

    def close(self, plain: bytes, place: str, randbytes: Callable[[int], bytes]) -> Sealed:
        """Seals a text for one place, as which it is opened; LookupError without a key."""
        key, nonce = self._newest(), randbytes(_NONCE_BYTES)
        return Sealed(_id(key), nonce, AESGCM(key).encrypt(nonce, plain, place.encode()))

    def open(self, sealed: Sealed, place: str) -> bytes:
        """The text that was sealed for that place; Lost if it cannot be read."""
        for key in self.keys:
            if _id(key) == sealed.key_id:
                try:
                    return AESGCM(key).decrypt(sealed.nonce, sealed.ciphertext, place.encode())
                except InvalidTag as error:
                    raise Lost from error
        raise Lost

    def derive(self, purpose: str, *parts: str) -> tuple[bytes, ...]:
        """256 bits that nobody else can tell, always the same for a purpose and its parts.

        One for each key, the newest first: what was derived before a key was added is known still.
        LookupError without a key.
        """
        text = "\0".join((purpose, *parts)).encode()
        self._newest()
        return tuple(
            hmac.digest(_derived(key, b"derive"), text, "sha256") for key in reversed(self.keys)
        )

    def _newest(self) -> bytes:
        if not self.keys:
            raise LookupError("there is no key to seal with")
        return self.keys[-1]


def _id(key: bytes) -> str:
    return _derived(key, b"id").hex()[:16]


def _derived(key: bytes, label: bytes) -> bytes:
    """A key of its own for each use."""
    return hmac.digest(key, b"florin capture " + label, hashlib.sha256)
