"""`python -m tests.screenshots [--check] [name …]`: all pictures, or some, into docs/pictures.

With `--check` it changes none of them: it reports which would differ, writes those and their
differences to build/pictures, and exits with 1.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from PIL import Image

from tests.screenshots.camera import taken
from tests.screenshots.compare import difference, differing
from tests.screenshots.pictures import PICTURES

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "docs/pictures"
DIFFERING = ROOT / "build/pictures"


def main(arguments: Sequence[str]) -> int:
    """Take the named pictures, or all, and remove pictures that no longer exist."""
    check = "--check" in arguments
    names = set(arguments) - {"--check"}
    if unknown := names - {picture.name for picture in PICTURES}:
        raise SystemExit(f"unknown pictures: {', '.join(sorted(unknown))}")
    return asyncio.run(_take(names or {picture.name for picture in PICTURES}, check=check))


async def _take(names: set[str], *, check: bool) -> int:
    FOLDER.mkdir(parents=True, exist_ok=True)
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="florin-pictures-") as folder:
        pictures = [picture for picture in PICTURES if picture.name in names]
        async for name, fresh in taken(pictures, Path(folder)):
            output = _difference(name, fresh)
            wrong += bool(output)
            if output:
                print(f"{name}: {output}", flush=True)
            # an equal picture stays unchanged: Git keeps each version forever
            if output and not check:
                fresh.save(file_of(name), optimize=True)
    left = {file for file in FOLDER.glob("*.png") if file.stem not in {o.name for o in PICTURES}}
    for file in left:
        print(f"{file.stem}: this picture no longer exists")
        if not check:
            file.unlink()
    return int(check and bool(wrong or left))


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
