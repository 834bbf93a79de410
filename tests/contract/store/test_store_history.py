"""What was written down of payments, held against the state table."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.domain.payments.payment import CancelledReason
from florin_server.store.payments import history, payments

from tests.support.store_kit import LATER_US, created, opened


@pytest.fixture
async def home(tmp_path):
    """A file with a payment that was cancelled and one that waits."""
    async with opened("sqlite", tmp_path) as store:
        one, _ = await created(store), await created(store)
        await store.write(payments.cancel(one.id, CancelledReason.BY_USER, LATER_US))
    return tmp_path, one.id


async def found(folder, *damage: str) -> list[str]:
    with closing(sqlite3.connect(folder / "florin.db")) as raw:
        for statement in damage:
            raw.execute(statement)
        raw.commit()
    async with opened("sqlite", folder) as store:
        return await store.survey(history.check())


async def test_payments_that_moved_as_they_may_are_no_problem(home):
    folder, _ = home
    assert await found(folder) == []


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            "UPDATE payment_event SET status = 'succeeded' WHERE cause = 'cancel'",
            "cancel moved 1 payments from requires_action to succeeded, against the state table",
        ),
        (
            "UPDATE payment_event SET cause = 'luck' WHERE cause = 'cancel'",
            "luck moved 1 payments from requires_action to cancelled, against the state table",
        ),
        (
            "UPDATE payment_event SET cause = 'clock' WHERE cause = 'created'",
            "clock moved 2 payments from nothing to requires_action, against the state table",
        ),
        (
            "UPDATE payment_event SET version = 2 WHERE cause = 'cancel'",
            "1 payments have a change that was not written down",
        ),
        (
            "UPDATE payment SET status = 'failed' WHERE status = 'cancelled'",
            "1 payments have a status that no change tells of",
        ),
        (
            "UPDATE payment SET version = 7 WHERE status = 'cancelled'",
            "1 payments have a status that no change tells of",
        ),
    ],
)
async def test_a_change_that_no_table_has_is_told_with_an_example(home, damage, problem):
    folder, payment_id = home
    told = await found(folder, damage)
    assert any(one.startswith(problem) and "pay_" in one for one in told)
    if " 1 payments" in problem:
        assert any(payment_id in one for one in told)
