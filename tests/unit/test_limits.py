"""Limits that hold together: the tightest is told, and who is over one takes from no other."""

from __future__ import annotations

import inspect

import pytest
from florin_server.clock import TestClock
from florin_server.config import LimitSettings
from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.limits.limit import Limit, Quota
from florin_server.flows.limits.limits import Limits
from florin_server.meters import Meters

START_US = 1_800_000_000_000_000


def limits(**chosen: int) -> Limits:
    return Limits(LimitSettings(**chosen), TestClock(START_US))


# a call, each of what it is counted by, and what bounds it to three at once and one in ten seconds
RATE = 6
COUNTED = [
    (lambda one, a: one.open_call(a), "address", 1),
    (lambda one, a, b: one.options(a, b), "options", 2),
    (lambda one, a, b: one.confirm(a, b, asks=False), "payment", 2),
    (lambda one, a, _: one.confirm(a, "192.0.2.1", asks=True), "payment_total", 1),
    (lambda one, a, b: one.signed(a, b), "payment", 2),
    (lambda one, a, b: one.cancel(a, b), "payment", 2),
    (lambda one, a, b: one.form(a, f"ipv4:192.0.2.{len(b)}:1"), "payment", 2),
    (lambda one, a: one.failed(f"ipv4:192.0.2.{len(a)}:1"), "failure", 1),
    (lambda one, a: one.guard(a), "guard", 1),
]


@pytest.mark.parametrize(("call", "setting", "parts"), COUNTED)
def test_a_call_is_counted_by_all_its_parts_and_comes_back_with_time(call, setting, parts):
    given = inspect.signature(call).parameters.keys() - {"one"}
    clock = TestClock(START_US)
    bounded = Limits(LimitSettings(**{f"{setting}_per_minute": RATE, f"{setting}_burst": 3}), clock)

    def wait_s(*what: str) -> int | None:
        """None if it passed."""
        try:
            call(bounded, *what[: len(given)])
        except FlorinError as error:
            return error.retry_after_s if error.code is Code.RATE_LIMITED else -1
        return None

    assert [wait_s("a", "b") for _ in range(4)] == [None, None, None, 10]
    for other in (("aa", "b"), ("a", "bb"))[:parts]:
        assert wait_s(*other) is None
    clock.advance(9)
    assert wait_s("a", "b") == 1
    clock.advance(1)
    assert [wait_s("a", "b"), wait_s("a", "b")] == [None, 10]


def test_a_key_that_was_not_kept_is_not_counted():
    bounded = limits(guard_per_minute=RATE, guard_burst=1)
    bounded.guard("a")
    bounded.unguard("a")
    bounded.guard("a")
    with pytest.raises(FlorinError):
        bounded.guard("a")
    limits(guard_per_minute=0).unguard("a")


@pytest.mark.parametrize(("call", "setting", "_"), COUNTED)
def test_a_rate_of_zero_is_no_limit(call, setting, _):
    given = inspect.signature(call).parameters.keys() - {"one"}
    unbounded = limits(**{f"{setting}_per_minute": 0, f"{setting}_burst": 1})
    for _ in range(5):
        call(unbounded, *["a", "b"][: len(given)])


def test_durable_nonces_are_bounded_by_payer_caller_and_partner_an_hour():
    clock = TestClock(START_US)
    bounds = {"payer": 2, "address": 3, "key": 4, "partner": 6}
    bounded = Limits(
        LimitSettings(**{f"nonce_{name}_per_hour": most for name, most in bounds.items()}), clock
    )

    def take(payer: str, origin: str = "192.0.2.1", partner: str = "par_1", *, is_key=False):
        return bounded.take_nonce(payer, origin, partner, is_key=is_key)

    assert [take("one") for _ in range(3)] == [True, True, False]
    # what the payer's bound refused counts against nobody else
    assert [take("other"), take("third")] == [True, False]
    assert [take("fourth", "192.0.2.2") for _ in range(1)] == [True]
    # keys have many buyers; all payments of a partner are bounded together
    assert [take(f"buyer {n}", "key_1", is_key=True) for n in range(3)] == [True, True, False]
    assert take("fifth", "key_1", "par_2", is_key=True)
    # a stranger who names the account takes nothing from its owner
    assert take("one", "192.0.2.3", "par_2")
    clock.advance(1799)
    assert not take("one", partner="par_2")
    clock.advance(1)
    assert take("one", partner="par_2")


def test_durable_nonces_are_not_bounded_by_a_rate_of_zero():
    names = ("payer", "address", "key", "partner")
    unbounded = limits(**{f"nonce_{name}_per_hour": 0 for name in names})
    for is_key in (True, False):
        assert all(unbounded.take_nonce("a", "b", "c", is_key=is_key) for _ in range(1000))


