"""Makes those pages of the gallery anew that show something else; with names these, in any case."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

import nbformat

from tools.gallery.pages import FOLDER, changes, shown, write
from tools.gallery.run import run


def main(names: list[str]) -> None:
    """Runs each notebook, on simulated days whatever the environment names, and writes its page."""
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            del os.environ[name]
    with tempfile.TemporaryDirectory() as days:
        # days that were simulated before may be of older code
        os.environ["XDG_CACHE_HOME"] = days
        _make(names)


def _make(names: list[str]) -> None:
    wanted = {one.stem: one for one in shown()}
    if unknown := set(names) - set(wanted):
        sys.exit(f"no notebook of the gallery: {', '.join(sorted(unknown))}")
    for name, path in wanted.items():
        if names and name not in names:
            continue
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        asyncio.run(run(notebook, charts=True))
        changed = changes(name, notebook)
        # pictures of the same numbers differ by ids and libraries: no news
        if changed or names:
            write(name, notebook)
        sys.stdout.write(f"{name}: {'changed' if changed else 'as it was'}\n")
    for page in FOLDER.glob("*.md"):
        if page.stem not in wanted:
            for file in (
                page,
                *FOLDER.glob(f"{page.stem}_*.png"),
                *FOLDER.glob(f"data/{page.stem}.json"),
            ):
                file.unlink()
            sys.stdout.write(f"{page.stem}: removed, as no such notebook is shown any more\n")


main(sys.argv[1:])
