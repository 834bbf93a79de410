"""Test buyer data: stored once for each source, proven, counted, deleted."""

from __future__ import annotations

import sqlite3
from dataclasses import replace

import pytest
from florin_server.accounts.store import customers
from florin_server.accounts.store.customers import ErasureCounts
from florin_server.compliance.buyer_data import store as collected_data
from florin_server.compliance.buyer_data.store import (
    BuyerDataRecord,
    ConfirmedBuyerData,
    DataSource,
    format_source,
)
from florin_server.db.migrations import config
from florin_server.domain.cipher import Ciphertext
from florin_server.domain.payments.state import PaymentStateEvent
from florin_server.money.payments.store import payments, simulation
from sqlalchemy import create_engine

from tests.support.requested_data import OTHER_ACCOUNT, REQUESTED_AMOUNT
from tests.support.store_factories import (
    CHAIN,
    EXPIRES,
    LATER_US,
    NOW_US,
    PAYER,
    create_payment,
    make_confirmation,
    make_option,
    open_engine_store,
)

KEPT_US = NOW_US + 1_000_000_000
THIRD = f"{CHAIN}:0x{'ff' * 20}"
FORM, INLINE = format_source(DataSource.FORM, "mine"), format_source(DataSource.INLINE, "mine")
STRANGER = format_source(DataSource.INLINE, "stranger")
OWN = (FORM, INLINE)
APP = "app_1"


def collected(of, account: str = PAYER, text: bytes = b"sealed", **changes) -> BuyerDataRecord:
    sealed = Ciphertext("k1", b"nonce", text)
    record = BuyerDataRecord(of.id, account, INLINE, APP, sealed, NOW_US, KEPT_US)
    return replace(record, **changes)


async def offered(store, **changes):
    """Create a payment that was offered to three accounts."""
    payment = await create_payment(store, **changes)
    options = [
        make_option(payment, id=account, payer=account) for account in (OTHER_ACCOUNT, THIRD)
    ]
    await store.write(payments.put_options(options))
    return payment


async def find_accounts_with_data(
    store, of, *accounts: str, sources=OWN, now_us: int = NOW_US
) -> set[str]:
    return await store.read(
        collected_data.filter_accounts_with_data(of.id, accounts or (PAYER,), sources, now_us)
    )


async def reusable(
    store, *accounts: str, app: str = APP, now_us: int = NOW_US, live: bool = False
) -> set[str]:
    return await store.read(
        collected_data.filter_accounts_with_reusable_data(
            accounts or (PAYER,), app, now_us, live=live
        )
    )


async def list_records(store, account: str = PAYER) -> list[tuple[str, str, bool]]:
    result = await store.read(collected_data.list_by_account(account))
    return [(item.payment_id, item.source, item.proven) for item in result]


async def texts(store, account: str = PAYER) -> list[bytes]:
    return [
        item.sealed.ciphertext for item in await store.read(collected_data.list_by_account(account))
    ]


def accept(of, **changes):
    return payments.accept(
        make_confirmation(of, **changes), make_option(of), 7, ("Wallet", None), LATER_US
    )


async def proven(store, of, buyer_data: ConfirmedBuyerData | None = None):
    return await store.write(
        collected_data.accept_proven(
            accept(of), of.id, PAYER, buyer_data or ConfirmedBuyerData(OWN)
        )
    )


async def test_each_source_has_a_place_of_its_own(store):
    of = await offered(store)
    for source in (INLINE, FORM, STRANGER):
        await store.write(collected_data.put([collected(of, source=source, text=source.encode())]))
        await store.write(collected_data.put([collected(of, source=source, text=b"other")]))
    assert sorted(await texts(store)) == sorted(text.encode() for text in (INLINE, FORM, STRANGER))


async def test_collected_data_is_returned_as_stored(store):
    old, new = await offered(store), await offered(store)
    records = [collected(old), collected(new, created_at_us=LATER_US, app="app_2", source=FORM)]
    for record in records:
        await store.write(collected_data.put([record]))
    assert await store.read(collected_data.list_by_account(PAYER)) == records[::-1]
    assert [each_record.data_source for each_record in records] == [
        DataSource.INLINE,
        DataSource.FORM,
    ]


async def test_form_submission_returns_the_data_already_stored_for_its_source(store):
    of = await offered(store)
    both = [collected(of, source=FORM), collected(of, OTHER_ACCOUNT, source=FORM)]
    assert await store.write(collected_data.submit(both[:1])) == both[:1]
    again = [replace(record, sealed=Ciphertext("k1", b"nonce", b"other")) for record in both]
    results = {item.account: item for item in await store.write(collected_data.submit(again))}
    assert results == {PAYER: both[0], OTHER_ACCOUNT: again[1]}
    assert (
        await store.read(collected_data.list_by_source(of.id, [PAYER, OTHER_ACCOUNT], INLINE)) == []
    )


