"""What commands write into the files of chains; `chain_files` reads them.

Whatever else an operator wrote there stays as it is, comments too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import tomlkit

from florin_server.rails.networks.chain_files import KINDS

_HEAD: Final = "# Made by `florin chain add`; what is changed here counts after a restart.\n\n"


def text(kind: str, said: Mapping[str, Any]) -> str:
    """The content of a new file: numbers, texts, paths, lists, tables, and lists of tables.

    What is None is left out. ValueError if nobody reads a file of this kind.
    """
    if kind not in KINDS:
        raise ValueError(f"no kind of chain: {kind}")
    return _HEAD + tomlkit.dumps({kind: _plain(said)})


def changed(content: str, said: Mapping[str, Any]) -> str:
    """The content of a chain's file with other settings, and all else as it was."""
    document = tomlkit.parse(content)
    ((_, table),) = document.items()
    table.update(_plain(said))
    return document.as_string()


def lines(said: Mapping[str, Any]) -> list[str]:
    """Settings as they are written, a line each; numbers, texts, and lists of them."""
    return tomlkit.dumps(_plain(said)).splitlines()


def _plain(value: Any) -> Any:
    """The same of what TOML has; in a table, what is simple is before the tables in it."""
    if isinstance(value, Mapping):
        known = {name: _plain(one) for name, one in value.items() if one is not None}
        return dict(sorted(known.items(), key=lambda pair: _holds_tables(pair[1])))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(one) for one in value]
    return str(value) if isinstance(value, Path) else value


def _holds_tables(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(one, dict) for one in value)
    )
