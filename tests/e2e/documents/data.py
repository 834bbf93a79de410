"""Steps for the document of exports."""

from __future__ import annotations

import json
import re
import tomllib

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk

EXPORTS = [".venv/bin/pip install -e '.[export]'"]


@step("docs/data.md", "", 0)
async def export(walk: NewcomerWalk, block: DocumentBlock) -> None:
    out = await walk.shell.run(block.text)
    rows = [int(count) for count in re.findall(r"^(\d+) +payments$", out, re.MULTILINE)]
    first, again, _ = rows
    # of all payments above, few can still change
    assert first > 10 * again
    assert "data/books/export.json" in out
    # they are not taken for sources
    assert "/data/" in (walk.folder / ".gitignore").read_text().splitlines()


@step("docs/data.md", "The folder", 0)
@step("docs/data.md", "Data frames", 0)
@step("docs/data.md", "As a merchant", 0)
async def exports(walk: NewcomerWalk, block: DocumentBlock) -> None:
    *_, manifest = (await walk.shell.run(block.text)).split()
    assert json.loads((walk.folder / manifest).read_bytes())["tables"]


@step("docs/data.md", "Formats", 0)
async def extra(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert block.lines == EXPORTS
    project = tomllib.loads((walk.folder / "pyproject.toml").read_text())["project"]
    assert any(item.startswith("pyarrow") for item in project["optional-dependencies"]["export"])


@step("docs/data.md", "Data frames", 1)
@step("docs/data.md", "Data frames", 2)
async def frames(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (walk.folder / "data" / "look.py").write_text(block.text)
    out = await walk.shell.run("python data/look.py")
    assert "succeeded" in out or "caip19/" in out


@step("docs/data.md", "Data frames", 3)
async def straight(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (walk.folder / "data" / "look.py").write_text(block.text)
    output = await walk.shell.run("python data/look.py")
    assert re.fullmatch(r"[1-9]\d* changes of payments; string", output.strip())