async def test_data_for_an_account_without_an_offer_is_not_stored(store):
    of = await create_payment(store)
    data = [collected(of), collected(of, OTHER_ACCOUNT)]
    assert await store.write(collected_data.submit(data)) == data[:1]
    assert await store.write(collected_data.submit([collected(of, THIRD)])) == []
    assert await list_records(store, OTHER_ACCOUNT) == []


async def test_data_for_an_ended_or_unknown_payment_is_not_stored(store):
    of = await offered(store)
    await store.write(payments.expire([of.id], EXPIRES * 1_000_000))
    assert await store.write(collected_data.submit([collected(of)])) == []
    assert await store.write(collected_data.submit([collected(replace(of, id="pay_x"))])) == []


async def test_data_counts_for_its_payment_if_its_source_is_the_callers(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await find_accounts_with_data(store, of) == set()
    assert await find_accounts_with_data(store, of, sources=[STRANGER]) == {PAYER}
    await store.write(collected_data.put([collected(of), collected(of, OTHER_ACCOUNT)]))
    assert await find_accounts_with_data(store, of, PAYER, OTHER_ACCOUNT, THIRD) == {
        PAYER,
        OTHER_ACCOUNT,
    }
    assert await find_accounts_with_data(store, of, now_us=KEPT_US) == set()
    assert await find_accounts_with_data(store, await offered(store)) == set()


async def test_data_counts_later_after_its_own_credential_confirmed(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first)]))
    assert await reusable(store) == set()
    assert (await proven(store, first, ConfirmedBuyerData(OWN, is_required=True))).id == first.id
    assert await reusable(store, PAYER, OTHER_ACCOUNT) == {PAYER}
    assert await reusable(store, live=True) == set()
    assert await reusable(store, app="app_2") == set()
    assert await reusable(store, now_us=KEPT_US - 1) == {PAYER}
    assert await reusable(store, now_us=KEPT_US) == set()


async def test_confirm_deletes_data_from_other_sources_about_its_account(store):
    of, other = await offered(store), await offered(store)
    for source in (INLINE, FORM, STRANGER):
        await store.write(collected_data.put([collected(of, source=source)]))
    await store.write(collected_data.put([collected(of, OTHER_ACCOUNT, source=STRANGER)]))
    await store.write(collected_data.put([collected(other, source=STRANGER)]))
    await proven(store, of)
    # the form's data is separate
    assert sorted(await list_records(store)) == sorted(
        [(of.id, FORM, True), (other.id, STRANGER, False)]
    )
    assert await list_records(store, OTHER_ACCOUNT) == [(of.id, STRANGER, False)]


async def test_confirm_without_own_data_proves_nothing(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await proven(store, of) is not None
    assert await list_records(store) == []
    assert await reusable(store) == set()


async def test_nothing_is_accepted_without_data_that_is_needed(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, source=STRANGER)]))
    assert await proven(store, of, ConfirmedBuyerData(OWN, is_required=True)) is None
    assert await store.payments.find(of.id) == of
    assert await list_records(store) == [(of.id, STRANGER, False)]
    # unless it comes with the confirm
    buyer_data = ConfirmedBuyerData(OWN, inline_entry=collected(of), is_required=True)
    assert (await proven(store, of, buyer_data)).version == 1
    assert await list_records(store) == [(of.id, INLINE, True)]


async def test_payment_paid_by_a_different_account_proves_nothing(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first, OTHER_ACCOUNT)]))
    await proven(store, first)
    assert await reusable(store, OTHER_ACCOUNT) == set()


async def test_unsigned_simulated_payment_proves_nothing(store):
    first = await offered(store)
    await store.write(collected_data.put([collected(first)]))
    assert await store.write(accept(first)) is not None
    await store.write(
        simulation.simulate(
            first.id, PaymentStateEvent.SIMULATE_SUCCEEDED, REQUESTED_AMOUNT, LATER_US
        )
    )
    assert await reusable(store) == set()
    assert await list_records(store) == [(first.id, INLINE, False)]


async def test_a_confirm_that_came_too_late_proves_nothing(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of)]))
    late = payments.accept(
        make_confirmation(of), make_option(of), 7, ("", None), EXPIRES * 1_000_000
    )
    assert (
        await store.write(collected_data.accept_proven(late, of.id, PAYER, ConfirmedBuyerData(OWN)))
        is None
    )
    assert await store.read(collected_data.list_by_account(PAYER)) == [collected(of)]


