"""Test notes on payments: their number, their deletion, and the erasure of a customer."""

from __future__ import annotations

import asyncio

import pytest
from florin_server.accounts.store import customers
from florin_server.domain.payments.note import NOTE_CHARS_MAX, PaymentNote, clean_note
from florin_server.money.payments.store import notes

from tests.support.store_factories import NOW_US, PAYER, create_payment


def make_note(payment, number: int) -> PaymentNote:
    return PaymentNote(f"note_{number}", payment.id, "keyA", "called", NOW_US + number)


async def test_notes_are_listed_in_order_and_deleted_ones_are_not(store):
    payment, other = await create_payment(store), await create_payment(store)
    for number in (2, 1, 3):
        assert await store.write(notes.add(make_note(payment, number), 50))
    deleted = await store.write(notes.set_deleted("note_2", NOW_US))
    assert deleted.deleted_at_us == NOW_US
    assert [note.id for note in await store.read(notes.list_notes(payment.id))] == [
        "note_1",
        "note_3",
    ]
    assert await store.read(notes.list_notes(other.id)) == []
    # the note of another payment is as unknown as one that does not exist
    assert await store.write(notes.lock(other.id, "note_1")) is None
    assert await store.write(notes.set_deleted("note_2", None)) == make_note(payment, 2)
    assert len(await store.read(notes.list_notes(payment.id))) == 3


async def test_simultaneous_notes_do_not_exceed_the_limit(store):
    payment = await create_payment(store)
    added = await asyncio.gather(
        *(store.write(notes.add(make_note(payment, number), 3)) for number in range(8))
    )
    assert sorted(added) == [False] * 5 + [True] * 3
    # a deleted note takes its place until it can no longer be restored
    first = (await store.read(notes.list_notes(payment.id)))[0]
    await store.write(notes.set_deleted(first.id, NOW_US))
    assert not await store.write(notes.add(make_note(payment, 9), 3))
    assert await store.write(notes.forget_deleted(NOW_US - 1, 10)) == 0
    assert await store.write(notes.forget_deleted(NOW_US, 10)) == 1
    assert await store.write(notes.add(make_note(payment, 9), 3))


async def test_erasure_of_a_customer_deletes_the_notes_of_its_payments(store):
    payment, other = await create_payment(store), await create_payment(store)
    for number, noted in enumerate((payment, other)):
        await store.write(notes.add(make_note(noted, number), 50))
    await store.write(notes.set_deleted("note_0", NOW_US))
    await store.write(customers.erase(PAYER, [payment.id]))
    assert await store.write(notes.lock(payment.id, "note_0")) is None
    assert len(await store.read(notes.list_notes(other.id))) == 1


@pytest.mark.parametrize(
    "text", ["", " \n ", "\u202eabc", "a\x1b[2J", "a\rb", "x" * (NOTE_CHARS_MAX + 1)]
)
def test_invalid_text_is_refused(text):
    with pytest.raises(ValueError, match="must"):
        clean_note(text)


def test_lines_of_a_form_are_kept():
    assert clean_note(" called\r\nagain\n") == "called\nagain"
    arabic = "\u0634\u200fa"
    assert clean_note(arabic) == arabic
