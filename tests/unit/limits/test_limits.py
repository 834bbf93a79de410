"""Test combined limits: the tightest is reported, and no caller uses up another's limit."""

from __future__ import annotations

import inspect

import pytest
from florin_server.base.clock import TestClock
from florin_server.base.meters import Meters
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.limits.service.limit import RateLimit, RateQuota
from florin_server.limits.service.limits import ServiceLimits
from florin_server.settings import LimitSettings

from tests.support.open_responses import has_counted

START_US = 1_800_000_000_000_000


def limits(**chosen: int) -> ServiceLimits:
    return ServiceLimits(LimitSettings(**chosen), TestClock(START_US))


# a call, the parts it is counted by, and the setting for a burst of three and one in ten seconds
RATE = 6
COUNTED = [
    (lambda item, a: item.count_open_call(a), "address", 1),
    (lambda item, a, b: item.count_options(a, b), "options", 2),
    (lambda item, a, b: item.count_confirm(a, b, needs_chain=False), "payment", 2),
    (lambda item, a, _: item.count_confirm(a, "192.0.2.1", needs_chain=True), "payment_total", 1),
    (lambda item, a, b: item.count_signed_confirm(a, b), "payment", 2),
    (lambda item, a, b: item.count_cancel(a, b), "payment", 2),
    (lambda item, a, b: item.count_form(a, f"ipv4:192.0.2.{len(b)}:1"), "payment", 2),
    (lambda item, a: item.count_failure(f"ipv4:192.0.2.{len(a)}:1"), "failure", 1),
    (lambda item, a: item.count_idempotency_key(a), "guard", 1),
]


@pytest.mark.parametrize(("call", "setting", "parts"), COUNTED)
def test_a_call_is_counted_by_all_its_parts_and_comes_back_with_time(call, setting, parts):
    values = inspect.signature(call).parameters.keys() - {"item"}
    clock = TestClock(START_US)
    bounded = ServiceLimits(
        LimitSettings(**{f"{setting}_per_minute": RATE, f"{setting}_burst": 3}), clock
    )

    def wait_s(*what: str) -> int | None:
        """Return the seconds to wait, or None if the call was admitted."""
        try:
            call(bounded, *what[: len(values)])
        except ApiError as error:
            return error.retry_after_s if error.code is ErrorCode.RATE_LIMITED else -1
        return None

    assert [wait_s("a", "b") for _ in range(4)] == [None, None, None, 10]
    for other in (("aa", "b"), ("a", "bb"))[:parts]:
        assert wait_s(*other) is None
    clock.advance(9)
    assert wait_s("a", "b") == 1
    clock.advance(1)
    assert [wait_s("a", "b"), wait_s("a", "b")] == [None, 10]


def test_released_guard_key_is_not_counted():
    bounded = limits(guard_per_minute=RATE, guard_burst=1)
    bounded.count_idempotency_key("a")
    bounded.release_idempotency_key("a")
    bounded.count_idempotency_key("a")
    with pytest.raises(ApiError):
        bounded.count_idempotency_key("a")
    limits(guard_per_minute=0).release_idempotency_key("a")


@pytest.mark.parametrize(("call", "setting", "_"), COUNTED)
def test_a_rate_of_zero_is_no_limit(call, setting, _):
    values = inspect.signature(call).parameters.keys() - {"item"}
    unbounded = limits(**{f"{setting}_per_minute": 0, f"{setting}_burst": 1})
    for _ in range(5):
        call(unbounded, *["a", "b"][: len(values)])


def test_durable_nonces_are_bounded_by_payer_caller_and_partner_an_hour():
    clock = TestClock(START_US)
    bounds = {"payer": 2, "address": 3, "key": 4, "partner": 6}
    bounded = ServiceLimits(
        LimitSettings(**{f"nonce_{name}_per_hour": most for name, most in bounds.items()}), clock
    )

    def take(payer: str, origin: str = "192.0.2.1", partner: str = "par_1", *, is_key=False):
        return bounded.take_nonce(payer, origin, partner, is_key=is_key)

    assert [take("one") for _ in range(3)] == [True, True, False]
    # calls that the payer's limit refused count against no other limit
    assert [take("other"), take("third")] == [True, False]
    assert [take("fourth", "192.0.2.2") for _ in range(1)] == [True]
    # keys have many buyers; all payments of a partner have one limit together
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


