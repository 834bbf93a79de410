"""The keys of a chain as an operator hands them over: keystores, files in hex, or new ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from florin_server.boot.chains.keys import (
    address_in,
    open_keystore,
    password_of,
    write_evm_keystore,
    write_solana_keystore,
)
from florin_server.boot.home import Refused
from florin_server.cli.console import console, fail, note, told
from florin_server.cli.settings import settings_of
from florin_server.config import Settings
from florin_server.domain.caip import checksum_address
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.solana.sending.signer import SolanaSigner


@dataclass(frozen=True, slots=True)
class Key:
    """A key, and the keystore that holds it; None for the installation's own.

    `is_new` tells that the keystore is written when all else is settled.
    """

    secret: bytes
    keystore: Path | None = None
    is_new: bool = False


class KeyRing:
    """Opens and makes the keys of one kind of chain."""

    def __init__(self, settings: Settings, *, is_solana: bool) -> None:
        self._settings = settings
        self._is_solana = is_solana

    def address(self, key: Key) -> str:
        """The account of a key."""
        if self._is_solana:
            return SolanaSigner(key.secret).address
        return checksum_address(Signer(key.secret).address)

    def opened(self, path: Path) -> Key:
        """The key in a keystore. Refused if others can read it, or it does not open."""
        path = path.resolve()
        _check_private(path)
        key = Key(open_keystore(path, password_of(self._settings)), path)
        # no key serves two kinds of signature
        if self._is_solana and address_in(path) != self.address(key):
            raise Refused(f"the keystore {path} holds no key of a Solana account")
        return key

    def made(self, keystore: Path, source: Path | None = None) -> Key:
        """A new key, or the one that a file holds in hex, for a keystore that is not there yet."""
        password_of(self._settings)  # without one there would be a key that nobody can open
        if keystore.exists():
            raise Refused(f"{keystore} is there already, and a key is never overwritten")
        return Key(os.urandom(32) if source is None else _in_hex(source), keystore, is_new=True)

    def write(self, key: Key, whose: str) -> None:
        """Writes the keystore of a key that has none yet."""
        if key.keystore is None or not key.is_new:
            return
        write = write_solana_keystore if self._is_solana else write_evm_keystore
        write(key.keystore, key.secret, password_of(self._settings))
        note(f"{whose} key is in {key.keystore}; keep a copy of it.")


def make(given: dict[str, object], path: Path, source: Path | None, *, is_solana: bool) -> None:
    """`florin chain keystore`: writes a keystore and prints its account."""
    ring = KeyRing(settings_of(given), is_solana=is_solana)
    try:
        key = ring.made(path, source)
        ring.write(key, "The")
    except (Refused, OSError, ValueError) as error:
        fail("Not made", error)
    if not told({"file": str(path), "address": ring.address(key)}):
        console.print(ring.address(key))


def _check_private(path: Path) -> None:
    """Refused if others can read a file of the operator's: its mode is not ours to change."""
    if path.exists() and path.stat().st_mode & 0o077:
        raise Refused(f"others can read {path}: as its owner, chmod go= {path}")


def _in_hex(path: Path) -> bytes:
    _check_private(path)
    try:
        secret = bytes.fromhex(path.read_text().strip().removeprefix("0x"))
    except (OSError, ValueError):
        raise Refused(f"{path} holds no key in hex") from None
    if len(secret) != 32:
        raise Refused(f"{path} holds no key of 32 bytes")
    return secret
