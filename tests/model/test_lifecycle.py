"""Test that the service agrees with the model, for any actions in any order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from florin_server.api.payments import codec
from florin_server.db.engine.query import Statement, param
from florin_server.db.tables.tables import payment_table
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import Payment, PaymentStatus
from florin_server.domain.payments.polling import compute_poll_ms
from florin_server.domain.payments.state import PAYMENT_TRANSITIONS, PaymentStateEvent
from florin_server.idempotency.service import run_once
from florin_server.money.payments.service import create
from florin_server.money.payments.store import payments
from florin_server.money.refunds import service as refund
from sqlalchemy import update

from tests.model.campaign import play
from tests.model.environment import staged
from tests.model.lifecycle import FINAL
from tests.support.refund_rules import sum_only_the_newest

ACTIONS = {
    "advance",
    "cancel",
    "confirm",
    "create",
    "fetch",
    "follow",
    "options",
    "poll",
    "refund",
    "settle",
    "simulate",
}


@pytest.mark.parametrize(("chain", "runs"), [(False, 12), (True, 5)], ids=["fake rail", "chain"])
def test_every_reader_agrees_with_the_model(tmp_path, chain, runs):
    with staged(tmp_path / "home", chain=chain) as stage:
        play(stage, 1, runs)
    # a machine that never reaches all actions would find nothing
    assert set(stage.kinds) == ACTIONS
    assert set(stage.ends) >= (FINAL if not chain else {"succeeded", "expired", "cancelled"})


def cancels_too_late(patch: pytest.MonkeyPatch) -> None:
    anything = Statement(
        update(payment_table)
        .where(payment_table.c.id == param("payment_id"))
        .values(
            status=PaymentStatus.CANCELLED,
            version=payment_table.c.version + 1,
            updated_at_us=param("now_us"),
            cancelled_reason=param("cancelled_reason"),
        )
        .returning(*payment_table.c),
        Payment,
    )
    patch.setitem(
        PAYMENT_TRANSITIONS.rows[PaymentStateEvent.CANCEL],
        PaymentStatus.PROCESSING,
        PaymentStatus.CANCELLED,
    )
    patch.setattr(payments, "_CANCEL", anything)


def expires_a_second_late(patch: pytest.MonkeyPatch) -> None:
    punctual = Payment.with_expiry
    patch.setattr(Payment, "with_expiry", lambda self, now_us: punctual(self, now_us - 1_000_000))


def takes_every_confirm_for_the_bound_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(results, "compute_digest", lambda option_id, outputs: b"the same")


def forgets_keys(patch: pytest.MonkeyPatch) -> None:
    def forgetful(app, caller, work, answer):
        return app.store.write(work)

    assert create.run_once is run_once
    patch.setattr(create, "run_once", forgetful)


def tells_payments_that_are_over_to_poll(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        codec,
        "compute_poll_ms",
        lambda status, settle_s: (
            1000 if status is PaymentStatus.CANCELLED else compute_poll_ms(status, settle_s)
        ),
    )


def counts_no_refund_but_the_newest(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(refund, "sum_refunds", sum_only_the_newest)


@pytest.mark.parametrize(
    "plant",
    [
        cancels_too_late,
        expires_a_second_late,
        takes_every_confirm_for_the_bound_one,
        forgets_keys,
        tells_payments_that_are_over_to_poll,
        counts_no_refund_but_the_newest,
    ],
)
def test_the_machine_finds_a_planted_bug(
    tmp_path, monkeypatch, plant: Callable[[pytest.MonkeyPatch], None]
):
    with staged(tmp_path / "home", thorough=False) as stage:
        plant(monkeypatch)
        # one of the bugs silences a stream
        stage.patience_s = 0.5
        with pytest.raises(AssertionError, match="actual .*\n.*expected"):
            play(stage, 1, 100, shrink=False)
