"""Text that others chose: which characters are refused, and how text leaves for people.

Control characters move cursors, begin lines and hide text; bidirectional overrides show text in
another order than it has. Marks that ordinary writing needs (joiners, left-to-right and
right-to-left marks) are kept.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

# C0, DEL and C1; line and paragraph separators; bidirectional embeddings, overrides and isolates
# (Unicode Standard Annex #9); the byte order mark; interlinear annotation; lone surrogates.
_BEYOND: Final = "\\x7f-\\x9f\\u2028-\\u202e\\u2066-\\u2069\\ufeff\\ufff9-\\ufffb\\ud800-\\udfff"
_UNSAFE: Final = re.compile(f"[\\x00-\\x1f{_BEYOND}]")
_MULTILINE: Final = re.compile(f"[\\x00-\\x08\\x0b-\\x1f{_BEYOND}]")

# the named parts of a place in JSON
_PLACE_CHARS: Final = 100

# characters with which spreadsheet programs begin a cell, and those that make them compute it
_COMPUTED: Final = "=+\\-@\\t\\r＝＋－＠"
_CELL_STARTS: Final = re.compile(f"(^|[;\\t\\r\\n])(?=[{_COMPUTED}'])")
_CELL_ESCAPES: Final = re.compile(f"(^|[;\\t\\r\\n])'(?=[{_COMPUTED}'])")


def has_unsafe(text: str) -> bool:
    """Return whether a text holds a character that is refused in any input."""
    return _UNSAFE.search(text) is not None


def escape_unsafe(text: str, *, multiline: bool = False) -> str:
    r"""Return a text that moves no cursor: unsafe characters as ``\x9b`` or ``\u202e``.

    Tabs and line ends are kept in text of several lines.
    """
    # nearly all texts: the test costs a tenth of the search
    if text.isprintable():
        return text
    return (_MULTILINE if multiline else _UNSAFE).sub(_escape_match, text)


def escape_unsafe_texts(value: Any) -> Any:
    """Return what JSON can say with `escape_unsafe` applied to its texts, names of members too."""
    if isinstance(value, str):
        return escape_unsafe(value, multiline=True)
    if isinstance(value, Mapping):
        return {
            escape_unsafe_texts(name): escape_unsafe_texts(item) for name, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [escape_unsafe_texts(item) for item in value]
    return value


def find_unsafe(value: Any) -> str | None:
    """Return where a value of JSON holds an unsafe character, as ``fields[0].value``; else None.

    The place is empty for a text alone, ends above a name that holds one, and is cut: callers
    choose names and nesting.
    """
    waiting = [("", value)]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, str):
            if has_unsafe(item):
                return place
        elif isinstance(item, dict):
            if any(map(has_unsafe, item)):
                return place
            waiting += [
                ((f"{place}.{name}" if place else name)[:_PLACE_CHARS], each_item)
                for name, each_item in item.items()
            ]
        elif isinstance(item, list):
            waiting += [
                (f"{place}[{at}]"[:_PLACE_CHARS], each_item) for at, each_item in enumerate(item)
            ]
    return None


def replace_unprintable(text: str, replacement: str) -> str:
    """Return a text of one line with a replacement for each unprintable character."""
    return "".join(char if char.isprintable() else replacement for char in text)


def escape_json(document: str) -> str:
    """Return JSON text of the same meaning without characters that control a terminal."""
    return _MULTILINE.sub(lambda match: f"\\u{ord(match.group()):04x}", document)


def format_csv_cell(text: str) -> str:
    """Return a text as a CSV value that no program computes and that controls no terminal.

    It has ``'`` where a spreadsheet program would begin to compute, which `parse_csv_cell` removes
    again, and unsafe characters are escaped.
    """
    return _CELL_STARTS.sub(r"\1'", escape_unsafe(text))


def parse_csv_cell(cell: str) -> str:
    """Return the text of a value that `csv_cell` wrote."""
    return _CELL_ESCAPES.sub(r"\1", cell)


def _escape_match(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}"
