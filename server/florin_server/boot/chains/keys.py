"""Keys that sign for an operator: from keystore files (version 3), or the installation's own.

One password opens all of an installation's keystores. It comes from a setting or a file, never
from a command line, and is never told.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from florin_server import logs
from florin_server.boot.home import Refused, Secrets, private
from florin_server.config import Settings
from florin_server.domain.caip import checksum_address
from florin_server.rails.evm.sending.transactions import Signer
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain

_log = logging.getLogger(__name__)

_KEY_BYTES = 32
# a keystore has half a kilobyte; whatever is larger is another file
_FILE_BYTES_MAX = 10_000


class Keyring:
    """The keys of an installation, by chain; every keystore is opened once."""

    def __init__(self, settings: Settings, kept: Secrets) -> None:
        self._settings = settings
        self._kept = kept
        self._opened: dict[Path, bytes] = {}

    def relayers(self, chain: EvmChain) -> tuple[Signer, ...]:
        """Who submits and pays for gas on a chain. Refused if a keystore cannot be used."""
        if not chain.relayer_keystores:
            return (Signer(self._kept.relayer_key),)
        signers = tuple(self._evm(path) for path in chain.relayer_keystores)
        _check_relayers(chain, [signer.address for signer in signers])
        return signers

    def solana_relayers(self, chain: SolanaChain) -> tuple[SolanaSigner, ...]:
        """The same on a Solana cluster."""
        if not chain.relayer_keystores:
            return (SolanaSigner(self._kept.solana_relayer_seed),)
        signers = tuple(self._solana(path) for path in chain.relayer_keystores)
        _check_relayers(chain, [signer.address for signer in signers])
        return signers

    def treasury(self, chain: EvmChain) -> Signer | None:
        """Who signs for the treasury of a chain; None without a keystore for it."""
        if chain.treasury_keystore is None:
            return None
        signer = self._evm(chain.treasury_keystore)
        _check_treasury(chain, chain.treasury_keystore, signer.address)
        return signer

    def solana_treasury(self, chain: SolanaChain) -> SolanaSigner | None:
        """The same on a Solana cluster."""
        if chain.treasury_keystore is None:
            return None
        signer = self._solana(chain.treasury_keystore)
        _check_treasury(chain, chain.treasury_keystore, signer.address)
        return signer

    def _evm(self, path: Path) -> Signer:
        try:
            return Signer(self._secret(path))
        except ValueError:
            raise Refused(f"the keystore {path} holds no key of an EVM account") from None

    def _solana(self, path: Path) -> SolanaSigner:
        signer = SolanaSigner(self._secret(path))
        # no key serves two kinds of signature
        if address_in(path) != signer.address:
            raise Refused(f"the keystore {path} holds no key of a Solana account")
        return signer

    def _secret(self, path: Path) -> bytes:
        if path not in self._opened:
            if path.exists() and path.stat().st_mode & 0o077:
                # where clusters hand files over, none may be its owner's alone: told, not refused
                _log.warning("others can read the keystore %s: chmod go= %s", path, path)
            password = password_of(self._settings)
            self._opened[path] = open_keystore(path, password)
            logs.redactor.hide([password, self._opened[path].hex()])
        return self._opened[path]


def password_of(settings: Settings) -> str:
    """The password of the keystores. Refused if there is none, or an empty one."""
    path = settings.keystore_password_file
    if settings.keystore_password is not None:
        password = settings.keystore_password.get_secret_value()
    elif path is not None:
        try:
            # editors end a file with a line end, which nobody means
            password = path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise Refused(f"the keystores' password cannot be read from {path}: {error}") from error
    else:
        password = ""
    if not password:
        raise Refused(
            "keystores need a password: FLORIN_KEYSTORE_PASSWORD, or a file with it named by "
            "FLORIN_KEYSTORE_PASSWORD_FILE"
        )
    return password


def open_keystore(path: Path, password: str) -> bytes:
    """The secret in a keystore. Takes most of a second, on purpose. Refused if it cannot be had."""
    stored = _stored(path)
    try:
        # it says NotImplementedError of a version or cipher that it does not know
        secret = bytes(_accounts().decrypt(stored, password))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        why = "its password is another one" if "MAC" in str(error) else "it is damaged"
        raise Refused(f"the keystore {path} does not open: {why}") from None
    if len(secret) != _KEY_BYTES:
        raise Refused(f"the keystore {path} holds no key of {_KEY_BYTES} bytes")
    return secret


def write_evm_keystore(path: Path, secret: bytes, password: str) -> str:
    """Encrypts a key into a new file that only its owner can read; returns its address."""
    address = checksum_address(Signer(secret).address)
    _write(path, {**_encrypted(secret, password), "address": address[2:].lower()})
    return address


def write_solana_keystore(path: Path, seed: bytes, password: str) -> str:
    """The same for the seed of a Solana key; the file tells the account's address in base58."""
    address = SolanaSigner(seed).address
    _write(path, {**_encrypted(seed, password), "address": address})
    return address


def address_in(path: Path) -> str | None:
    """The address that a keystore tells without its password, an EVM one lower-case."""
    told = _stored(path).get("address")
    if not isinstance(told, str):
        return None
    bare = told.removeprefix("0x").lower()
    is_evm = len(bare) == 40 and set(bare) <= set("0123456789abcdef")
    return "0x" + bare if is_evm else told


def _encrypted(secret: bytes, password: str) -> dict[str, Any]:
    made: dict[str, Any] = _accounts().encrypt(secret, password, kdf="scrypt")
    return made


def _accounts() -> Any:
    # what it imports for the keys of validators takes a third of a second, and only few commands
    # open or make a keystore
    from eth_account import Account  # noqa: PLC0415

    return Account


def _write(path: Path, stored: dict[str, Any]) -> None:
    if path.exists():
        raise Refused(f"{path} is there already, and a key is never overwritten")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    private(path, json.dumps(stored, indent=1) + "\n").close()


def _stored(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise Refused(f"{path} is no keystore")
        found = json.loads(path.read_text())
    except OSError as error:
        raise Refused(f"the keystore {path} cannot be read: {error.strerror}") from error
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("version") != 3:
        raise Refused(f"{path} is no keystore of version 3")
    return found


def _check_relayers(chain: EvmChain | SolanaChain, addresses: Sequence[str]) -> None:
    if len(set(addresses)) != len(addresses):
        raise Refused(f"{chain.name}: two keystores hold the same relayer key")


def _check_treasury(chain: EvmChain | SolanaChain, path: Path, address: str) -> None:
    treasury = chain.treasury_account.rpartition(":")[2]
    if address != treasury:
        raise Refused(
            f"{chain.name}: the treasury is {treasury}, but the keystore {path} is of {address}"
        )
