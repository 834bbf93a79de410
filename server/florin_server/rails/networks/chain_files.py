"""Chains that `florin chain add` wrote down: a file each, beside the operator's own settings.

A file has one table, `evm` or `solana`, with the settings of a chain. Keystores that it names
without a leading slash are in the state folder.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.solana.settings import SolanaChain

Chain = EvmChain | SolanaChain

_KINDS: Final[Mapping[str, type[Chain]]] = {"evm": EvmChain, "solana": SolanaChain}


def folder(home: Path) -> Path:
    """Where the files of an installation are."""
    return home / "chains"


def read_all(home: Path) -> dict[Path, Chain]:
    """Every chain by its file, in the order of names. ValueError if one is not valid."""
    return {path: read(path, home) for path in sorted(folder(home).glob("*.toml"))}


def read(path: Path, home: Path) -> Chain:
    """The chain of a file. ValueError, which names the file, if it is not valid."""
    try:
        content = path.read_text()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    return parse(content, path, home)


def parse(content: str, path: Path, home: Path) -> Chain:
    """The chain in the content of a file, which may not be there yet. ValueError as for `read`."""
    try:
        ((kind, said),) = tomllib.loads(content).items()
        chain = _KINDS[kind].model_validate(said)
    except ValidationError as error:
        why = "; ".join(
            f"{'.'.join(map(str, fault['loc']))}: {fault['msg']}" for fault in error.errors()
        )
        raise ValueError(f"{path}: {why}") from error
    except (KeyError, ValueError) as error:
        raise ValueError(f"{path}: not one chain as TOML, in a table evm or solana") from error
    treasury = chain.treasury_keystore
    return chain.model_copy(
        update={
            "relayer_keystores": tuple(home / one for one in chain.relayer_keystores),
            "treasury_keystore": None if treasury is None else home / treasury,
        }
    )


def text(kind: str, said: Mapping[str, Any]) -> str:
    """The content of a file: numbers, texts, lists, tables, and lists of tables."""
    if kind not in _KINDS:
        raise ValueError(f"no kind of chain: {kind}")
    made = ["# Made by `florin chain add`; what is changed here counts after a restart."]
    plain = {name: one for name, one in said.items() if not _holds_tables(one)}
    made += ["", f"[{kind}]", *lines(plain)]
    for name, tables in said.items():
        if isinstance(tables, dict):
            made += ["", f"[{kind}.{name}]", *lines(tables)]
        elif _holds_tables(tables):
            for table in tables:
                made += ["", f"[[{kind}.{name}]]", *lines(table)]
    return "\n".join(made) + "\n"


def changed(content: str, said: Mapping[str, Any]) -> str:
    """The content of a file with other settings, and all else as its operator wrote it.

    ValueError if that cannot be done line by line, as with a list on several lines.
    """
    ((kind, table),) = tomllib.loads(content).items()
    kept = content.splitlines()
    head = next((at for at, line in enumerate(kept) if _is(line, rf"\[\s*{kind}\s*\]")), None)
    if head is None:
        raise ValueError(f"there is no line [{kind}]")
    # other tables may have settings of the same names
    last = next((at for at in range(head + 1, len(kept)) if _is(kept[at], r"\[")), len(kept))
    own = [
        line
        for line in kept[head + 1 : last]
        if not any(_is(line, rf"{name}\s*=") for name in said)
    ]
    text = "\n".join([*kept[: head + 1], *lines(said), *own, *kept[last:]]) + "\n"
    try:
        told = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        told = {}
    if told != {kind: {**table, **said}}:
        raise ValueError(f"{' and '.join(said)} are there in a form that is not for commands")
    return text


def path_of(home: Path, chain_id: str) -> Path | None:
    """The file that holds a chain (CAIP-2)."""
    return next((path for path, one in read_all(home).items() if one.caip2 == chain_id), None)


def _is(line: str, pattern: str) -> bool:
    return re.match(rf"\s*{pattern}", line) is not None


def _holds_tables(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, Sequence)
        and not isinstance(value, str)
        and any(isinstance(one, dict) for one in value)
    )


def lines(table: Mapping[str, Any]) -> list[str]:
    """Settings as they are written, a line each."""
    return [f"{name} = {_value(one)}" for name, one in table.items() if one is not None]


def _value(value: Any) -> str:
    if isinstance(value, str | Path):
        # JSON's texts are TOML's too, but for one control character
        return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    return f"[{', '.join(map(_value, value))}]"
