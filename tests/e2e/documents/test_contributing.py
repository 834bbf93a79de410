"""CONTRIBUTING.md, followed from top to bottom in a clone: its three examples are made, and work.

Files are written and changed as it says, and what it types is run, except that targets of make
other than `gen` are expanded only (`make -n`): this test is part of one. The number of the newest
migration, which moves on, is the one of today.
"""

from __future__ import annotations

import re
import shutil

import pytest
from florin_server.store.engine import schema

from tests.support.documents import Block, blocks
from tests.support.newcomer import Walk, setting_out

BEFORE, NEXT = "v0023", "v0024"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("make") is None, reason="CONTRIBUTING types it"),
]


async def test_contributing_is_followed_from_top_to_bottom(tmp_path):
    async with setting_out(tmp_path) as walk:
        for block in blocks():
            if block.place[0] == "CONTRIBUTING.md":
                await follow(walk, block)
        # what was made is as it has to be; types are left out, as they take a minute
        for command in (await walk.shell.run("make -n --no-print-directory verify")).splitlines():
            if not command.endswith("mypy"):
                await walk.shell.run(f"{command} >&2")


async def follow(walk: Walk, block: Block) -> None:
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
            pytest.fail(f"nobody follows {block.place}")


async def types(walk: Walk, lines: list[str]) -> None:
    for line in lines:
        command, _, rest = line.partition(" ")
        script = line if command != "make" or rest == "gen" else f"make -n {rest}"
        await walk.shell.run(script)


def changed(text: str, diff: str) -> str:
    """What a file says after a change, each part of which fits at one place of it."""
    for part in re.split(r"^@@\n", diff, flags=re.MULTILINE):
        lines = part.splitlines(keepends=True)
        before = "".join(line[1:] for line in lines if line[0] != "+")
        assert text.count(before) == 1, before
        text = text.replace(before, "".join(line[1:] for line in lines if line[0] != "-"))
    return text


def today(text: str) -> str:
    newest = int(schema.HEAD[1:])
    return text.replace(NEXT, f"v{newest + 1:04}").replace(BEFORE, f"v{newest:04}")


def tree(walk: Walk, block: Block) -> None:
    """Everything that the picture of the folders names is there."""
    above: list[tuple[int, str]] = []
    for line in block.text.splitlines():
        depth = len(line) - len(line.lstrip())
        name = re.split(r"\s{2,}", line.strip())[0]
        above = [one for one in above if one[0] < depth]
        parts = [one for _, one in above]
        for one in name.split(", "):
            # what only goes on with the line before begins far to the right
            if depth < 10:
                assert walk.folder.joinpath(*parts, one).exists(), line
        above.append((depth, name))
