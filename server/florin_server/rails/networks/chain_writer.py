"""Writing of chain files by commands; `chain_files` reads them.

The operator's other content stays unchanged, including comments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import tomlkit

from florin_server.rails.networks.chain_files import KINDS

_HEAD: Final = "# Written by `florin chain add`; restart Florin to apply changes.\n\n"


def format_file(kind: str, settings: Mapping[str, Any]) -> str:
    """Format a new file: numbers, texts, paths, lists, tables, and lists of tables.

    Values of None are left out. Raise ValueError for a kind of chain that does not exist.
    """
    if kind not in KINDS:
        raise ValueError(f"unknown kind of chain: {kind}")
    return _HEAD + tomlkit.dumps({kind: _to_toml(settings)})


def update_file(content: str, settings: Mapping[str, Any]) -> str:
    """Return a chain file's content with changed settings, and all else as it was."""
    document = tomlkit.parse(content)
    ((_, table),) = document.items()
    table.update(_to_toml(settings))
    return document.as_string()


def format_lines(settings: Mapping[str, Any]) -> list[str]:
    """Format settings as TOML, one per line: numbers, texts, and lists of them."""
    return tomlkit.dumps(_to_toml(settings)).splitlines()


def _to_toml(value: Any) -> Any:
    """Convert a value to TOML types; in a table, simple values come before nested tables."""
    if isinstance(value, Mapping):
        entries = {name: _to_toml(item) for name, item in value.items() if item is not None}
        return dict(sorted(entries.items(), key=lambda pair: _has_tables(pair[1])))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_to_toml(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _has_tables(value: Any) -> bool:
    return isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(item, dict) for item in value)
    )
