"""Keys of receipts: kept sealed, published before they sign, followed by others, revoked."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
import pytest_asyncio
from florin_server.cli.exits import Exit
from florin_server.domain.errors import FlorinError
from florin_server.domain.receipts import signature
from florin_server.flows.receipts import keys

from tests.support.desk import opened
from tests.support.receipts import JWKS, receipt_of

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module")
async def desk(tmp_path):
    async with opened(tmp_path / "home") as desk:
        yield desk


async def paid(desk) -> str:
    offer = await desk.offer()
    await desk.confirm(offer)
    assert (await desk.final(offer.payment_id))["status"] == "succeeded"
    return offer.payment_id


async def published(desk) -> dict:
    return signature.key_set((await desk.ask("GET", JWKS)).text.encode())


async def test_a_new_key_is_published_before_it_signs_and_the_old_one_stays(desk):
    payment_id = await paid(desk)
    first = await receipt_of(desk, payment_id)
    (old,) = await published(desk)
    new = (await keys.rotate(desk.service.app)).id
    assert list(await published(desk)) == [old, new]
    # caches of the key set have not been asked anew yet
    assert signature.key_id_of(await receipt_of(desk, payment_id)) == old
    desk.clock.advance(600)
    second = await receipt_of(desk, payment_id)
    assert signature.key_id_of(second) == new
    for text in (first, second):
        assert signature.verified(text, await published(desk)).sub == payment_id


async def test_what_a_revoked_key_signed_verifies_no_more(desk):
    payment_id = await paid(desk)
    first = await receipt_of(desk, payment_id)
    (old,) = await published(desk)
    with pytest.raises(FlorinError) as only:
        await keys.revoke(desk.service.app, old)
    assert only.value.code == "invalid_state"
    with pytest.raises(FlorinError) as unknown:
        await keys.revoke(desk.service.app, "A" * 43)
    assert unknown.value.code == "invalid_params"
    new = (await keys.rotate(desk.service.app)).id
    revoked = await keys.revoke(desk.service.app, old)
    assert await keys.revoke(desk.service.app, old) == revoked
    assert list(await published(desk)) == [new]
    with pytest.raises(signature.NotGenuine) as caught:
        signature.verified(first, await published(desk))
    assert caught.value.check == "key"
    # there is no older one: it signs at once
    assert signature.key_id_of(await receipt_of(desk, payment_id)) == new


async def test_two_who_rotate_at_once_make_one_key_and_are_told_the_same(desk):
    made = await asyncio.gather(*(keys.rotate(desk.service.app) for _ in range(4)))
    known = [one.id for one in await keys.listed(desk.service.app)]
    assert {one.id for one in made} <= set(known)
    assert [one.n for one in await keys.listed(desk.service.app)] == list(range(len(known)))


async def test_the_last_two_keys_cannot_revoke_each_other(desk):
    (first,) = await keys.listed(desk.service.app)
    second = await keys.rotate(desk.service.app)
    ended = await asyncio.gather(
        keys.revoke(desk.service.app, first.id),
        keys.revoke(desk.service.app, second.id),
        return_exceptions=True,
    )
    assert sum(isinstance(one, FlorinError) for one in ended) == 1
    assert len(await published(desk)) == 1


async def test_the_store_alone_signs_nothing(desk):
    (key,) = await keys.listed(desk.service.app)
    seed = keys.seed_of(desk.service.app, key)
    (row,) = desk.select("SELECT * FROM receipt_key")
    kept = [bytes(one) if isinstance(one, bytes | memoryview) else str(one).encode() for one in row]
    assert len(kept) == 8
    assert not any(seed in one or seed.hex().encode() in one for one in kept)
    # what is sealed for one key opens as no other one
    moved = replace(key, id="A" * 43)
    with pytest.raises(FlorinError):
        keys.seed_of(desk.service.app, moved)


async def test_the_same_keys_after_a_restart(tmp_path):
    async with opened(tmp_path / "home") as desk:
        before = (await desk.ask("GET", JWKS)).text
    async with opened(tmp_path / "home") as desk:
        assert (await desk.ask("GET", JWKS)).text == before


async def test_the_operator_lists_rotates_and_revokes(stopped, forks):
    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    assert listed.status == 0, listed.err
    (row,) = listed.out.splitlines()[1:]
    old = row.split()[0]
    assert row.split()[2:] == ["yes", "-"]
    made = await asyncio.to_thread(forks, "receipt-keys", "rotate", home=stopped)
    new = made.out.strip()
    assert "signs in 10 minutes" in made.err
    done = await asyncio.to_thread(forks, "receipt-keys", "revoke", old, home=stopped)
    assert done.out == f"{old} is revoked.\n"
    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    rows = [line.split() for line in listed.out.splitlines()[1:]]
    assert [(one[0], one[2]) for one in rows] == [(old, "-"), (new, "yes")]
    wrong = await asyncio.to_thread(forks, "receipt-keys", "revoke", new, home=stopped)
    assert wrong.status == Exit.STATE
    assert "only key" in wrong.err
    assert json.dumps(wrong.out) == '""'


async def test_a_doctor_tells_that_no_receipt_can_be_signed_and_what_to_do(stopped, forks):
    """What seals the keys was lost, or is not where it was before the state was moved."""

    async def said():
        done = await asyncio.to_thread(forks, "doctor", home=stopped)
        (line,) = (one for one in done.out.splitlines() if "receipts can be signed" in one)
        return line

    listed = await asyncio.to_thread(forks, "receipt-keys", "list", home=stopped)
    key_id = listed.out.splitlines()[1].split()[0]
    assert await said() == "✓ receipts can be signed"
    file = stopped / "secrets.json"
    kept = json.loads(file.read_text())
    former = kept["capture_keys"]
    file.write_text(json.dumps({**kept, "capture_keys": ["ab" * 32]}))
    told = await said()
    assert told.startswith("✗ receipts can be signed: none of capture_keys in secrets.json opens")
    assert key_id in told
    assert "florin receipt-keys rotate" in told
    # it is back, before the one that seals from now on
    file.write_text(json.dumps({**kept, "capture_keys": [*former, "ab" * 32]}))
    assert await said() == "✓ receipts can be signed"
