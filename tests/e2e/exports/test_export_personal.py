"""What buyers really told a Florin is in no byte of its exports, unless it is asked for."""

from __future__ import annotations

import asyncio
import json

import pytest
import pytest_asyncio

from tests.support.capture import ASKED, DATA, hand_in, new_till
from tests.support.desk import opened
from tests.support.exported import lines

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]

TOLD = [value for value in DATA.values() if isinstance(value, str) and len(value) > 2]
# as it is, and as JSON may have it
WORDS = [form for one in TOLD for form in (one.encode(), json.dumps(one).strip('"').encode())]


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory, evm):
    async with opened(tmp_path_factory.mktemp("capture"), evm=evm, capture=ASKED) as desk:
        yield desk


async def test_captured_data_stays_in_the_store(desk, forks, tmp_path):
    by_form, inline = await new_till(desk), await new_till(desk)
    await hand_in(desk, await by_form.url())
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
    rows = lines(await export("personal", "--personal"), "buyer_data")
    found = {row["payment_id"]: (row["source"].partition(":")[0], row["data"]) for row in rows}
    assert {one: (way, json.loads(data)) for one, (way, data) in found.items()} == {
        by_form.payment_id: ("form", DATA),
        inline.payment_id: ("inline", DATA),
    }
