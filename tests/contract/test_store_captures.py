"""Tokens for forms, and data about buyers: stored once, counted, forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.sealed import Sealed
from florin_server.domain.state import Event
from florin_server.store import captures, customers, payments, simulation
from florin_server.store.captures import Collected, Token
from florin_server.store.customers import Erased

from tests.contract.test_store_kit import (
    CHAIN,
    EXPIRES,
    LATER_US,
    NOW_US,
    PAYER,
    confirmation,
    created,
    option,
)
from tests.contract.test_store_money import ASKED, OTHER

KEPT_US = NOW_US + 1_000_000_000
THIRD = f"{CHAIN}:0x{'ff' * 20}"


def token(of, hash_: str, *accounts: str, **changes) -> Token:
    return replace(Token(hash_, of.id, list(accounts or [PAYER]), EXPIRES), **changes)


def collected(of, account: str = PAYER, text: bytes = b"sealed", **changes) -> Collected:
    made = Collected(of.id, account, Sealed("k1", b"nonce", text), NOW_US, KEPT_US)
    return replace(made, **changes)


async def counts(store, of, *accounts: str, now_us: int = NOW_US, live: bool = False) -> set[str]:
    wanted = accounts or (PAYER,)
    return await store.read(captures.on_file(of.id, wanted, now_us, live=live))


async def texts(store, account: str = PAYER) -> list[tuple[str, bytes]]:
    found = await store.read(captures.of_account(account))
    return [(one.payment_id, one.sealed.ciphertext) for one in found]


async def taken(store, of, *, proven: bool) -> None:
    accept = payments.accept(confirmation(of), option(of), 7, ("Wallet", None), LATER_US)
    assert await store.write(captures.proven(accept, PAYER) if proven else accept)


async def test_a_token_stays_as_it_was_first_stored(store):
    of = await created(store)
    first = token(of, "a", PAYER, OTHER)
    await store.write(captures.put_tokens([first, token(of, "b")]))
    await store.write(captures.hand_in(first, b"given", []))
    await store.write(captures.put_tokens([first]))
    found = {one.hash: one for one in await store.read(captures.tokens(["a", "b", "c"]))}
    assert found == {"a": replace(first, used=b"given"), "b": token(of, "b")}


async def test_a_token_is_used_once_for_all_of_its_accounts(store):
    of = await created(store)
    mine = token(of, "a", PAYER, OTHER)
    await store.write(captures.put_tokens([mine]))
    data = [collected(of), collected(of, OTHER)]
    assert await store.write(captures.hand_in(mine, b"one", data)) == mine
    again = [collected(of, text=b"other"), collected(of, THIRD)]
    before = await store.write(captures.hand_in(mine, b"two", again))
    assert before.used == b"one"
    assert await texts(store) == [(of.id, b"sealed")]
    assert await texts(store, OTHER) == [(of.id, b"sealed")]
    assert await texts(store, THIRD) == []
    assert await counts(store, of, PAYER, OTHER, THIRD) == {PAYER, OTHER}


async def test_a_token_that_is_gone_stores_nothing(store):
    of = await created(store)
    with pytest.raises(LookupError):
        await store.write(captures.hand_in(token(of, "a"), b"one", [collected(of)]))
    assert await texts(store) == []


async def test_what_was_told_first_stays(store):
    of = await created(store)
    await store.write(captures.put([collected(of)]))
    await store.write(captures.put([collected(of, text=b"other"), collected(of, OTHER)]))
    assert await texts(store) == [(of.id, b"sealed")]
    assert await texts(store, OTHER) == [(of.id, b"sealed")]


async def test_what_was_told_comes_back_as_it_was(store):
    old, new = await created(store), await created(store)
    told = [collected(old), collected(new, created_at_us=LATER_US)]
    await store.write(captures.put(told))
    assert await store.read(captures.of_account(PAYER)) == told[::-1]


async def test_data_counts_for_its_payment_at_once_and_elsewhere_after_a_signature(store):
    first, later = await created(store), await created(store)
    await store.write(captures.put([collected(first)]))
    assert await counts(store, first) == {PAYER}
    assert await store.read(captures.given(first.id, [PAYER], NOW_US)) == {PAYER}
    assert await counts(store, later) == set()
    await taken(store, first, proven=True)
    assert await counts(store, later, PAYER, OTHER) == {PAYER}
    assert await store.read(captures.given(later.id, [PAYER], NOW_US)) == set()
    assert await counts(store, later, live=True) == set()


async def test_a_payment_that_somebody_else_pays_proves_nothing(store):
    first, later = await created(store), await created(store)
    await store.write(captures.put([collected(first, OTHER)]))
    await taken(store, first, proven=True)
    assert await counts(store, later, OTHER) == set()


async def test_what_a_wallet_sends_by_itself_proves_its_account_when_it_has_arrived(store):
    first, later = await created(store), await created(store)
    await store.write(captures.put([collected(first)]))
    await taken(store, first, proven=False)
    assert await counts(store, later) == set()
    await store.write(simulation.simulate(first.id, Event.SIMULATE_SUCCEEDED, ASKED, LATER_US))
    assert await counts(store, later) == {PAYER}


async def test_a_confirm_that_came_too_late_proves_nothing(store):
    of = await created(store)
    await store.write(captures.put([collected(of)]))
    late = payments.accept(confirmation(of), option(of), 7, ("", None), EXPIRES * 1_000_000)
    assert await store.write(captures.proven(late, PAYER)) is None
    (row,) = await store.read(captures.of_account(PAYER))
    assert row == collected(of)


async def test_data_is_over_when_its_time_is_even_if_nobody_deleted_it(store):
    first, later = await created(store), await created(store)
    await store.write(captures.put([collected(first)]))
    await taken(store, first, proven=True)
    for of in (first, later):
        assert await counts(store, of, now_us=KEPT_US - 1) == {PAYER}
        assert await counts(store, of, now_us=KEPT_US) == set()


async def test_what_is_due_is_deleted_in_batches_the_oldest_first(store):
    old, new, kept = [await created(store) for _ in range(3)]
    await store.write(
        captures.put(
            [
                collected(new, kept_until_us=KEPT_US - 1),
                collected(old, kept_until_us=KEPT_US - 2),
                collected(kept, kept_until_us=KEPT_US + 1),
            ]
        )
    )
    assert await store.write(captures.forget(KEPT_US, 0, 1)) == 1
    assert {payment_id for payment_id, _ in await texts(store)} == {new.id, kept.id}
    assert await store.write(captures.forget(KEPT_US, 0, 10)) == 1
    assert await store.write(captures.forget(KEPT_US, 0, 10)) == 0
    assert await texts(store) == [(kept.id, b"sealed")]


async def test_dead_tokens_are_deleted(store):
    of = await created(store)
    made = [token(of, f"t{n}", expires_at=EXPIRES + n) for n in range(4)]
    await store.write(captures.put_tokens(made))
    assert await store.write(captures.forget(NOW_US, EXPIRES + 2, 2)) == 2
    assert await store.write(captures.forget(NOW_US, EXPIRES + 2, 2)) == 1
    left = await store.read(captures.tokens([one.hash for one in made]))
    assert [one.hash for one in left] == ["t3"]


async def test_an_erased_customer_leaves_no_data_and_no_token(store):
    of, other = await created(store), await created(store)
    await taken(store, of, proven=True)
    await store.write(captures.put([collected(of), collected(of, OTHER), collected(other)]))
    await store.write(captures.put_tokens([token(of, "a", PAYER, OTHER), token(other, "b")]))
    ids = await store.survey(customers.named(PAYER))
    assert ids == {of.id, other.id}
    erased = await store.write(customers.erase(PAYER, ids))
    assert erased == Erased(offers=1, wallets=1, kept=1, data=2)
    assert await texts(store) == []
    assert await texts(store, OTHER) == [(of.id, b"sealed")]
    assert await store.read(captures.tokens(["a", "b"])) == []


async def test_a_customer_that_only_told_about_itself_is_found(store):
    of = await created(store)
    await store.write(captures.put([collected(of, THIRD)]))
    assert await store.survey(customers.named(THIRD)) == {of.id}
