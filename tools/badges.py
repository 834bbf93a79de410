"""Draw the badges of the README from pyproject.toml; compare them with `--check`."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from xml.sax.saxutils import escape

ROOT: Final = Path(__file__).resolve().parents[1]
_FOLDER: Final = ROOT / "docs/badges"
# pixels of a character, of the space beside a text, and of the height
_CHAR, _PAD, _HEIGHT = 7, 6, 20
_LABEL_COLOR, _VALUE_COLOR = "#3f4150", "#3c4bd3"


def list_badges() -> Mapping[str, tuple[str, str]]:
    """Return label and value of each badge by its name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    versions = [
        name.rpartition(" ")[2]
        for name in project["classifiers"]
        if name.startswith("Programming Language :: Python :: 3.")
    ]
    return {
        "version": ("version", project["version"]),
        "python": ("python", f"{versions[0]} to {versions[-1]}"),
        "license": ("license", project["license"]),
    }


def draw_badge(label: str, value: str) -> str:
    """Return an SVG picture with a label and a value."""
    left, right = (len(text) * _CHAR + 2 * _PAD for text in (label, value))
    texts = "".join(
        f'<text x="{start + _PAD}" y="14" textLength="{len(text) * _CHAR}">{escape(text)}</text>'
        for start, text in ((0, label), (left, value))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + right}" height="{_HEIGHT}" '
        f'role="img" aria-label="{escape(label)}: {escape(value)}">'
        f'<rect width="{left}" height="{_HEIGHT}" fill="{_LABEL_COLOR}"/>'
        f'<rect x="{left}" width="{right}" height="{_HEIGHT}" fill="{_VALUE_COLOR}"/>'
        f'<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11">{texts}</g>'
        "</svg>\n"
    )


def main() -> int | str:
    """Write the badges; with `--check`, return which differ."""
    drawn = {_FOLDER / f"{name}.svg": draw_badge(*text) for name, text in list_badges().items()}
    changed = [file for file, svg in drawn.items() if not file.exists() or file.read_text() != svg]
    if "--check" in sys.argv[1:]:
        names = ", ".join(str(file.relative_to(ROOT)) for file in changed)
        return f"{names}: not as in pyproject.toml, run `make gen`" if changed else 0
    for file in changed:
        file.write_text(drawn[file])
    return 0


if __name__ == "__main__":
    sys.exit(main())