async def test_data_of_an_app_is_bounded_and_does_not_displace_data_of_other_apps(
    store, monkeypatch
):
    monkeypatch.setattr(collected_data, "ROWS_AN_APP", 3)
    of = await offered(store)
    await store.write(collected_data.put([collected(of, app="app_2", source="form:other")]))
    await store.write(collected_data.put([collected(of, OTHER_ACCOUNT)]))
    for n in range(6):
        record = collected(of, source=f"inline:{n}", created_at_us=NOW_US + n)
        await store.write(collected_data.put([record]))
    assert [source for _, source, _ in await list_records(store)] == [
        *("inline:5", "inline:4", "inline:3"),
        "form:other",
    ]
    assert await list_records(store, OTHER_ACCOUNT) == [(of.id, INLINE, False)]
    # sent again, it is stored again; a clock that was set back does not evict the newest
    await store.write(collected_data.put([collected(of, source="inline:3")]))
    await store.write(collected_data.put([collected(of, source="inline:9", created_at_us=0)]))
    left = {source for _, source, _ in await list_records(store)}
    assert left == {"inline:5", "inline:4", "inline:9", "form:other"}


async def test_due_data_is_deleted_in_batches_oldest_first(store):
    old, new, late = [await offered(store) for _ in range(3)]
    for of, until in ((new, -1), (old, -2), (late, 1)):
        await store.write(collected_data.put([collected(of, kept_until_us=KEPT_US + until)]))
    await store.write(
        collected_data.put([collected(late, source=STRANGER, kept_until_us=KEPT_US)]),
    )
    assert await store.write(collected_data.forget(KEPT_US, 1)) == 1
    assert {payment_id for payment_id, *_ in await list_records(store)} == {new.id, late.id}
    assert await store.write(collected_data.forget(KEPT_US, 10)) == 2
    assert await store.write(collected_data.forget(KEPT_US, 10)) == 0
    assert await list_records(store) == [(late.id, INLINE, False)]


async def test_erased_customer_leaves_no_data_from_any_source(store):
    of, other = await offered(store), await offered(store)
    await store.write(collected_data.put([collected(other)]))
    await store.write(collected_data.put([collected(other, source=STRANGER)]))
    await store.write(collected_data.put([collected(of), collected(of, OTHER_ACCOUNT)]))
    await proven(store, of)
    ids = await store.scan(customers.list_payment_ids(PAYER))
    assert ids == {of.id, other.id}
    erased = await store.write(customers.erase(PAYER, ids))
    assert erased == ErasureCounts(offers=1, wallets=1, retained_payments=1, data=3)
    assert await list_records(store) == []
    assert await list_records(store, OTHER_ACCOUNT) == [(of.id, INLINE, False)]


async def test_customer_with_collected_data_only_is_listed(store):
    of = await offered(store)
    await store.write(collected_data.put([collected(of, THIRD)]))
    assert of.id in await store.scan(customers.list_payment_ids(THIRD))


@pytest.mark.parametrize("proven_before", [False, True])
async def test_data_without_a_source_never_counts(tmp_path, proven_before):
    path = tmp_path / "florin.db"
    async with open_engine_store("sqlite", tmp_path) as store:
        of, later = await offered(store), await offered(store)
    _to(path, "v0006")
    with sqlite3.connect(path) as raw:
        raw.execute(
            "INSERT INTO collected_data VALUES (?, ?, 'k1', X'00', X'01', ?, ?, ?)",
            (of.id, PAYER, NOW_US, KEPT_US, proven_before),
        )
    raw.close()
    async with open_engine_store("sqlite", tmp_path) as store:
        (record,) = await store.read(collected_data.list_by_account(PAYER))
        sealed = Ciphertext("k1", b"\x00", b"\x01")
        assert record == BuyerDataRecord(
            of.id, PAYER, "", "", sealed, NOW_US, KEPT_US, proven_before
        )
        assert record.data_source is None
        assert await find_accounts_with_data(store, of) == set()
        # also not after the payment is bound
        await store.write(accept(of))
        assert await reusable(store) == set()
        await store.write(collected_data.put([collected(later)]))
        assert await store.write(collected_data.forget(KEPT_US, 10)) == 2
    _to(path, "v0006")


async def test_downgrade_deletes_data_that_an_older_release_cannot_read(tmp_path):
    path = tmp_path / "florin.db"
    async with open_engine_store("sqlite", tmp_path) as store:
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
