"""The service does what the model says, whatever is done to a payment and in whatever order."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from florin_server.domain.payments import results
from florin_server.domain.payments.payment import Payment, Status
from florin_server.domain.payments.state import PAYMENT, Event
from florin_server.flows.payments import create
from florin_server.flows.payments.idempotent import once
from florin_server.flows.payouts import refund
from florin_server.rpc.payments.codec import Codec
from florin_server.store.engine.query import Statement, param
from florin_server.store.payments import payments
from florin_server.store.tables.tables import payment
from sqlalchemy import update

from tests.model.campaign import play
from tests.model.lifecycle import FINAL
from tests.model.stage import staged
from tests.support.refund_rules import sum_only_the_newest

DEEDS = {
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
def test_every_reader_tells_what_the_model_says(tmp_path, chain, runs):
    with staged(tmp_path / "home", chain=chain) as stage:
        play(stage, 1, runs)
    # a machine that never gets anywhere would find nothing
    assert set(stage.kinds) == DEEDS
    assert set(stage.ends) >= (FINAL if not chain else {"succeeded", "expired", "cancelled"})


def cancels_too_late(patch: pytest.MonkeyPatch) -> None:
    anything = Statement(
        update(payment)
        .where(payment.c.id == param("payment_id"))
        .values(
            status=Status.CANCELLED,
            version=payment.c.version + 1,
            updated_at_us=param("now_us"),
            cancelled_reason=param("cancelled_reason"),
        )
        .returning(*payment.c)
    )
    patch.setitem(PAYMENT.rows[Event.CANCEL], Status.PROCESSING, Status.CANCELLED)
    patch.setattr(payments, "_CANCEL", lambda now_s, **values: anything(**values))


def expires_a_second_late(patch: pytest.MonkeyPatch) -> None:
    punctual = Payment.at
    patch.setattr(Payment, "at", lambda self, now_us: punctual(self, now_us - 1_000_000))


def takes_every_confirm_for_the_bound_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(results, "digest", lambda option_id, outputs: b"the same")


def forgets_keys(patch: pytest.MonkeyPatch) -> None:
    def forgetful(app, caller, work, answer):
        return app.store.write(work)

    assert create.once is once
    patch.setattr(create, "once", forgetful)


def tells_payments_that_are_over_to_poll(patch: pytest.MonkeyPatch) -> None:
    usual = Codec._poll_ms  # noqa: SLF001  (what is broken is inside)
    patch.setattr(
        Codec,
        "_poll_ms",
        lambda self, one: 1000 if one.status is Status.CANCELLED else usual(self, one),
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
        # one of them keeps a stream from telling what it should
        stage.patience_s = 0.5
        with pytest.raises(AssertionError, match="told .*\n.*expected"):
            play(stage, 1, 100, shrink=False)
