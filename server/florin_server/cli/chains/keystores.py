"""Read or create the keys of a chain: from keystores, files in hex, or new ones."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from florin_server.app.chains.keys import (
    find_keystore_address,
    open_keystore,
    read_password,
    write_evm_keystore,
    write_solana_keystore,
)
from florin_server.app.home import SetupError
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
)
from florin_server.cli.settings import get_settings
from florin_server.domain.caip import format_checksum_address
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.settings import Settings


@dataclass(frozen=True, slots=True)
class ChainKey:
    """A key and its keystore; the keystore is None for the installation's own key.

    If `is_new`, the keystore is written later, when everything else is decided.
    """

    secret: bytes
    keystore: Path | None = None
    is_new: bool = False


class KeySource:
    """Opens and creates the keys of one kind of chain, EVM or Solana."""

    def __init__(self, settings: Settings, *, is_solana: bool) -> None:
        self._settings = settings
        self._is_solana = is_solana

    def get_address(self, key: ChainKey) -> str:
        """Return the address of a key's account."""
        if self._is_solana:
            return SolanaSigner(key.secret).address
        return format_checksum_address(EvmSigner(key.secret).address)

    def open_keystore(self, path: Path) -> ChainKey:
        """Open a keystore. SetupError if other users can read it, or it does not open."""
        path = path.resolve()
        _require_private(path)
        key = ChainKey(open_keystore(path, read_password(self._settings)), path)
        # one key must not make two kinds of signatures
        if self._is_solana and find_keystore_address(path) != self.get_address(key):
            raise SetupError(f"the keystore {path} contains no key of a Solana account")
        return key

    def create_key(self, keystore: Path, source: Path | None = None) -> ChainKey:
        """Return a new key, or the hex key of a file, for a keystore that does not exist yet."""
        read_password(self._settings)  # fail now rather than create a key without a password
        if keystore.exists():
            raise SetupError(f"{keystore} exists already, and keys are never overwritten")
        return ChainKey(
            os.urandom(32) if source is None else _read_hex(source), keystore, is_new=True
        )

    def write_keystore(self, key: ChainKey, owner: str) -> None:
        """Write the keystore of a new key; do nothing for other keys."""
        if key.keystore is None or not key.is_new:
            return
        write = write_solana_keystore if self._is_solana else write_evm_keystore
        write(key.keystore, key.secret, read_password(self._settings))
        print_hint(f"{owner} key is in {key.keystore}. Keep a copy of it.")


def create_keystore(
    overrides: dict[str, object], path: Path, source: Path | None, *, is_solana: bool
) -> None:
    """Write a keystore, and print the address of its account."""
    ring = KeySource(get_settings(overrides), is_solana=is_solana)
    try:
        key = ring.create_key(path, source)
        ring.write_keystore(key, "The")
    except (SetupError, OSError, ValueError) as error:
        fail("Not created", error)
    if not print_json({"file": str(path), "address": ring.get_address(key)}):
        console.print(ring.get_address(key))


def _require_private(path: Path) -> None:
    """Raise SetupError if other users can read the file; changing its mode is up to its owner."""
    if path.exists() and path.stat().st_mode & 0o077:
        raise SetupError(f"other users can read {path}: run `chmod go= {path}` as its owner")


def _read_hex(path: Path) -> bytes:
    _require_private(path)
    try:
        secret = bytes.fromhex(path.read_text().strip().removeprefix("0x"))
    except (OSError, ValueError):
        raise SetupError(f"{path} contains no key in hex") from None
    if len(secret) != 32:
        raise SetupError(f"the key in {path} does not have 32 bytes")
    return secret
