"""How the document of receipts is followed."""

from __future__ import annotations

import json

from tests.e2e.documents.steps import step
from tests.support.documents import Block
from tests.support.newcomer import Walk


@step("docs/receipts.md", "", 0)
async def fetched(walk: Walk, block: Block) -> None:
    await walk.shell.run(block.text)
    files = ("receipt.jws", "keys.json")
    assert all((walk.folder / name).stat().st_size for name in files)
    # nobody takes them for sources
    ignored = (walk.folder / ".gitignore").read_text().splitlines()
    assert {f"/{name}" for name in files} <= set(ignored)


@step("docs/receipts.md", "", 1)
async def verified(walk: Walk, block: Block) -> None:
    told = json.loads(await walk.shell.run(f"{block.text.rstrip()} --json"))
    assert told["verified"] is True
    assert told["receipt"]["sub"] == await walk.shell.value("PAYMENT_ID")


@step("docs/receipts.md", "Keys", 0)
async def keys(walk: Walk, block: Block) -> None:
    *_, revoked = (await walk.shell.run(block.text)).splitlines()
    assert revoked == f"{await walk.shell.value('KEY')} is revoked."
