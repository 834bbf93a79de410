"""Write the index of nouns and their tests into its document; compare it with `--check`."""

from __future__ import annotations

import sys
import tomllib
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tools.reference.markdown import render_table

ROOT: Final = Path(__file__).resolve().parents[1]
_DOCUMENT: Final = ROOT / "docs/contributing/tests.md"
_BEGIN: Final = "<!-- Generated from the folders of the tests by `make gen`; do not edit. -->\n"
_END: Final = "\n<!-- end of the index -->"
_KINDS: Final = ("unit", "contract", "e2e")
# packages whose folders are nouns of their own
_GROUPS: Final = ("features", "money", "compliance", "rails")
# what is not in the server; the tests of the house are about this repository
OTHERS: Final = ("client", "gateway", "sandbox", "house")
# folders that are named otherwise than their noun
_OTHER_NAMES: Final = {"capture": "buyer_data", "documents": "house", "examples": "house"}
# folders beside those of the three kinds
_BESIDE: Final = (("gateway", 0, "gateway"), ("wire", 2, "api"), ("pages", 2, "web"))


def list_nouns() -> list[str]:
    """Return the nouns: those of the server from its top layer to its bottom, then others."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        layers = tomllib.load(file)["tool"]["importlinter"]["contracts"][0]["layers"]
    packages = [name.strip() for layer in layers for name in layer.split(":")]
    nouns = []
    for name in packages:
        _, _, package = name.partition("florin_server.")
        if package:
            nouns.append(package)
        if package in _GROUPS:
            folders = (ROOT / "server/florin_server" / package).glob("*/__init__.py")
            nouns += sorted(path.parent.name for path in folders)
    return [*nouns, *OTHERS]


def list_test_folders(kind: str) -> list[Path]:
    """List the folders of a kind that hold tests, relative to the folder of the kind."""
    top = ROOT / "tests" / kind
    return sorted({path.parent.relative_to(top) for path in top.rglob("test_*.py")})


def get_noun(folder: Path, nouns: list[str]) -> str:
    """Return the noun of a folder of tests: the innermost of its names that is one.

    Raise LookupError if none is.
    """
    names = [_OTHER_NAMES.get(part, part) for part in reversed(folder.parts)]
    for name in names:
        if name in nouns:
            return name
    raise LookupError(f"{folder} is named after no noun")


def render_index() -> str:
    """Return the table: one row for each noun that has tests."""
    nouns = list_nouns()
    cells = _list_cells(nouns)
    rows = [
        (f"`{noun}`", *(", ".join(cells[noun, kind]) for kind in range(len(_KINDS))))
        for noun in nouns
        if any(cells[noun, kind] for kind in range(len(_KINDS)))
    ]
    return render_table(("Noun", "Unit", "Contract", "End to end"), rows)


def render_document() -> str:
    """Return the document with the present index."""
    before, _, rest = _DOCUMENT.read_text().partition(_BEGIN)
    _, _, after = rest.partition(_END)
    if not after:
        raise ValueError(f"{_DOCUMENT.name} has no place for the index")
    return f"{before}{_BEGIN}\n{render_index()}\n{_END}{after}"


def is_stale() -> bool:
    """Return whether the index differs from the folders."""
    return render_document() != _DOCUMENT.read_text()


def _list_cells(nouns: list[str]) -> Mapping[tuple[str, int], list[str]]:
    """Return the links to the folders of each noun and kind."""
    cells: dict[tuple[str, int], list[str]] = defaultdict(list)
    for kind, name in enumerate(_KINDS):
        for folder in list_test_folders(name):
            noun = get_noun(folder, nouns)
            cells[noun, kind].append(_format_link(Path(name) / folder, folder.as_posix()))
    for name, kind, noun in _BESIDE:
        cells[noun, kind].append(_format_link(Path(name), f"tests/{name}"))
    return cells


def _format_link(folder: Path, text: str) -> str:
    return f"[{text}](../../tests/{folder.as_posix()})"


def main() -> None:
    """Write the index, or compare it with `--check`."""
    if sys.argv[1:] != ["--check"]:
        _DOCUMENT.write_text(render_document())
    elif is_stale():
        raise SystemExit(f"the index of tests in {_DOCUMENT} is stale, run `make gen`")


if __name__ == "__main__":
    main()
