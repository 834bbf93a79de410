"""The keys that pay: new ones for a test payment, or those of named files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_client.wallet import Wallet

from florin_server.app.home import SetupError
from florin_server.cli.console import is_interactive
from florin_server.cli.operation import usage_error
from florin_server.cli.prompt import OperatorPrompt

# a keystore has about 500 bytes, a key pair less
_FILE_BYTES_MAX = 10_000
_PAIR_BYTES = 64


@dataclass(frozen=True, slots=True)
class WalletFiles:
    """Paths of keystores (version 3) and Solana key pairs, and of the keystores' password file."""

    keys: Sequence[Path] = ()
    password: Path | None = None

    def load_wallet(self, nodes: Mapping[str, str]) -> Wallet:
        """Return a wallet with the keys of the files, or with new keys; SetupError if invalid."""
        if not self.keys:
            return Wallet.create(rpc_urls=nodes)
        evm, solana = None, None
        password = ""
        for path in self.keys:
            stored = _read_json(path)
            if isinstance(stored, list):
                keystore: tuple[bytes | None, bytes | None] = (None, _parse_key_pair(path, stored))
            else:
                password = password or self._read_password(path)
                keystore = _open_keystore(path, password)
            if (keystore[0] and evm) or (keystore[1] and solana):
                raise SetupError(f"{path} is a second key of its kind: pass at most one of each")
            evm, solana = evm or keystore[0], solana or keystore[1]
        return Wallet(evm_key=evm, solana_key=solana, rpc_urls=nodes)

    def _read_password(self, path: Path) -> str:
        if self.password is not None:
            # editors end a file with a line end, which is not part of the password
            return self.password.read_text().rstrip("\r\n")
        if not is_interactive():
            usage_error(
                "there is no terminal to ask for the keystore's password on: "
                "use --password-file FILE"
            )
        return OperatorPrompt(is_quiet=False).ask_secret(f"Password of {path}")


def _read_json(path: Path) -> object:
    if path.stat().st_mode & 0o077:
        raise SetupError(f"other users can read {path}: run `chmod go= {path}` as its owner")
    if path.stat().st_size > _FILE_BYTES_MAX:
        raise SetupError(f"{path} is not a key file")
    try:
        stored: object = json.loads(path.read_text())
    except ValueError:
        raise SetupError(f"{path} is not a key file") from None
    return stored


def _parse_key_pair(path: Path, numbers: list[Any]) -> bytes:
    try:
        pair = bytes(numbers)
    except (TypeError, ValueError):
        pair = b""
    if len(pair) != _PAIR_BYTES:
        raise SetupError(f"{path} contains no Solana key pair")
    return pair


def _open_keystore(path: Path, password: str) -> tuple[bytes | None, bytes | None]:
    """Return the key of a keystore as (EVM key, Solana key); one of them is None."""
    # slow to load
    from solders.keypair import Keypair  # noqa: PLC0415

    from florin_server.app.chains.keys import find_keystore_address, open_keystore  # noqa: PLC0415

    secret, address = open_keystore(path, password), find_keystore_address(path)
    if address is None or address.startswith("0x"):
        return secret, None
    pair = Keypair.from_seed(secret)
    if str(pair.pubkey()) != address:
        raise SetupError(f"the keystore {path} contains no key of {address}")
    return None, bytes(pair)