def test_page_limit_returns_the_seconds_to_wait():
    clock = TestClock(START_US)
    bounded = ServiceLimits(LimitSettings(page_per_minute=RATE, page_burst=3), clock)
    mine, remaining = "ipv4:192.0.2.1:9", "ipv4:192.0.2.2:9"
    assert [bounded.count_page(mine) for _ in range(5)] == [0, 0, 0, 10, 10]
    assert bounded.count_page(remaining) == 0
    clock.advance(10)
    assert [bounded.count_page(mine), bounded.count_page(mine)] == [0, 10]
    assert {limits(page_per_minute=0).count_page(mine) for _ in range(1000)} == {0}


def test_key_quota_reports_the_calls_left():
    clock = TestClock(START_US)
    bounded = ServiceLimits(LimitSettings(key_per_minute=RATE, key_burst=2), clock)
    quotas = [bounded.count_key_call("key_1") for _ in range(3)]
    assert quotas == [
        RateQuota(RATE, remaining=1, wait_s=10, is_admitted=True),
        RateQuota(RATE, remaining=0, wait_s=10, is_admitted=True),
        RateQuota(RATE, remaining=0, wait_s=10, is_admitted=False),
    ]
    assert bounded.count_key_call("key_2").is_admitted
    assert limits(key_per_minute=0).count_key_call("key_1") is None


def test_disabled_limit_hides_no_other_limit():
    bounded = limits(address_per_minute=0, app_per_minute=RATE, app_burst=1)
    assert [bounded.count_client_call("app", "app/1", "x").is_admitted for _ in range(2)] == [
        True,
        False,
    ]
    free = limits(address_per_minute=0, app_per_minute=0, app_total_per_minute=0)
    assert free.count_client_call("app", "app/1", "x") is None


def test_limit_with_the_longer_wait_is_reported_at_equal_calls_left():
    slow, fast = 6, 60
    for address, app in ((slow, fast), (fast, slow)):
        bounded = limits(
            address_per_minute=address, address_burst=1, app_per_minute=app, app_burst=1
        )
        assert bounded.count_client_call("app", "app/1", "x") == RateQuota(
            slow, 0, 10, is_admitted=True
        )


def test_an_app_is_bounded_from_everywhere_together():
    taken = limits(app_total_per_minute=60, app_total_burst=5)
    quotas = [taken.count_client_call("app", f"app/{n}", f"192.0.2.{n}") for n in range(7)]
    assert [quota.is_admitted for quota in quotas] == [True] * 5 + [False] * 2
    assert [quota.remaining for quota in quotas] == [4, 3, 2, 1, 0, 0, 0]
    assert taken.count_client_call("other", "other/1", "192.0.2.1").is_admitted


def test_calls_refused_by_the_address_limit_do_not_use_the_app_total():
    taken = limits(
        app_total_per_minute=60, app_total_burst=5, address_per_minute=60, address_burst=2
    )
    for number in range(100):
        taken.count_client_call("app", f"app/{number}", "192.0.2.1")
    assert [taken.count_client_call("app", f"b/{n}", f"192.0.2.{n}").remaining for n in (2, 3)] == [
        1,
        1,
    ]


def test_foreign_client_id_uses_no_budget_of_its_owner():
    taken = limits(app_per_minute=60, app_burst=2)
    while taken.count_client_call("app", "app/victim", "192.0.2.1").is_admitted:
        pass
    assert taken.count_client_call("app", "app/victim", "192.0.2.2").is_admitted


