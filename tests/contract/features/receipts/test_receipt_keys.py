"""Keys of receipts: stored sealed, published before they sign, rotated, revoked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
import pytest_asyncio
from florin_server.cli.exits import ExitStatus
from florin_server.domain.errors import ApiError
from florin_server.domain.receipts import signature
from florin_server.features.receipts.service import keys

from tests.support.receipts import JWKS, get_receipt
from tests.support.service_harness import open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def desk(tmp_path):
    async with open_service(tmp_path / "home") as desk:
        yield desk


async def paid(desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.wait_final(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def published(desk) -> dict:
    return signature.parse_key_set((await desk.ask("GET", JWKS)).text.encode())


async def test_new_receipt_key_is_published_before_it_signs(desk):
    payment_id = await paid(desk)
    first = await get_receipt(desk, payment_id)
    (old,) = await published(desk)
    new = (await keys.rotate(desk.service.app)).id
    assert list(await published(desk)) == [old, new]
    # caches of the key set have not been refreshed yet
    assert signature.parse_key_id(await get_receipt(desk, payment_id)) == old
    desk.clock.advance(600)
    second = await get_receipt(desk, payment_id)
    assert signature.parse_key_id(second) == new
    for text in (first, second):
        assert signature.verify_receipt(text, await published(desk)).sub == payment_id


async def test_receipt_of_a_revoked_key_no_longer_verifies(desk):
    payment_id = await paid(desk)
    first = await get_receipt(desk, payment_id)
    (old,) = await published(desk)
    with pytest.raises(ApiError) as only:
        await keys.revoke(desk.service.app, old)
    assert only.value.code == "invalid_state"
    with pytest.raises(ApiError) as unknown:
        await keys.revoke(desk.service.app, "A" * 43)
    assert unknown.value.code == "invalid_params"
    new = (await keys.rotate(desk.service.app)).id
    revoked = await keys.revoke(desk.service.app, old)
    assert await keys.revoke(desk.service.app, old) == revoked
    assert list(await published(desk)) == [new]
    with pytest.raises(signature.ReceiptNotGenuine) as caught:
        signature.verify_receipt(first, await published(desk))
    assert caught.value.check == "key"
    # no older key exists: the new one signs at once
    assert signature.parse_key_id(await get_receipt(desk, payment_id)) == new


async def test_concurrent_rotations_create_a_single_key_per_number(desk):
    created_keys = await asyncio.gather(*(keys.rotate(desk.service.app) for _ in range(4)))
    existing = [key.id for key in await keys.list_keys(desk.service.app)]
    assert {key.id for key in created_keys} <= set(existing)
    assert [key.n for key in await keys.list_keys(desk.service.app)] == list(range(len(existing)))


async def test_the_last_two_keys_cannot_revoke_each_other(desk):
    (first,) = await keys.list_keys(desk.service.app)
    second = await keys.rotate(desk.service.app)
    ended = await asyncio.gather(
        keys.revoke(desk.service.app, first.id),
        keys.revoke(desk.service.app, second.id),
        return_exceptions=True,
    )
    assert sum(isinstance(item, ApiError) for item in ended) == 1
    assert len(await published(desk)) == 1


async def test_the_store_alone_signs_nothing(desk):
    (key,) = await keys.list_keys(desk.service.app)
    seed = keys.decrypt_seed(desk.service.app, key)
    (row,) = desk.select("SELECT * FROM receipt_key")
    stored = [
        bytes(item) if isinstance(item, bytes | memoryview) else str(item).encode() for item in row
    ]
    assert len(stored) == 8
    assert not any(seed in item or seed.hex().encode() in item for item in stored)
    # data sealed for one key does not open as another key
    moved = replace(key, id="A" * 43)
    with pytest.raises(ApiError):
        keys.decrypt_seed(desk.service.app, moved)


async def test_the_same_keys_after_a_restart(tmp_path):
    async with open_service(tmp_path / "home") as desk:
        before = (await desk.ask("GET", JWKS)).text
    async with open_service(tmp_path / "home") as desk:
        assert (await desk.ask("GET", JWKS)).text == before


async def test_the_operator_lists_rotates_and_revokes(stopped, forks):
    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    assert listed.status == 0, listed.err
    (row,) = listed.out.splitlines()[1:]
    old = row.split()[0]
    assert row.split()[2:] == ["yes", "-"]
    thread = await asyncio.to_thread(forks, "receipt-keys", "rotate", home=stopped)
    new = thread.out.strip()
    assert "signs in 10 minutes" in thread.err
    done = await asyncio.to_thread(forks, "receipt-keys", "revoke", old, home=stopped)
    assert done.out == f"{old} is revoked.\n"
    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    rows = [line.split() for line in listed.out.splitlines()[1:]]
    assert [(each_row[0], each_row[2]) for each_row in rows] == [(old, "-"), (new, "yes")]
    wrong = await asyncio.to_thread(forks, "receipt-keys", "revoke", new, home=stopped)
    assert wrong.status == ExitStatus.WRONG_STATE
    assert "only receipt key" in wrong.err
    assert json.dumps(wrong.out) == '""'


async def test_doctor_reports_unusable_receipt_keys_and_the_rotate_command(stopped, forks):
    """The sealing key was lost, or is not at its place since the state was moved."""

    async def read_doctor_line():
        done = await asyncio.to_thread(forks, "doctor", home=stopped)
        (line,) = (item for item in done.out.splitlines() if "receipts can be signed" in item)
        return line

    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    key_id = listed.out.splitlines()[1].split()[0]
    assert await read_doctor_line() == "✓ receipts can be signed"
    file = stopped / "secrets.json"
    stored = json.loads(file.read_text())
    former = stored["capture_keys"]
    file.write_text(json.dumps({**stored, "capture_keys": ["ab" * 32]}))
    result = await read_doctor_line()
    assert result.startswith("✗ receipts can be signed: none of capture_keys in secrets.json opens")
    assert key_id in result
    assert "florin receipt-keys rotate" in result
    # it is back, before the key that seals from now on
    file.write_text(json.dumps({**stored, "capture_keys": [*former, "ab" * 32]}))
    assert await read_doctor_line() == "✓ receipts can be signed"
