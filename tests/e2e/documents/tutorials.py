"""Steps for the tutorials."""

from __future__ import annotations

import asyncio
import re

from tests.e2e.documents.hooks import TERMINAL
from tests.e2e.documents.steps import step
from tests.support.documents import DocumentBlock
from tests.support.newcomer import PATIENCE_S, NewcomerWalk, run_typed

WALLET, ANALYST = "docs/tutorials/wallet.md", "docs/tutorials/analyst.md"


@step(WALLET, "Create a payment", 0)
async def created(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await walk.shell.run(block.text)
    assert re.fullmatch(r"pay_\w+", await walk.shell.value("PAYMENT_ID"))


@step(WALLET, "Read the options", 0)
async def options(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert "caip19/" in await walk.shell.run(block.text)


@step(WALLET, "Check and sign", 0)
async def signed(walk: NewcomerWalk, block: DocumentBlock) -> None:
    """Type it as a buyer who agrees to pay."""
    script = f"{TERMINAL}LINK={await walk.shell.value('LINK')}\n{block.text}"
    async with run_typed(walk, script, answer="y\n") as shell:
        text = (await asyncio.wait_for(shell.communicate(), PATIENCE_S))[0].decode()
        assert shell.returncode == 0, text
    assert "PAYMENT_STATUS_SUCCEEDED 0x" in text


@step(WALLET, "See the end", 0)
async def ended(walk: NewcomerWalk, block: DocumentBlock) -> None:
    assert "succeeded" in await walk.shell.run(block.text)


@step(ANALYST, "Export the payments", 0)
async def exported(walk: NewcomerWalk, block: DocumentBlock) -> None:
    await walk.shell.run(block.text)
    assert (walk.folder / "data/tutorial/export.json").exists()


@step(ANALYST, "Answer a question", 0)
async def saved(walk: NewcomerWalk, block: DocumentBlock) -> None:
    (walk.folder / block.file).write_text(block.text)


@step(ANALYST, "Answer a question", 1)
async def answered(walk: NewcomerWalk, block: DocumentBlock) -> None:
    payments, paid = (await walk.shell.run(block.text)).splitlines()
    assert re.search(r"'succeeded': [1-9]", payments)
    assert re.search(r"\('succeeded', 'caip19/[^']+'\): Decimal\('[\d.]*[1-9]", paid)