def test_confirms_that_only_a_chain_can_judge_are_bounded_for_a_payment():
    taken = limits(payment_total_per_minute=60, payment_total_burst=5, payment_burst=2)

    def passes(origin: str, *, asks: bool) -> bool:
        try:
            taken.count_confirm("pay_1", origin, needs_chain=asks)
        except ApiError:
            return False
        return True

    origins = [f"192.0.2.{n}" for n in range(7)]
    assert [passes(origin, asks=True) for origin in origins] == [True] * 5 + [False] * 2
    assert passes("192.0.2.9", asks=False)
    # signers of an account have a separate limit
    taken.count_signed_confirm("pay_1", "eip155:1:0x1")
    taken.count_signed_confirm("pay_1", "eip155:1:0x1")
    with pytest.raises(ApiError):
        taken.count_signed_confirm("pay_1", "eip155:1:0x1")
    taken.count_signed_confirm("pay_1", "eip155:1:0x2")


def test_refused_stream_slot_is_not_retained():
    taken = limits(held_per_payment_total=1, held_per_payment_caller=4)
    release = taken.streams.hold_for_app("app", "app/1", "192.0.2.1", "pay_1")
    with pytest.raises(ApiError):
        taken.streams.hold_for_app("app", "app/2", "192.0.2.2", "pay_1")
    # a merchant's slots are separate, for each merchant
    merchant = taken.streams.hold_for_merchant("key", "mrch_1", "pay_1")
    release()
    merchant()
    assert not has_counted(taken.streams)


def test_processes_of_two_versions_know_each_limit_by_the_same_name():
    """A renamed limit would admit callers twice during an upgrade."""
    assert [limit.kind for limit in limits().rate_limits] == [
        *("key", "app", "address", "app_total", "options", "confirm", "signed", "payment_total"),
        *("transaction_request", "open_addresses", "claims", "cancel", "form", "failure", "page"),
        "guard",
        *("nonce_payer", "nonce_address", "nonce_key", "nonce_partner"),
    ]


def test_refusals_are_counted_by_their_setting():
    meters = Meters()
    chosen = LimitSettings(payment_burst=1, key_burst=1, held_per_address=1)
    taken = ServiceLimits(chosen, TestClock(START_US), meters)
    for _ in range(3):
        taken.count_key_call("key_1")
    taken.count_cancel("pay_1", "192.0.2.1")
    taken.count_form("ticket", "ipv4:192.0.2.1:1")
    taken.streams.hold_for_anonymous("192.0.2.1")
    for refused in (
        lambda: taken.count_cancel("pay_1", "192.0.2.1"),
        lambda: taken.count_form("ticket", "ipv4:192.0.2.1:1"),
        lambda: taken.streams.hold_for_anonymous("192.0.2.1"),
    ):
        with pytest.raises(ApiError):
            refused()
    get_sample_value = meters.registry.get_sample_value
    counts = {
        name: get_sample_value("florin_limit_refusals_total", {"limit": name})
        for name in ("key", "payment", "held_per_address")
    }
    assert counts == {"key": 2, "payment": 2, "held_per_address": 1}


def one_limit(clock: TestClock) -> RateLimit:
    return RateLimit("key", 60, 6, clock, lambda: None)


def test_single_process_owes_at_most_its_burst():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    report = limit.get_report("a", START_US)
    # one call per second; no calls are counted for other processes
    assert (limit.kind, report.calls, report.ahead_us, report.max_us) == (
        "key",
        0,
        1_000_000,
        6_000_000,
    )


def test_limit_without_an_exchange_still_lists_unpublished_calls():
    limit = one_limit(TestClock(START_US))
    limit.set_process_count(2)
    for _ in range(6):
        assert limit.check("a") is None
    assert [name for _, name in limit.list_unreported()] == ["a"]
    assert limit.get_report("a", START_US).max_us == 12_000_000


def test_returned_calls_are_not_published():
    limit = one_limit(TestClock(START_US))
    limit.set_process_count(2)
    for _ in range(3):
        limit.take("a")
    limit.release("a")
    assert limit.get_report("a", START_US).calls == 2


def test_call_returned_by_a_single_process_is_not_deducted_later():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    limit.release("a")
    limit.set_process_count(2)
    limit.take("a")
    assert limit.get_report("a", START_US).calls == 1


def test_single_process_ignores_usage_of_peers():
    limit = one_limit(TestClock(START_US))
    limit.take("a")
    limit.record_reported("a", 1, START_US + 600_000_000)
    assert limit.take("a").admitted
