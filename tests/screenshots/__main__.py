"""`python -m tests.screenshots [--check] [name …]`: all pictures, or some, into docs/pictures.

With `--check` it writes none of them: it tells which would show something else, and puts those into
build/pictures with what differs. It ends with 1 then.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from tests.screenshots.compare import difference, differing
from tests.screenshots.pictures import PICTURES
from tests.screenshots.taking import taken

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/pictures"
DIFFERING = ROOT / "build/pictures"


def main(arguments: Sequence[str]) -> int:
    """Takes the pictures of these names, or all; the folder then holds no others than there are."""
    check = "--check" in arguments
    names = set(arguments) - {"--check"}
    if unknown := names - {one.name for one in PICTURES}:
        raise SystemExit(f"there are no pictures of these names: {', '.join(sorted(unknown))}")
    return asyncio.run(_take(names or {one.name for one in PICTURES}, check=check))


async def _take(names: set[str], *, check: bool) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="florin-pictures-") as folder:
        wanted = [one for one in PICTURES if one.name in names]
        async for name, fresh in taken(wanted, Path(folder)):
            told = _difference(name, fresh)
            wrong += bool(told)
            if told:
                print(f"{name}: {told}", flush=True)
            # what looks alike stays as it is: each version of a picture is kept for good
            if told and not check:
                fresh.save(file_of(name), optimize=True)
    left = {file for file in FOLDER.glob("*.png") if file.stem not in {o.name for o in PICTURES}}
    for file in left:
        print(f"{file.stem}: there is no such picture any more")
        if not check:
            file.unlink()
    return int(check and bool(wrong or left))


def file_of(name: str) -> Path:
    """Where a picture is kept."""
    return FOLDER / f"{name}.png"


def kept(name: str) -> Image.Image:
    """A picture as it was taken last."""
    with Image.open(file_of(name)) as image:
        return image.convert("RGB")


def _difference(name: str, fresh: Image.Image) -> str:
    """What is another than before; what differs is put where people find it."""
    if not file_of(name).exists():
        return "it is new"
    before = kept(name)
    if told := difference(fresh, before):
        DIFFERING.mkdir(parents=True, exist_ok=True)
        fresh.save(DIFFERING / f"{name}.png")
        if fresh.size == before.size:
            differing(fresh, before).save(DIFFERING / f"{name}.differs.png")
    return told


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
