"""Chains that `florin chain add` stored: a file each, beside the operator's own settings.

A file has one table, `evm` or `solana`, with the settings of a chain. Keystore paths without a
leading slash are relative to the state folder. `chain_writer` writes the files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from florin_server.base.settings_file import parse_toml
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.solana.settings import SolanaChainSettings

AnyChainSettings = EvmChainSettings | SolanaChainSettings

KINDS: Final[Mapping[str, type[AnyChainSettings]]] = {
    "evm": EvmChainSettings,
    "solana": SolanaChainSettings,
}


def get_folder(home: Path) -> Path:
    """Return the folder of an installation's chain files."""
    return home / "chains"


def read_all(home: Path) -> dict[Path, AnyChainSettings]:
    """Return every chain by its file, sorted by name; raise ValueError if a file is not valid."""
    return {path: read_chain(path, home) for path in sorted(get_folder(home).glob("*.toml"))}


def read_chain(path: Path, home: Path) -> AnyChainSettings:
    """Return the chain of a file; raise ValueError, which names the file, if it is not valid."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return parse_chain(content, path, home)


def parse_chain(content: bytes, path: Path, home: Path) -> AnyChainSettings:
    """Parse a chain file's content; the file need not exist yet.

    ValueError as for `read_chain`.
    """
    tables = parse_toml(content, path)
    try:
        ((kind, table),) = tables.items()
        chain = KINDS[kind].model_validate(table)
    except ValidationError as error:
        why = "; ".join(
            ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))
            for fault in error.errors()
        )
        raise ValueError(f"{path}: {why}") from error
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path} must contain one chain, in a table evm or solana") from error
    treasury = chain.treasury_keystore
    return chain.model_copy(
        update={
            "relayer_keystores": tuple(
                home / relayer_keystore for relayer_keystore in chain.relayer_keystores
            ),
            "treasury_keystore": None if treasury is None else home / treasury,
        }
    )


def find_path(home: Path, chain_id: str) -> Path | None:
    """Return the file that holds a chain (CAIP-2); None if no file does."""
    return next((path for path, chain in read_all(home).items() if chain.caip2 == chain_id), None)
