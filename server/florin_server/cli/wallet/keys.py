"""The keys that pay: of a wallet that is made for one test payment, or of files that were named."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_client.wallet import Wallet

from florin_server.boot.home import Refused
from florin_server.cli.console import is_seen
from florin_server.cli.operation import misused
from florin_server.cli.prompt import Prompt

# a keystore has half a kilobyte, a key pair less
_FILE_BYTES_MAX = 10_000
_PAIR_BYTES = 64


@dataclass(frozen=True, slots=True)
class Files:
    """Keystores (version 3) and key pairs of Solana, and the file with the keystores' password."""

    keys: Sequence[Path] = ()
    password: Path | None = None

    def wallet(self, nodes: Mapping[str, str]) -> Wallet:
        """A wallet with their keys, or with new ones if none was named. Refused if one is none."""
        if not self.keys:
            return Wallet.create(rpc_urls=nodes)
        evm, solana = None, None
        password = ""
        for path in self.keys:
            stored = _stored(path)
            if isinstance(stored, list):
                found: tuple[bytes | None, bytes | None] = (None, _pair(path, stored))
            else:
                password = password or self._password(path)
                found = _opened(path, password)
            if (found[0] and evm) or (found[1] and solana):
                raise Refused(f"{path} is a second key of its kind: name one of each")
            evm, solana = evm or found[0], solana or found[1]
        return Wallet(evm_key=evm, solana_key=solana, rpc_urls=nodes)

    def _password(self, path: Path) -> str:
        if self.password is not None:
            # editors end a file with a line end, which nobody means
            return self.password.read_text().rstrip("\r\n")
        if not is_seen():
            misused("nobody can be asked for the keystore's password here: --password-file FILE")
        return Prompt(quiet=False).secret(f"Password of {path}")


def _stored(path: Path) -> object:
    if path.stat().st_mode & 0o077:
        raise Refused(f"others can read {path}: as its owner, chmod go= {path}")
    if path.stat().st_size > _FILE_BYTES_MAX:
        raise Refused(f"{path} holds no key")
    try:
        stored: object = json.loads(path.read_text())
    except ValueError:
        raise Refused(f"{path} holds no key") from None
    return stored


def _pair(path: Path, numbers: list[Any]) -> bytes:
    try:
        pair = bytes(numbers)
    except (TypeError, ValueError):
        pair = b""
    if len(pair) != _PAIR_BYTES:
        raise Refused(f"{path} holds no key pair of Solana")
    return pair


def _opened(path: Path, password: str) -> tuple[bytes | None, bytes | None]:
    """The key in a keystore, of an EVM account or of Solana."""
    # the formats of keystores are the operator's too, and slow to load
    from solders.keypair import Keypair  # noqa: PLC0415

    from florin_server.boot.chains.keys import address_in, open_keystore  # noqa: PLC0415

    secret, address = open_keystore(path, password), address_in(path)
    if address is None or address.startswith("0x"):
        return secret, None
    pair = Keypair.from_seed(secret)
    if str(pair.pubkey()) != address:
        raise Refused(f"the keystore {path} holds no key of {address}")
    return None, bytes(pair)
