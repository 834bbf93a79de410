"""Steps for the document of receipts."""

from __future__ import annotations

import json

from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import NewcomerWalk


@step("docs/receipts.md", "", 0)
async def fetched(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await walk.shell.run(block.text)
    files = ("receipt.jws", "keys.json")
    assert all((walk.folder / name).stat().st_size for name in files)
    # they are not taken for sources
    ignored = (walk.folder / ".gitignore").read_text().splitlines()
    assert {f"/{name}" for name in files} <= set(ignored)


@step("docs/receipts.md", "", 1)
async def verified(walk: NewcomerWalk, block: DocumentBlock) -> None:
    result = json.loads(await walk.shell.run(f"{block.text.rstrip()} --json"))
    assert result["verified"] is True
    assert result["receipt"]["sub"] == await walk.shell.value("PAYMENT_ID")


@step("docs/receipts.md", "Keys", 0)
async def keys(walk: NewcomerWalk, block: DocumentBlock) -> None:
    *_, revoked = (await walk.shell.run(block.text)).splitlines()
    assert revoked == f"{await walk.shell.value('KEY')} is revoked."
