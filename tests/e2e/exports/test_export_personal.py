"""No byte of an export has data that buyers gave Florin, unless it is requested."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio

from tests.support.capture import CAPTURE_SETTINGS, DATA, open_pos, submit_form
from tests.support.export_stores import read_rows
from tests.support.service_harness import open_service

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

PERSONAL_VALUES = [value for value in DATA.values() if isinstance(value, str) and len(value) > 2]
# plain, and escaped as JSON may have it
WORDS = [
    form
    for text in PERSONAL_VALUES
    for form in (text.encode(), json.dumps(text).strip('"').encode())
]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with open_service(
        tmp_path_factory.mktemp("capture"), evm=evm, capture=CAPTURE_SETTINGS
    ) as desk:
        yield desk


async def test_captured_data_stays_in_the_store(desk, forks, tmp_path):
    by_form, inline = await open_pos(desk), await open_pos(desk)
    await submit_form(desk, await by_form.url())
    await inline.answer()
    await inline.fetch(collected=DATA)

    async def export(name, *more):
        to = tmp_path / name
        words = ("export", "--to", str(to), "--format", "jsonl", *more)
        done = await asyncio.to_thread(forks, *words, home=desk.service.home.path)
        assert done.status == 0, done.err
        return to

    plain = await export("plain")
    written = b"".join(file.read_bytes() for file in plain.rglob("*") if file.is_file())
    assert by_form.payment_id.encode() in written
    assert inline.payment_id.encode() in written
    assert [word for word in WORDS if word in written] == []
    rows = read_rows(await export("personal", "--personal"), "buyer_data")
    results = {row["payment_id"]: (row["source"].partition(":")[0], row["data"]) for row in rows}
    assert {item: (way, json.loads(data)) for item, (way, data) in results.items()} == {
        by_form.payment_id: ("form", DATA),
        inline.payment_id: ("inline", DATA),
    }
