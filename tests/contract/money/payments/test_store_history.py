"""Test the recorded history of payments against the state table."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest
from florin_server.domain.payments.payment import CancellationReason
from florin_server.money.payments.store import history, payments

from tests.support.store_factories import LATER_US, create_payment, open_engine_store


@pytest.fixture
async def home(tmp_path):
    """Create a store with a canceled payment and a waiting payment."""
    async with open_engine_store("sqlite", tmp_path) as store:
        payment, _ = await create_payment(store), await create_payment(store)
        await store.write(payments.cancel(payment.id, CancellationReason.BY_USER, LATER_US))
    return tmp_path, payment.id


async def find_problems(folder, *damage: str) -> list[str]:
    with closing(sqlite3.connect(folder / "florin.db")) as raw:
        for statement in damage:
            raw.execute(statement)
        raw.commit()
    async with open_engine_store("sqlite", folder) as store:
        return await store.scan(history.check())


async def test_payments_that_moved_as_they_may_are_no_problem(home):
    folder, _ = home
    assert await find_problems(folder) == []


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
            "1 payments have a change that was not recorded",
        ),
        (
            "UPDATE payment SET status = 'failed' WHERE status = 'cancelled'",
            "1 payments have a status without a recorded change",
        ),
        (
            "UPDATE payment SET version = 7 WHERE status = 'cancelled'",
            "1 payments have a status without a recorded change",
        ),
    ],
)
async def test_illegal_state_change_is_reported_with_an_example(home, damage, problem):
    folder, payment_id = home
    result = await find_problems(folder, damage)
    assert any(text.startswith(problem) and "pay_" in text for text in result)
    if " 1 payments" in problem:
        assert any(payment_id in text for text in result)
