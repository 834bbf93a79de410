"""Chains that `florin chain add` wrote down: a file each, beside the operator's own settings.

A file has one table, `evm` or `solana`, with the settings of a chain. Keystores that it names
without a leading slash are in the state folder. `chain_writer` writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.solana.settings import SolanaChain
from florin_server.settings_file import parse_toml

Chain = EvmChain | SolanaChain

KINDS: Final[Mapping[str, type[Chain]]] = {"evm": EvmChain, "solana": SolanaChain}


def folder(home: Path) -> Path:
    """Where the files of an installation are."""
    return home / "chains"


def read_all(home: Path) -> dict[Path, Chain]:
    """Every chain by its file, in the order of names. ValueError if one is not valid."""
    return {path: read(path, home) for path in sorted(folder(home).glob("*.toml"))}


def read(path: Path, home: Path) -> Chain:
    """The chain of a file. ValueError, which names the file, if it is not valid."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return parse(content, path, home)


def parse(content: bytes, path: Path, home: Path) -> Chain:
    """The chain in the content of a file, which may not be there yet. ValueError as for `read`."""
    tables = parse_toml(content, path)
    try:
        ((kind, said),) = tables.items()
        chain = KINDS[kind].model_validate(said)
    except ValidationError as error:
        why = "; ".join(
            ": ".join(filter(None, (".".join(map(str, fault["loc"])), fault["msg"])))
            for fault in error.errors()
        )
        raise ValueError(f"{path}: {why}") from error
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: not one chain, in a table evm or solana") from error
    treasury = chain.treasury_keystore
    return chain.model_copy(
        update={
            "relayer_keystores": tuple(home / one for one in chain.relayer_keystores),
            "treasury_keystore": None if treasury is None else home / treasury,
        }
    )


def path_of(home: Path, chain_id: str) -> Path | None:
    """The file that holds a chain (CAIP-2)."""
    return next((path for path, one in read_all(home).items() if one.caip2 == chain_id), None)
