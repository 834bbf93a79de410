"""Test the short form of `make fuzz-refunds`, and that it finds a planted bug."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from florin_server.db.engine.query import (
    Op,
    Statement,
    operation,
    param,
)
from florin_server.db.tables.tables import payout_table
from florin_server.domain.payouts import refund_amounts
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.payouts.state import PayoutEvent
from florin_server.money.ledger.store import ledger
from florin_server.money.payouts.store import payouts
from florin_server.money.refunds import service as refund_flow
from sqlalchemy import BigInteger, Text, update

from tests.model.refund_store import ACTIONS, play_chunk
from tests.model.refunds import run_campaign
from tests.support.refund_rules import count_failed_refunds, round_up, sum_only_the_newest


def test_refund_campaign_finds_nothing_wrong():
    assert run_campaign(5000, seed=1) >= 5000


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("sum_refunds", sum_only_the_newest),
        ("sum_refunds", count_failed_refunds),
        ("split_refund", round_up),
    ],
)
def test_refund_campaign_finds_a_planted_fault(monkeypatch, name, planted):
    monkeypatch.setattr(refund_amounts, name, planted)
    with pytest.raises(AssertionError):
        run_campaign(5000, seed=1)


# the store


def test_refunds_in_a_store_never_exceed_the_paid_amount(tmp_path):
    machine = asyncio.run(play_chunk(tmp_path, 1, 4000))
    assert set(machine.action_counts) == ACTIONS.keys() - {"again"}
    assert machine.most_refunds > 5


Patch = pytest.MonkeyPatch


def sums_only_the_newest(patch: Patch) -> None:
    patch.setattr(refund_flow, "sum_refunds", sum_only_the_newest)


def counts_failed_refunds(patch: Patch) -> None:
    patch.setattr(refund_flow, "sum_refunds", count_failed_refunds)


def rounds_up(patch: Patch) -> None:
    patch.setattr(refund_flow, "split_refund", round_up)


def forgets_keys(patch: Patch) -> None:
    patch.setattr(
        refund_flow, "run_once", lambda app, _caller, work, _answer: app.store.write(work)
    )


def claims_what_does_not_wait(patch: Patch) -> None:
    anything = Statement(
        update(payout_table)
        .where(payout_table.c.id == param("id_"))
        .values(
            status=PayoutStatus.SUBMITTED,
            problem=None,
            tx_id=param("tx"),
            lapses_at=param("lapses", BigInteger),
        )
        .returning(payout_table.c.id),
        str,
    )
    patch.setattr(payouts, "_CLAIM", anything)


def believes_a_replaced_transaction(patch: Patch) -> None:
    anything = Statement(
        update(payout_table)
        .where(
            payout_table.c.id == param("id_"),
            payout_table.c.status == PayoutStatus.SUBMITTED,
            # any transaction
            param("of_tx", Text).is_not_distinct_from(param("of_tx", Text)),
        )
        .values(
            status=PayoutStatus.DONE,
            retry_at_us=param("at_us"),
            problem=param("why"),
            tx_id=param("tx"),
            completed_at_us=param("done_us"),
        )
        .returning(payout_table.c.id),
        str,
    )
    patch.setitem(payouts._FINALIZE, PayoutEvent.PAID, anything)  # noqa: SLF001


def leaves_undone_refunds_in_the_books(patch: Patch) -> None:
    @operation
    def reverse(_key: str, _now_us: int) -> Op[None]:
        yield from ()

    patch.setattr(ledger, "reverse", reverse)


@pytest.mark.parametrize(
    "plant",
    [
        sums_only_the_newest,
        counts_failed_refunds,
        rounds_up,
        forgets_keys,
        claims_what_does_not_wait,
        believes_a_replaced_transaction,
        leaves_undone_refunds_in_the_books,
    ],
)
def test_store_machine_finds_a_planted_fault(tmp_path, monkeypatch, plant: Callable[[Patch], None]):
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        asyncio.run(play_chunk(tmp_path, 1, 4000))
