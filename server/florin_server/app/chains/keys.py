"""Signing keys of an operator: from keystore files (version 3), or the installation's own.

One password opens all of an installation's keystores. It comes from a setting or a file, never from
a command line, and is never shown.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from florin_server.app.home import InstallationSecrets, SetupError, replace_private_file
from florin_server.base import logs
from florin_server.domain.caip import format_checksum_address
from florin_server.rails.evm.sending.transactions import EvmSigner
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

_KEY_BYTES = 32
# a keystore has half a kilobyte; a larger file is something else
_FILE_BYTES_MAX = 10_000


class ChainKeyring:
    """The keys of an installation, by chain; every keystore is opened once."""

    def __init__(self, settings: Settings, installation_secrets: InstallationSecrets) -> None:
        self._settings = settings
        self._secrets = installation_secrets
        self._opened_keystores: dict[Path, bytes] = {}

    def get_relayers(self, chain: EvmChainSettings) -> tuple[EvmSigner, ...]:
        """Return the relayer keys of a chain. SetupError if a keystore is not usable."""
        if not chain.relayer_keystores:
            return (EvmSigner(self._secrets.relayer_key),)
        signers = tuple(self._load_evm_signer(path) for path in chain.relayer_keystores)
        _check_relayers(chain, [signer.address for signer in signers])
        return signers

    def get_solana_relayers(self, chain: SolanaChainSettings) -> tuple[SolanaSigner, ...]:
        """Return the relayer keys of a Solana cluster. SetupError if a keystore is not usable."""
        if not chain.relayer_keystores:
            return (SolanaSigner(self._secrets.solana_relayer_seed),)
        signers = tuple(self._load_solana_signer(path) for path in chain.relayer_keystores)
        _check_relayers(chain, [signer.address for signer in signers])
        return signers

    def find_treasury(self, chain: EvmChainSettings) -> EvmSigner | None:
        """Return the treasury's key of a chain; None without a keystore for it."""
        if chain.treasury_keystore is None:
            return None
        signer = self._load_evm_signer(chain.treasury_keystore)
        _check_treasury(chain, chain.treasury_keystore, signer.address)
        return signer

    def find_solana_treasury(self, chain: SolanaChainSettings) -> SolanaSigner | None:
        """Return the treasury's key of a Solana cluster; None without a keystore for it."""
        if chain.treasury_keystore is None:
            return None
        signer = self._load_solana_signer(chain.treasury_keystore)
        _check_treasury(chain, chain.treasury_keystore, signer.address)
        return signer

    def _load_evm_signer(self, path: Path) -> EvmSigner:
        try:
            return EvmSigner(self._open_secret(path))
        except ValueError:
            raise SetupError(f"the keystore {path} contains no key of an EVM account") from None

    def _load_solana_signer(self, path: Path) -> SolanaSigner:
        signer = SolanaSigner(self._open_secret(path))
        # no key serves two kinds of signature
        if find_keystore_address(path) != signer.address:
            raise SetupError(f"the keystore {path} contains no key of a Solana account")
        return signer

    def _open_secret(self, path: Path) -> bytes:
        if path not in self._opened_keystores:
            if path.exists() and path.stat().st_mode & 0o077:
                # where clusters mount files, they cannot be the owner's alone: a warning, not an
                # error
                _log.warning("other users can read the keystore %s; run chmod go= %s", path, path)
            password = read_password(self._settings)
            self._opened_keystores[path] = open_keystore(path, password)
            logs.redactor.hide([password, self._opened_keystores[path].hex()])
        return self._opened_keystores[path]


def read_password(settings: Settings) -> str:
    """Return the password of the keystores. SetupError if it is missing or empty."""
    path = settings.keystore_password_file
    if settings.keystore_password is not None:
        password = settings.keystore_password.get_secret_value()
    elif path is not None:
        try:
            # editors end a file with a line end, which is not part of the password
            password = path.read_text().rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            raise SetupError(
                f"the keystores' password cannot be read from {path}: {error}"
            ) from error
    else:
        password = ""
    if not password:
        raise SetupError(
            "keystores need a password: set FLORIN_KEYSTORE_PASSWORD, or "
            "FLORIN_KEYSTORE_PASSWORD_FILE to a file that contains it"
        )
    return password


def open_keystore(path: Path, password: str) -> bytes:
    """Return the secret in a keystore.

    It takes most of a second, on purpose. SetupError if it fails.
    """
    stored = _read_keystore(path)
    try:
        # it raises NotImplementedError for an unknown version or cipher
        secret = bytes(_import_eth_account().decrypt(stored, password))
    except (ValueError, KeyError, TypeError, NotImplementedError) as error:
        why = "the password is wrong" if "MAC" in str(error) else "it is damaged"
        raise SetupError(f"the keystore {path} does not open: {why}") from None
    if len(secret) != _KEY_BYTES:
        raise SetupError(f"the keystore {path} contains no key of {_KEY_BYTES} bytes")
    return secret


def write_evm_keystore(path: Path, secret: bytes, password: str) -> str:
    """Encrypt a key into a new file that only its owner can read; return its address."""
    address = format_checksum_address(EvmSigner(secret).address)
    _write(path, {**_encrypt(secret, password), "address": address[2:].lower()})
    return address


def write_solana_keystore(path: Path, seed: bytes, password: str) -> str:
    """Encrypt the seed of a Solana key into a new file; it has the account's address in base58."""
    address = SolanaSigner(seed).address
    _write(path, {**_encrypt(seed, password), "address": address})
    return address


def find_keystore_address(path: Path) -> str | None:
    """Return the address that a keystore shows without its password, an EVM one in lower case."""
    address = _read_keystore(path).get("address")
    if not isinstance(address, str):
        return None
    bare = address.removeprefix("0x").lower()
    is_evm = len(bare) == 40 and set(bare) <= set("0123456789abcdef")
    return "0x" + bare if is_evm else address


def _encrypt(secret: bytes, password: str) -> dict[str, Any]:
    keystore: dict[str, Any] = _import_eth_account().encrypt(secret, password, kdf="scrypt")
    return keystore


def _import_eth_account() -> Any:
    # its import of validator keys takes a third of a second, and only few commands open or create a
    # keystore
    from eth_account import Account  # noqa: PLC0415

    return Account


def _write(path: Path, stored: dict[str, Any]) -> None:
    if path.exists():
        raise SetupError(f"{path} exists already, and a key is never overwritten")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_private_file(path, json.dumps(stored, indent=1) + "\n").close()


def _read_keystore(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise SetupError(f"{path} is not a keystore")
        keystore = json.loads(path.read_text())
    except OSError as error:
        raise SetupError(f"the keystore {path} cannot be read: {error.strerror}") from error
    except ValueError:
        keystore = None
    if not isinstance(keystore, dict) or keystore.get("version") != 3:
        raise SetupError(f"{path} is not a keystore of version 3")
    return keystore


def _check_relayers(
    chain: EvmChainSettings | SolanaChainSettings, addresses: Sequence[str]
) -> None:
    if len(set(addresses)) != len(addresses):
        raise SetupError(f"{chain.name}: two keystores contain the same relayer key")


def _check_treasury(
    chain: EvmChainSettings | SolanaChainSettings, path: Path, address: str
) -> None:
    treasury = chain.treasury_account.rpartition(":")[2]
    if address != treasury:
        raise SetupError(
            f"{chain.name}: the treasury is {treasury}, but the keystore {path} is of {address}"
        )
