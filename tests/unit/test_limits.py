"""Limits that hold together: the tightest is told, and who is over one takes from no other."""

from __future__ import annotations

import pytest
from florin_server.clock import TestClock
from florin_server.config import LimitSettings
from florin_server.domain.errors import FlorinError
from florin_server.flows.limits import Limits

START_US = 1_800_000_000_000_000


def limits(**chosen: int) -> Limits:
    return Limits(LimitSettings(**chosen), TestClock(START_US))


def test_an_app_is_bounded_from_everywhere_together():
    taken = limits(app_total_per_minute=60, app_total_burst=5)
    quotas = [taken.client("app", f"app/{n}", f"192.0.2.{n}") for n in range(7)]
    assert [quota.admitted for quota in quotas] == [True] * 5 + [False] * 2
    assert [quota.left for quota in quotas] == [4, 3, 2, 1, 0, 0, 0]
    assert taken.client("other", "other/1", "192.0.2.1").admitted


def test_what_one_address_has_refused_is_not_taken_from_all():
    taken = limits(
        app_total_per_minute=60, app_total_burst=5, address_per_minute=60, address_burst=2
    )
    for number in range(100):
        taken.client("app", f"app/{number}", "192.0.2.1")
    assert [taken.client("app", f"b/{n}", f"192.0.2.{n}").left for n in (2, 3)] == [1, 1]


def test_a_client_id_of_somebody_else_uses_nothing_up():
    taken = limits(app_per_minute=60, app_burst=2)
    while taken.client("app", "app/victim", "192.0.2.1").admitted:
        pass
    assert taken.client("app", "app/victim", "192.0.2.2").admitted


def test_confirms_that_only_a_chain_can_judge_are_bounded_for_a_payment():
    taken = limits(payment_total_per_minute=60, payment_total_burst=5, payment_burst=2)

    def passes(origin: str, *, asks: bool) -> bool:
        try:
            taken.confirm("pay_1", origin, asks=asks)
        except FlorinError:
            return False
        return True

    origins = [f"192.0.2.{n}" for n in range(7)]
    assert [passes(one, asks=True) for one in origins] == [True] * 5 + [False] * 2
    assert passes("192.0.2.9", asks=False)
    # whoever signed for an account is counted with nobody
    taken.signed("pay_1", "eip155:1:0x1")
    taken.signed("pay_1", "eip155:1:0x1")
    with pytest.raises(FlorinError):
        taken.signed("pay_1", "eip155:1:0x1")
    taken.signed("pay_1", "eip155:1:0x2")


def test_a_place_that_is_not_had_is_not_kept():
    taken = limits(held_per_payment_total=1, held_per_payment_caller=4)
    release = taken.held.by_app("app", "app/1", "192.0.2.1", "pay_1")
    with pytest.raises(FlorinError):
        taken.held.by_app("app", "app/2", "192.0.2.2", "pay_1")
    # the merchant's are others, and each merchant's are its own
    merchant = taken.held.by_merchant("key", "mrch_1", "pay_1")
    release()
    merchant()
    assert not taken.held.counted
