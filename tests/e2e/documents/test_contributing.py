"""CONTRIBUTING.md and its how-tos, followed in a clone: their three examples are made, and work.

Files are written and changed as they say, and their commands are run. Targets of make other than
`gen` are expanded only (`make -n`): this test is part of one. The number of the newest migration is
today's.
"""

from __future__ import annotations

import re
import shutil

import pytest

from tests.support.documents import CONTRIBUTING, ROOT, DocumentBlock, list_blocks
from tests.support.newcomer import NewcomerWalk, start_walk

BEFORE, NEXT = "v0023", "v0024"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="CONTRIBUTING types it"),
]


async def test_contributing_is_followed_from_top_to_bottom(tmp_path):
    async with start_walk(tmp_path) as walk:
        for block in list_blocks():
            if block.place[0] in CONTRIBUTING:
                await follow(walk, block)
        # the results pass the checks; types are left out, as they take a minute
        for command in (await walk.shell.run("make -n --no-print-directory verify")).splitlines():
            if not command.endswith("mypy"):
                await walk.shell.run(f"{command} >&2")


async def follow(walk: NewcomerWalk, block: DocumentBlock) -> None:
    match block.kind:
        case "sh":
            await types(walk, block.lines)
        case "diff":
            path = walk.folder / block.file
            path.write_text(changed(path.read_text(), today(block.text)))
        case "python":
            path = walk.folder / today(block.file)
            assert not path.exists()
            path.write_text(today(block.text))
        case "text":
            tree(walk, block)
        case _:
            pytest.fail(f"no step follows {block.place}")


async def types(walk: NewcomerWalk, lines: list[str]) -> None:
    for line in lines:
        command, _, rest = line.partition(" ")
        script = line if command != "make" or rest == "gen" else f"make -n {rest}"
        await walk.shell.run(script)


def changed(text: str, diff: str) -> str:
    """Return a file's text after a change, each part of which matches exactly one place."""
    for part in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        assert text.count(before) == 1, before
        text = text.replace(before, "".join(line[1:] for line in lines if line[0] != "-"))
    return text


def today(text: str) -> str:
    schema = (ROOT / "server/florin_server/db/engine/schema.py").read_text()
    (number,) = re.findall(r'^HEAD = "v(\d+)"$', schema, re.MULTILINE)
    newest = int(number)
    return text.replace(NEXT, f"v{newest + 1:04}").replace(BEFORE, f"v{newest:04}")


def tree(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Assert that every path in the picture of the folders exists."""
    above: list[tuple[int, str]] = []
    for line in block.text.splitlines():
        depth = len(line) - len(line.lstrip())
        name = re.split(r"\s{2,}", line.strip())[0]
        above = [item for item in above if item[0] < depth]
        parts = [text for _, text in above]
        for each_item in name.split(", "):
            # a continuation of the line before begins far to the right
            if depth < 10:
                assert walk.folder.joinpath(*parts, each_item).exists(), line
        above.append((depth, name))
