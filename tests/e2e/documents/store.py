"""The step for the document of the store."""

from __future__ import annotations

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk


@step("docs/store.md", "Statements", 0)
async def statements(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (walk.folder / "statements.py").write_text(block.text)
    assert (await walk.shell.run(".venv/bin/python statements.py")).strip() == "[1, 1]"
