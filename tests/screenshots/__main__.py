"""`python -m tests.screenshots [--check] [name …]`: all pictures and sheets, or some.

Pictures are for documents, in docs/pictures. Sheets show each state of each page, in
tests/screenshots/sheets. With `--check` none of them is changed: the command reports which would
differ, writes those and their differences to build/pictures, and exits with 1.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image

from tests.screenshots import sheet
from tests.screenshots.camera import take_sheets, taken
from tests.screenshots.compare import difference, differing
from tests.screenshots.page_states import PAGE_STATES
from tests.screenshots.pictures import PICTURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/pictures"
DIFFERING = ROOT / "build/pictures"


def main(arguments: Sequence[str]) -> int:
    """Take the named pictures and sheets, or all, and remove those that no longer exist."""
    check = "--check" in arguments
    names = set(arguments) - {"--check"}
    existing = {item.name for item in (*PICTURES, *PAGE_STATES)}
    if unknown := names - existing:
        raise SystemExit(f"unknown pictures: {', '.join(sorted(unknown))}")
    return asyncio.run(_take(names or existing, check=check))


async def _take(names: set[str], *, check: bool) -> int:
    # a stage starts without data: no folder is used twice
    with tempfile.TemporaryDirectory(prefix="florin-pictures-") as folder:
        wrong = await _take_pictures(names, Path(folder), check=check)
    with tempfile.TemporaryDirectory(prefix="florin-sheets-") as folder:
        wrong += await _take_sheets(names, Path(folder), check=check)
    wrong += _remove_left(FOLDER.glob("*.png"), {item.name for item in PICTURES}, check=check)
    wrong += _remove_left(
        sheet.FOLDER.glob("*.webp"), {item.name for item in PAGE_STATES}, check=check
    )
    return int(check and bool(wrong))


async def _take_pictures(names: set[str], folder: Path, *, check: bool) -> int:
    wrong = 0
    pictures = [picture for picture in PICTURES if picture.name in names]
    async for name, fresh in taken(pictures, folder):
        output = _difference(name, fresh)
        wrong += bool(output)
        if output:
            print(f"{name}: {output}", flush=True)
        # an equal picture stays unchanged: Git keeps each version forever
        if output and not check:
            FOLDER.mkdir(parents=True, exist_ok=True)
            fresh.save(file_of(name), optimize=True)
    return wrong


async def _take_sheets(names: set[str], folder: Path, *, check: bool) -> int:
    wrong = 0
    states = [state for state in PAGE_STATES if state.name in names]
    async for state, fresh in take_sheets(states, folder):
        output = sheet.compare_with_stored(fresh, state, DIFFERING)
        wrong += bool(output)
        if output:
            print(f"{state.name}: {output}", flush=True)
        if output and not check:
            sheet.save_sheet(state.name, fresh)
    return wrong


def _remove_left(files: Iterable[Path], names: set[str], *, check: bool) -> int:
    left = [file for file in files if file.stem not in names]
    for file in left:
        print(f"{file.stem}: this picture no longer exists")
        if not check:
            file.unlink()
    return len(left)


def file_of(name: str) -> Path:
    """Return the file of a picture."""
    return FOLDER / f"{name}.png"


def load_picture(name: str) -> Image.Image:
    """Return the stored picture."""
    with Image.open(file_of(name)) as image:
        return image.convert("RGB")


def _difference(name: str, fresh: Image.Image) -> str:
    """Describe the difference to the stored picture, and write both to the build folder."""
    if not file_of(name).exists():
        return "it is new"
    before = load_picture(name)
    if output := difference(fresh, before):
        DIFFERING.mkdir(parents=True, exist_ok=True)
        fresh.save(DIFFERING / f"{name}.png")
        if fresh.size == before.size:
            differing(fresh, before).save(DIFFERING / f"{name}.differs.png")
    return output


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
