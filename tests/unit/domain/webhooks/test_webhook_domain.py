"""Test webhooks: what endpoints receive, when a delivery is retried, and how it is signed."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from florin_client import webhooks
from florin_server.domain.payments.payment import (
    PaymentOption,
    PaymentStatus,
    Refund,
    RefundStatus,
)
from florin_server.domain.payments.state import CREATED_CAUSE
from florin_server.domain.webhooks import schedule, signing
from florin_server.domain.webhooks.endpoint import (
    DEPOSIT_TYPES,
    EVENT_TYPES,
    PAYMENT_TYPES,
    EndpointState,
    WebhookDelivery,
    WebhookEndpoint,
    find_event_type,
    get_refund_event_type,
)
from florin_server.domain.webhooks.signing import WebhookKeys
from florin_server.domain.webhooks.snapshot import (
    PaymentEvent,
    PaymentSettlement,
    find_fee_terms,
    refund_at,
    snapshot_at,
)
from standardwebhooks import Webhook

from tests.support.store_factories import LATER_US, make_payment

KEYS = WebhookKeys(bytes(range(32)), bytes(range(32, 64)))
BODY = b'{"type":"payment.succeeded"}'
NOW = 1_800_000_000


def signed(*keys, at=NOW, body=BODY, event="evt_1_0"):
    return signing.build_headers(keys or [KEYS], event, at, body)


def verified(headers, key=KEYS.secret, body=BODY, now=NOW, **options):
    return webhooks.verify(body, headers, key, now=lambda: now, **options)


def test_a_message_is_verified_by_its_secret_and_by_its_public_key():
    assert verified(signed()) == {"type": "payment.succeeded"}
    assert verified(signed(), KEYS.public_key) == {"type": "payment.succeeded"}
    assert verified({name.title(): text for name, text in signed().items()}) is not None
    assert verified(signed(), body=BODY.decode()) is not None


def test_standard_webhooks_library_produces_the_same_signature():
    (item,) = [text for text in signed()["webhook-signature"].split() if text.startswith("v1,")]
    at = datetime.fromtimestamp(NOW, tz=UTC)
    assert Webhook(KEYS.secret).sign("evt_1_0", at, BODY.decode()) == item


def test_an_old_secret_is_right_while_it_overlaps():
    new = WebhookKeys(b"n" * 32, b"m" * 32)
    both = signed(new, KEYS)
    assert verified(both) == verified(both, new.secret)
    with pytest.raises(webhooks.WebhookError, match="no signature"):
        verified(signed(new))


def family(headers, name):
    """Return only the headers of one family."""
    return {key: value for key, value in headers.items() if key.startswith(f"{name}-")}


def test_both_families_of_headers_have_equal_values_and_either_is_enough():
    headers = signed()
    assert len(headers) == 6
    values = [list(family(headers, name).values()) for name in ("webhook", "svix")]
    assert values[0] == values[1]
    for name in ("webhook", "svix"):
        assert verified(family(headers, name)) == {"type": "payment.succeeded"}
    # an incomplete family is never mixed with the other
    mixed = {**family(headers, "svix"), "webhook-id": "evt_9_9"}
    assert verified(mixed) == {"type": "payment.succeeded"}


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"payment.succeeded"'])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(webhooks.WebhookError, match="not a JSON object"):
        verified(signed(body=body), body=body)


@pytest.mark.parametrize("key", [KEYS.secret, KEYS.public_key])
@pytest.mark.parametrize("name", ["webhook", "svix"])
@pytest.mark.parametrize("part", ["id", "timestamp", "body", "signature"])
def test_any_change_of_a_signed_webhook_is_detected(part, key, name):
    headers, body = family(signed(), name), BODY
    if part == "body":
        body = BODY.replace(b"succeeded", b"cancelled")
    else:
        changed = {
            "id": "evt_2_0",
            "timestamp": str(NOW + 1),
            "signature": "v1,AAAA v1a,AAAA v1 v2,x v1,!",
        }
        headers = {**headers, f"{name}-{part}": changed[part]}
    with pytest.raises(webhooks.WebhookError, match="no signature is valid"):
        verified(headers, key, body)


def test_old_or_future_signature_is_refused():
    for at in (NOW - 301, NOW + 301):
        with pytest.raises(webhooks.WebhookError, match="too old"):
            verified(signed(at=at))
    assert verified(signed(at=NOW - 301), tolerance_s=400) is not None
    for at in ("soon", "-1", "٣", "9" * 400, ""):
        with pytest.raises(webhooks.WebhookError, match="the timestamp is invalid"):
            verified({**signed(), "webhook-timestamp": at})


@pytest.mark.parametrize("name", ["webhook-id", "webhook-timestamp", "webhook-signature"])
def test_a_missing_header_is_named(name):
    headers = family(signed(), "webhook")
    del headers[name]
    with pytest.raises(webhooks.WebhookError, match=name):
        verified(headers)


@pytest.mark.parametrize("key", ["whsec_", "whsec_!", "", "whpk_", "whpk_AAAA"])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(webhooks.WebhookError, match="the key is no"):
        verified(signed(), key)


def test_webhook_keys_are_drawn_and_round_trip_in_storage():
    drawn = iter([KEYS.shared, KEYS.seed])
    requests = []
    keys = WebhookKeys.generate(lambda count: requests.append(count) or next(drawn))
    assert (keys, requests) == (KEYS, [32, 32])
    assert WebhookKeys.from_bytes(KEYS.stored_bytes) == KEYS


def test_secrets_are_not_shown():
    assert "shared" not in repr(KEYS)
    assert "seed" not in repr(KEYS)


def test_event_id_has_no_dot_and_contains_the_version():
    assert signing.format_event_id("pay_A-b_1", 2) == "evt_A-b_1_2"


def test_every_reachable_status_has_an_event_type():
    assert find_event_type(CREATED_CAUSE, PaymentStatus.REQUIRES_ACTION) == "payment.created"
    assert find_event_type("confirm_refused", PaymentStatus.REQUIRES_ACTION) is None
    result = {find_event_type("clock", status) for status in PaymentStatus} - {None}
    refunds = {get_refund_event_type(status) for status in RefundStatus}
    deposits = {
        find_event_type(cause, PaymentStatus.PROCESSING)
        for cause in ("deposit_seen", "deposit_returned", "deposit_claimed")
    }
    assert deposits == set(DEPOSIT_TYPES)
    assert {*result, "payment.created", "payment.settled", *refunds, *deposits} == set(EVENT_TYPES)
    assert set(PAYMENT_TYPES) == set(EVENT_TYPES) - refunds - deposits


def test_endpoint_receives_its_subscribed_event_types():
    def endpoint(*events):
        active = EndpointState.ACTIVE
        return WebhookEndpoint(
            "whe_1", "prtn_1", None, False, "", frozenset(events), "", "", active, None, 0
        )

    assert all(endpoint().is_subscribed(text) for text in PAYMENT_TYPES)
    # a back end written for payments only receives no refunds
    assert not any(
        endpoint().is_subscribed(get_refund_event_type(status)) for status in RefundStatus
    )
    # only endpoints that name them receive events of deposits
    everything = set(EVENT_TYPES) - set(DEPOSIT_TYPES)
    for names in (("*",), ("refund.failed", "*")):
        assert {text for text in EVENT_TYPES if endpoint(*names).is_subscribed(text)} == everything
    assert all(endpoint("*", *DEPOSIT_TYPES).is_subscribed(text) for text in EVENT_TYPES)
    assert not endpoint(DEPOSIT_TYPES[0]).is_subscribed(DEPOSIT_TYPES[1])
    assert endpoint("payment.failed", "payment.created").is_subscribed("payment.failed")
    assert not endpoint("payment.created").is_subscribed("payment.failed")
    # a change without an event
    assert not endpoint().is_subscribed(None)
    assert not endpoint("payment.created").is_subscribed(None)


@pytest.mark.parametrize("status", RefundStatus)
def test_a_refund_reads_as_it_did_at_each_version(status):
    now = Refund("rfnd_1", "pay_1", "u", 5, None, RefundStatus.SUCCEEDED, "0x2", 1, 9, version=3)
    then = refund_at(now, 2, status, LATER_US, "0x1")
    over = status in {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    assert (then.version, then.status, then.tx_id) == (2, status, "0x1")
    assert then.completed_at_us == (LATER_US if over else None)
    assert (then.id, then.created_at_us) == (now.id, now.created_at_us)


def snapshots(row, *events, option=None):
    """Return the snapshot at each event: (position, type, status, other fields)."""
    history = [
        PaymentEvent(place, LATER_US + place, kind, status, **more)
        for place, kind, status, more in events
    ]
    return [snapshot_at(row, option, history, event) for event in history]


PAID = make_payment(
    status=PaymentStatus.SUCCEEDED,
    version=2,
    option_id="opt",
    payer="eip155:1:0x1",
    tx_id="0x2",
    option_unit="caip19/x",
    option_value=1_000,
)
CREATED_EVENT = (0, "payment.created", PaymentStatus.REQUIRES_ACTION, {})
PROCESSING_EVENT = (1, "payment.processing", PaymentStatus.PROCESSING, {})


def test_sections_are_set_from_the_event_on_that_reaches_them():
    back = Refund("rfnd_1", "pay_1", "caip19/x", 5, None, RefundStatus.PENDING, None, 1)
    paid = replace(back, status=RefundStatus.SUCCEEDED)
    settlement = PaymentSettlement(LATER_US + 4, "0x3", "caip19/x", 990)
    created, processing, succeeded, refunding, settled, refunded = snapshots(
        PAID,
        CREATED_EVENT,
        PROCESSING_EVENT,
        (2, "payment.succeeded", PaymentStatus.SUCCEEDED, {}),
        (3, "refund.pending", PaymentStatus.SUCCEEDED, {"refund": back}),
        (4, "payment.settled", PaymentStatus.SUCCEEDED, {"settlement": settlement}),
        (5, "refund.succeeded", PaymentStatus.SUCCEEDED, {"refund": paid}),
    )
    assert (created.processing_at_us, created.ended_at_us) == (None, None)
    assert (processing.processing_at_us, processing.ended_at_us) == (LATER_US + 1, None)
    assert (succeeded.processing_at_us, succeeded.ended_at_us) == (LATER_US + 1, LATER_US + 2)
    assert (succeeded.settlement, succeeded.refunds) == (None, ())
    assert (refunding.settlement, refunding.refunds) == (None, (back,))
    assert (settled.settlement, settled.refunds, settled.at_us) == (
        settlement,
        (back,),
        LATER_US + 4,
    )
    assert (refunded.settlement, refunded.refunds) == (settlement, (paid,))
    assert refunded.ended_at_us == LATER_US + 2


def test_held_payment_keeps_the_time_of_its_first_processing():
    *_, again = snapshots(
        PAID,
        CREATED_EVENT,
        PROCESSING_EVENT,
        (2, "payment.processing", PaymentStatus.PROCESSING, {}),
    )
    assert again.processing_at_us == LATER_US + 1


def test_a_simulated_success_is_processing_since_it_succeeded():
    *_, succeeded = snapshots(
        PAID, CREATED_EVENT, (1, "payment.succeeded", PaymentStatus.SUCCEEDED, {})
    )
    assert succeeded.processing_at_us == succeeded.ended_at_us == LATER_US + 1
    *_, failed = snapshots(PAID, CREATED_EVENT, (1, "payment.failed", PaymentStatus.FAILED, {}))
    assert (failed.processing_at_us, failed.ended_at_us) == (None, LATER_US + 1)


def test_an_event_without_a_type_has_no_snapshot():
    with pytest.raises(ValueError, match="is not sent"):
        snapshots(PAID, (1, None, PaymentStatus.REQUIRES_ACTION, {}))


@pytest.mark.parametrize(
    ("fee", "fixed", "basis_points", "parts"),
    [
        (0, 0, 0, None),
        (11, 3, 75, (3, 8, 11)),
        (3, 3, 0, (3, 0, 3)),
        # a fee never exceeds what is paid
        (1_000, 2_000, 75, (1_000, 0, 1_000)),
    ],
)
def test_a_fee_is_the_sum_of_its_parts(fee, fixed, basis_points, parts):
    option = PaymentOption(
        "opt", "pay_1", "a", "a", "c", "x", 1_000, 1, None, "m", (), {}, 1,
        fee=fee, fee_fixed=fixed, fee_basis_points=basis_points,
    )  # fmt: skip
    terms = find_fee_terms(option)
    assert (terms and (terms.base, terms.percent, terms.total)) == parts
    (snapshot,) = snapshots(PAID, PROCESSING_EVENT, option=option)
    assert snapshot.net_value == 1_000 - fee
    assert terms is None or terms.fraction == (basis_points, 10_000)
    assert find_fee_terms(None) is None


def test_attempts_come_more_and_more_seldom_and_not_all_at_once():
    waits = [schedule.get_retry_delay_us(n, "pay_1") for n in range(1, 20)]
    assert waits[0] < 6_000_000
    # delays are stored as integers
    assert {type(wait) for wait in waits} == {int}
    assert waits[:10] == sorted(waits[:10])
    assert max(waits) < schedule.DELAY_MAX_US
    assert len({schedule.get_retry_delay_us(3, f"pay_{n}") for n in range(100)}) > 50
    # between half a minute and two minutes; a checksum chooses the part
    assert zlib.crc32(b"pay_1:2") % 1000 == 662
    assert schedule.get_retry_delay_us(2, "pay_1") == 30_000_000 + 662 * 3_000
    assert zlib.crc32(b"pay_1:3") % 1000 == 680
    assert schedule.get_retry_delay_us(3, "pay_1") == 120_000_000 + 680 * 12_000


def test_an_endpoint_rests_longer_the_longer_it_fails():
    rests = [schedule.get_pause_us(n) for n in range(30)]
    assert rests[: schedule.FAILING_AFTER] == [0] * schedule.FAILING_AFTER
    longer = [seconds * 1_000_000 for seconds in (5, 15, 60, 300, 900)]
    assert rests[schedule.FAILING_AFTER :] == longer + [900_000_000] * 20


HALF_DAY_US = 43_200_000_000
AN_HOUR_AHEAD = timezone(timedelta(hours=1))


@pytest.mark.parametrize(
    ("text", "wait_us"),
    [
        ("120", 120_000_000),
        (" 7 ", 7_000_000),
        ("0", 0),
        ("43201", HALF_DAY_US),
        ("999999999999999999999999", HALF_DAY_US),
        (format_datetime(datetime.fromtimestamp(NOW + 90, UTC), usegmt=True), 90_000_000),
        (format_datetime(datetime.fromtimestamp(NOW - 90, UTC), usegmt=True), 0),
        (format_datetime(datetime.fromtimestamp(NOW + 90, AN_HOUR_AHEAD)), 90_000_000),
        ("Sun, 06 Nov 2094 08:49:37 -0000", HALF_DAY_US),
        # longer than any date
        ("Sun, 06 Nov 2094 08:49:37 GMT (" + "x" * 8 + ")", HALF_DAY_US),
        ("Sun, 06 Nov 2094 08:49:37 GMT (" + "x" * 9 + ")", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT" + " " * 100 + "x", 0),
        *((text, 0) for text in ("", "-5", "1.5", "soon", "٣", "1e9", "Sun, 99 Foo 2094 99:99:99")),
    ],
)
def test_retry_after_is_parsed_within_bounds(text, wait_us):
    assert schedule.parse_retry_after_us(text, NOW) == wait_us


@pytest.fixture
def far_from_greenwich(monkeypatch):
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("far_from_greenwich")
def test_a_date_without_a_zone_is_not_the_machines():
    at = datetime.fromtimestamp(NOW + 90, UTC).replace(tzinfo=None)
    assert format_datetime(at).endswith(" -0000")
    assert schedule.parse_retry_after_us(format_datetime(at), NOW) == 90_000_000


def test_invalid_retry_after_requests_no_wait():
    assert schedule.parse_retry_after_us("soon", 0.0) == 0


def test_requested_pause_is_at_most_the_pause_of_a_failing_endpoint():
    assert schedule.get_pause_us(1, 60_000_000) == 60_000_000
    assert schedule.get_pause_us(1, HALF_DAY_US) == schedule.get_pause_us(30) == 900_000_000
    assert schedule.get_pause_us(30, 1) == 900_000_000


def test_replay_may_be_limited_to_event_types():
    waiting = WebhookDelivery(
        "whe", "pay", -1, 5, 0, 0, 0, False, 0, 3, frozenset({"payment.failed"})
    )
    assert waiting.includes_event(3, "payment.failed")
    assert not waiting.includes_event(3, "payment.created")
    assert waiting.includes_event(4, "payment.created")
