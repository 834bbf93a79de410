"""Data about buyers: stored once for each source, proven, counted, forgotten."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from florin_server.domain.payments.state import Event
from florin_server.domain.sealed import Sealed
from florin_server.store.accounts import customers
from florin_server.store.accounts.customers import Erased
from florin_server.store.capture import collected_data
from florin_server.store.capture.collected_data import Collected, Told, Way, source_of
from florin_server.store.migrations import config
from florin_server.store.payments import payments, simulation
from sqlalchemy import create_engine

from tests.support.store_asked import ASKED, OTHER
from tests.support.store_kit import (
    CHAIN,
    EXPIRES,
    LATER_US,
    NOW_US,
    PAYER,
    confirmation,
    created,
    opened,
    option,
)

KEPT_US = NOW_US + 1_000_000_000
THIRD = f"{CHAIN}:0x{'ff' * 20}"
FORM, INLINE = source_of(Way.FORM, "mine"), source_of(Way.INLINE, "mine")
STRANGER = source_of(Way.INLINE, "stranger")
OWN = (FORM, INLINE)
APP = "app_1"


def collected(of, account: str = PAYER, text: bytes = b"sealed", **changes) -> Collected:
    sealed = Sealed("k1", b"nonce", text)
    made = Collected(of.id, account, INLINE, APP, sealed, NOW_US, KEPT_US)
    return replace(made, **changes)


async def offered(store, **changes):
    """A payment that was offered to three accounts."""
    made = await created(store, **changes)
    others = [option(made, id=account, payer=account) for account in (OTHER, THIRD)]
    await store.write(payments.put_options(others))
    return made


async def given(store, of, *accounts: str, sources=OWN, now_us: int = NOW_US) -> set[str]:
    return await store.read(collected_data.given(of.id, accounts or (PAYER,), sources, now_us))


async def reusable(
    store, *accounts: str, app: str = APP, now_us: int = NOW_US, live: bool = False
) -> set[str]:
    return await store.read(collected_data.reusable(accounts or (PAYER,), app, now_us, live=live))


async def kept(store, account: str = PAYER) -> list[tuple[str, str, bool]]:
    found = await store.read(collected_data.of_account(account))
    return [(one.payment_id, one.source, one.proven) for one in found]


async def texts(store, account: str = PAYER) -> list[bytes]:
    return [one.sealed.ciphertext for one in await store.read(collected_data.of_account(account))]


def accept(of, **changes):
    return payments.accept(confirmation(of, **changes), option(of), 7, ("Wallet", None), LATER_US)


async def proven(store, of, told: Told | None = None):
    return await store.write(collected_data.proven(accept(of), of.id, PAYER, told or Told(OWN)))


async def test_each_source_has_a_place_of_its_own(store):
    of = await offered(store)
    for source in (INLINE, FORM, STRANGER):
        await store.write(collected_data.put([collected(of, source=source, text=source.encode())]))
        await store.write(collected_data.put([collected(of, source=source, text=b"other")]))
    assert sorted(await texts(store)) == sorted(one.encode() for one in (INLINE, FORM, STRANGER))


async def test_what_was_told_comes_back_as_it_was(store):
    old, new = await offered(store), await offered(store)
    told = [collected(old), collected(new, created_at_us=LATER_US, app="app_2", source=FORM)]
    for one in told:
        await store.write(collected_data.put([one]))
    assert await store.read(collected_data.of_account(PAYER)) == told[::-1]
    assert [one.way for one in told] == [Way.INLINE, Way.FORM]


async def test_a_form_is_told_what_its_source_has_told_by_now(store):
    of = await offered(store)
    both = [collected(of, source=FORM), collected(of, OTHER, source=FORM)]
    assert await store.write(collected_data.hand_in(both[:1])) == both[:1]
    again = [replace(one, sealed=Sealed("k1", b"nonce", b"other")) for one in both]
    found = {one.account: one for one in await store.write(collected_data.hand_in(again))}
    assert found == {PAYER: both[0], OTHER: again[1]}
    assert await store.read(collected_data.told_by(of.id, [PAYER, OTHER], INLINE)) == []


async def test_nothing_is_told_about_accounts_that_a_payment_is_not_offered_to(store):
    of = await created(store)
    data = [collected(of), collected(of, OTHER)]
    assert await store.write(collected_data.hand_in(data)) == data[:1]
    assert await store.write(collected_data.hand_in([collected(of, THIRD)])) == []
    assert await kept(store, OTHER) == []


async def test_nothing_is_told_for_a_payment_that_is_over_or_unknown(store):
    of = await offered(store)
    await store.write(payments.expire([of.id], EXPIRES * 1_000_000))
    assert await store.write(collected_data.hand_in([collected(of)])) == []
    assert await store.write(collected_data.hand_in([collected(replace(of, id="pay_x"))])) == []


async def test_data_counts_for_its_payment_if_its_source_is_the_callers(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await given(store, of) == set()
    assert await given(store, of, sources=[STRANGER]) == {PAYER}
    await store.write(collected_data.put([collected(of), collected(of, OTHER)]))
    assert await given(store, of, PAYER, OTHER, THIRD) == {PAYER, OTHER}
    assert await given(store, of, now_us=KEPT_US) == set()
    assert await given(store, await offered(store)) == set()


async def test_data_counts_later_after_its_own_credential_confirmed(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first)]))
    assert await reusable(store) == set()
    assert (await proven(store, first, Told(OWN, needed=True))).id == first.id
    assert await reusable(store, PAYER, OTHER) == {PAYER}
    assert await reusable(store, live=True) == set()
    assert await reusable(store, app="app_2") == set()
    assert await reusable(store, now_us=KEPT_US - 1) == {PAYER}
    assert await reusable(store, now_us=KEPT_US) == set()


async def test_a_confirm_deletes_what_others_told_about_its_account(store):
    of, other = await offered(store), await offered(store)
    for source in (INLINE, FORM, STRANGER):
        await store.write(collected_data.put([collected(of, source=source)]))
    await store.write(collected_data.put([collected(of, OTHER, source=STRANGER)]))
    await store.write(collected_data.put([collected(other, source=STRANGER)]))
    await proven(store, of)
    # the form's is its own
    assert sorted(await kept(store)) == sorted([(of.id, FORM, True), (other.id, STRANGER, False)])
    assert await kept(store, OTHER) == [(of.id, STRANGER, False)]


async def test_a_confirm_of_who_told_nothing_proves_nothing(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await proven(store, of) is not None
    assert await kept(store) == []
    assert await reusable(store) == set()


async def test_nothing_is_accepted_without_data_that_is_needed(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await proven(store, of, Told(OWN, needed=True)) is None
    assert await store.reader.payment(of.id) == of
    assert await kept(store) == [(of.id, STRANGER, False)]
    # unless it comes with the confirm
    told = Told(OWN, brought=collected(of), needed=True)
    assert (await proven(store, of, told)).version == 1
    assert await kept(store) == [(of.id, INLINE, True)]


async def test_a_payment_that_somebody_else_pays_proves_nothing(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first, OTHER)]))
    await proven(store, first)
    assert await reusable(store, OTHER) == set()


async def test_what_is_not_signed_for_proves_nothing_even_when_it_has_arrived(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first)]))
    assert await store.write(accept(first)) is not None
    await store.write(simulation.simulate(first.id, Event.SIMULATE_SUCCEEDED, ASKED, LATER_US))
    assert await reusable(store) == set()
    assert await kept(store) == [(first.id, INLINE, False)]


async def test_a_confirm_that_came_too_late_proves_nothing(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of)]))
    late = payments.accept(confirmation(of), option(of), 7, ("", None), EXPIRES * 1_000_000)
    assert await store.write(collected_data.proven(late, of.id, PAYER, Told(OWN))) is None
    assert await store.read(collected_data.of_account(PAYER)) == [collected(of)]


async def test_what_one_app_tells_is_bounded_and_pushes_out_nobody_elses(store, monkeypatch):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 3)
    of = await offered(store)
    await store.write(collected_data.put([collected(of, app="app_2", source="form:other")]))
    await store.write(collected_data.put([collected(of, OTHER)]))
    for n in range(6):
        one = collected(of, source=f"inline:{n}", created_at_us=NOW_US + n)
        await store.write(collected_data.put([one]))
    assert [source for _, source, _ in await kept(store)] == [
        *("inline:5", "inline:4", "inline:3"),
        "form:other",
    ]
    assert await kept(store, OTHER) == [(of.id, INLINE, False)]
    # told again, it is there; and a clock that was set back does not put the newest out
    await store.write(collected_data.put([collected(of, source="inline:3")]))
    await store.write(collected_data.put([collected(of, source="inline:9", created_at_us=0)]))
    left = {source for _, source, _ in await kept(store)}
    assert left == {"inline:5", "inline:4", "inline:9", "form:other"}


async def test_what_is_due_is_deleted_in_batches_the_oldest_first(store):
    old, new, late = [await offered(store) for _ in range(3)]
    for of, until in ((new, -1), (old, -2), (late, 1)):
        await store.write(collected_data.put([collected(of, kept_until_us=KEPT_US + until)]))
    await store.write(
        collected_data.put([collected(late, source=STRANGER, kept_until_us=KEPT_US)]),
    )
    assert await store.write(collected_data.forget(KEPT_US, 1)) == 1
    assert {payment_id for payment_id, *_ in await kept(store)} == {new.id, late.id}
    assert await store.write(collected_data.forget(KEPT_US, 10)) == 2
    assert await store.write(collected_data.forget(KEPT_US, 10)) == 0
    assert await kept(store) == [(late.id, INLINE, False)]


async def test_an_erased_customer_leaves_no_data_whoever_told_it(store):
    of, other = await offered(store), await offered(store)
    await store.write(collected_data.put([collected(other)]))
    await store.write(collected_data.put([collected(other, source=STRANGER)]))
    await store.write(collected_data.put([collected(of), collected(of, OTHER)]))
    await proven(store, of)
    ids = await store.survey(customers.named(PAYER))
    assert ids == {of.id, other.id}
    erased = await store.write(customers.erase(PAYER, ids))
    assert erased == Erased(offers=1, wallets=1, kept=1, data=3)
    assert await kept(store) == []
    assert await kept(store, OTHER) == [(of.id, INLINE, False)]


async def test_a_customer_that_only_told_about_itself_is_found(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, THIRD)]))
    assert of.id in await store.survey(customers.named(THIRD))


@pytest.mark.parametrize("proven_before", [False, True])
async def test_data_from_before_sources_were_kept_never_counts(tmp_path, proven_before):
    path = tmp_path / "florin.db"
    async with opened("sqlite", tmp_path) as store:
        of, later = await offered(store), await offered(store)
    _to(path, "v0006")
    with sqlite3.connect(path) as raw:
        raw.execute(
            "INSERT INTO collected_data VALUES (?, ?, 'k1', X'00', X'01', ?, ?, ?)",
            (of.id, PAYER, NOW_US, KEPT_US, proven_before),
        )
    raw.close()
    async with opened("sqlite", tmp_path) as store:
        (told,) = await store.read(collected_data.of_account(PAYER))
        sealed = Sealed("k1", b"\x00", b"\x01")
        assert told == Collected(of.id, PAYER, "", "", sealed, NOW_US, KEPT_US, proven_before)
        assert told.way is None
        assert await given(store, of) == set()
        # also not once the payment is bound
        await store.write(accept(of))
        assert await reusable(store) == set()
        await store.write(collected_data.put([collected(later)]))
        assert await store.write(collected_data.forget(KEPT_US, 10)) == 2
    _to(path, "v0006")


async def test_an_older_florin_is_left_what_it_can_read(tmp_path):
    path = tmp_path / "florin.db"
    async with opened("sqlite", tmp_path) as store:
        of = await offered(store)
        await store.write(collected_data.put([collected(of)]))
    _to(path, "v0006")
    with sqlite3.connect(path) as raw:
        assert raw.execute("SELECT count(*) FROM collected_data").fetchall() == [(0,)]
    raw.close()


def _to(path, version: str) -> None:
    from alembic import command

    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        command.downgrade(config(connection), version)
    engine.dispose()
