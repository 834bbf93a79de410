"""Make the changed pages of the gallery again; with names, make those pages in any case."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile

import nbformat

from tools.gallery.pages import FOLDER, describe_changes, list_notebooks, write_page
from tools.gallery.run import run_notebook


def main(names: list[str]) -> None:
    """Run each notebook on simulated days, whatever the environment sets, and write its page."""
    for name in list(os.environ):
        if name.startswith("FLORIN_"):
            del os.environ[name]
    with tempfile.TemporaryDirectory() as days:
        # cached days can come from older code
        os.environ["XDG_CACHE_HOME"] = days
        _make_pages(names)


def _make_pages(names: list[str]) -> None:
    paths = {each_path.stem: each_path for each_path in list_notebooks()}
    if unknown := set(names) - set(paths):
        sys.exit(f"no notebook of the gallery: {', '.join(sorted(unknown))}")
    for name, path in paths.items():
        if names and name not in names:
            continue
        notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
        asyncio.run(run_notebook(notebook, charts=True))
        changed = describe_changes(name, notebook)
        # pictures of equal numbers differ by ids and libraries: that is no change
        if changed or names:
            write_page(name, notebook)
        sys.stdout.write(f"{name}: {'changed' if changed else 'unchanged'}\n")
    for page in FOLDER.glob("*.md"):
        if page.stem not in paths:
            for file in (
                page,
                *FOLDER.glob(f"{page.stem}_*.png"),
                *FOLDER.glob(f"data/{page.stem}.json"),
            ):
                file.unlink()
            sys.stdout.write(f"{page.stem}: removed, its notebook is no longer shown\n")


main(sys.argv[1:])