def test_pages_are_told_when_the_next_one_is_answered():
    clock = TestClock(START_US)
    bounded = Limits(LimitSettings(page_per_minute=RATE, page_burst=3), clock)
    mine, others = "ipv4:192.0.2.1:9", "ipv4:192.0.2.2:9"
    assert [bounded.page(mine) for _ in range(5)] == [0, 0, 0, 10, 10]
    assert bounded.page(others) == 0
    clock.advance(10)
    assert [bounded.page(mine), bounded.page(mine)] == [0, 10]
    assert {limits(page_per_minute=0).page(mine) for _ in range(1000)} == {0}


def test_a_key_is_told_what_it_has_left():
    clock = TestClock(START_US)
    bounded = Limits(LimitSettings(key_per_minute=RATE, key_burst=2), clock)
    told = [bounded.key("key_1") for _ in range(3)]
    assert told == [
        Quota(RATE, left=1, wait_s=10, admitted=True),
        Quota(RATE, left=0, wait_s=10, admitted=True),
        Quota(RATE, left=0, wait_s=10, admitted=False),
    ]
    assert bounded.key("key_2").admitted
    assert limits(key_per_minute=0).key("key_1") is None


def test_what_is_not_limited_hides_no_other_limit():
    bounded = limits(address_per_minute=0, app_per_minute=RATE, app_burst=1)
    assert [bounded.client("app", "app/1", "x").admitted for _ in range(2)] == [True, False]
    free = limits(address_per_minute=0, app_per_minute=0, app_total_per_minute=0)
    assert free.client("app", "app/1", "x") is None


def test_of_two_that_leave_alike_the_one_that_takes_longer_is_told():
    slow, fast = 6, 60
    for address, app in ((slow, fast), (fast, slow)):
        bounded = limits(
            address_per_minute=address, address_burst=1, app_per_minute=app, app_burst=1
        )
        assert bounded.client("app", "app/1", "x") == Quota(slow, 0, 10, admitted=True)


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


def test_processes_of_two_versions_know_each_limit_by_the_same_name():
    """Whoever renames one lets callers through twice while a new version is rolled out."""
    assert [one.kind for one in limits().rates] == [
        *("key", "app", "address", "app_total", "options", "confirm", "signed", "payment_total"),
        *("cancel", "form", "failure", "page", "guard"),
        *("nonce_payer", "nonce_address", "nonce_key", "nonce_partner"),
    ]


def test_what_is_refused_is_counted_by_its_setting():
    meters = Meters()
    chosen = LimitSettings(payment_burst=1, key_burst=1, held_per_address=1)
    taken = Limits(chosen, TestClock(START_US), meters)
    for _ in range(3):
        taken.key("key_1")
    taken.cancel("pay_1", "192.0.2.1")
    taken.form("ticket", "ipv4:192.0.2.1:1")
    taken.held.by_nobody("192.0.2.1")
    for refused in (
        lambda: taken.cancel("pay_1", "192.0.2.1"),
        lambda: taken.form("ticket", "ipv4:192.0.2.1:1"),
        lambda: taken.held.by_nobody("192.0.2.1"),
    ):
        with pytest.raises(FlorinError):
            refused()
    told = meters.registry.get_sample_value
    counts = {
        name: told("florin_limit_refusals_total", {"limit": name})
        for name in ("key", "payment", "held_per_address")
    }
    assert counts == {"key": 2, "payment": 2, "held_per_address": 1}


def one_limit(clock: TestClock) -> Limit:
    return Limit("key", 60, 6, clock, lambda: None)


def test_one_alone_may_owe_no_more_than_its_burst():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    told = limit.taken("a", START_US)
    # a call a second, of which nothing is counted for others
    assert (limit.kind, told.calls, told.ahead_us, told.most_us) == ("key", 0, 1_000_000, 6_000_000)


def test_there_may_be_nobody_who_wants_to_know_what_is_due():
    limit = one_limit(TestClock(START_US))
    limit.among(2)
    for _ in range(6):
        assert limit.check("a") is None
    assert [name for _, name in limit.untold()] == ["a"]
    assert limit.taken("a", START_US).most_us == 12_000_000


def test_what_is_given_back_is_not_told():
    limit = one_limit(TestClock(START_US))
    limit.among(2)
    for _ in range(3):
        limit.take("a")
    limit.give_back("a")
    assert limit.taken("a", START_US).calls == 2


def test_what_one_alone_gave_back_is_not_made_good_with_others():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    limit.give_back("a")
    limit.among(2)
    limit.take("a")
    assert limit.taken("a", START_US).calls == 1


def test_one_alone_learns_of_nobody():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    limit.told("a", 1, START_US + 600_000_000)
    assert limit.take("a").admitted
