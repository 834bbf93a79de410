"""The part of the application for users of the store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from florin_server.base.clock import Clock
from florin_server.db.engine.store import Store
from florin_server.domain.cipher import Cipher


class StorageContext(Protocol):
    """The store, its clock, its cipher, and random bytes."""

    @property
    def store(self) -> Store:
        """Return the store."""

    @property
    def clock(self) -> Clock:
        """Return the clock that the store and the workers share."""

    @property
    def randbytes(self) -> Callable[[int], bytes]:
        """Return the source of random bytes."""

    @property
    def cipher(self) -> Cipher:
        """Return the cipher of stored secrets."""
