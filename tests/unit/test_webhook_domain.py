"""What endpoints are told, when it is tried again, and what it is signed with."""

from __future__ import annotations

import time
import zlib
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from florin_client import webhooks
from florin_server.domain.payments.payment import (
    Option,
    Refund,
    RefundStatus,
    Status,
)
from florin_server.domain.payments.state import CREATED
from florin_server.domain.webhooks import schedule, signing
from florin_server.domain.webhooks.endpoint import (
    EVENT_TYPES,
    PAYMENT_TYPES,
    Endpoint,
    EndpointState,
    Waiting,
    type_of,
    type_of_refund,
)
from florin_server.domain.webhooks.signing import Keys
from florin_server.domain.webhooks.snapshot import (
    PaymentEvent,
    PaymentSettlement,
    fee_terms,
    refund_as_of,
    snapshot_at,
)
from standardwebhooks import Webhook

from tests.support.store_kit import LATER_US, payment

KEYS = Keys(bytes(range(32)), bytes(range(32, 64)))
BODY = b'{"type":"payment.succeeded"}'
NOW = 1_800_000_000


def signed(*keys, at=NOW, body=BODY, event="evt_1_0"):
    return signing.headers(keys or [KEYS], event, at, body)


def verified(headers, key=KEYS.secret, body=BODY, now=NOW, **options):
    return webhooks.verify(body, headers, key, now=lambda: now, **options)


def test_a_message_is_verified_by_its_secret_and_by_its_public_key():
    assert verified(signed()) == {"type": "payment.succeeded"}
    assert verified(signed(), KEYS.public_key) == {"type": "payment.succeeded"}
    assert verified({name.title(): text for name, text in signed().items()}) is not None
    assert verified(signed(), body=BODY.decode()) is not None


def test_a_library_of_others_signs_the_same():
    (one,) = [text for text in signed()["webhook-signature"].split() if text.startswith("v1,")]
    at = datetime.fromtimestamp(NOW, tz=UTC)
    assert Webhook(KEYS.secret).sign("evt_1_0", at, BODY.decode()) == one


def test_an_old_secret_is_right_while_it_overlaps():
    new = Keys(b"n" * 32, b"m" * 32)
    both = signed(new, KEYS)
    assert verified(both) == verified(both, new.secret)
    with pytest.raises(webhooks.WebhookError, match="no signature"):
        verified(signed(new))


def family(headers, name):
    """The headers of one family alone."""
    return {key: value for key, value in headers.items() if key.startswith(f"{name}-")}


def test_both_families_of_headers_have_equal_values_and_either_is_enough():
    headers = signed()
    assert len(headers) == 6
    values = [list(family(headers, name).values()) for name in ("webhook", "svix")]
    assert values[0] == values[1]
    for name in ("webhook", "svix"):
        assert verified(family(headers, name)) == {"type": "payment.succeeded"}
    # a family that is not complete is not mixed with the other
    mixed = {**family(headers, "svix"), "webhook-id": "evt_9_9"}
    assert verified(mixed) == {"type": "payment.succeeded"}


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"payment.succeeded"'])
def test_a_body_that_is_no_object_is_refused(body):
    with pytest.raises(webhooks.WebhookError, match="no JSON object"):
        verified(signed(body=body), body=body)


@pytest.mark.parametrize("key", [KEYS.secret, KEYS.public_key])
@pytest.mark.parametrize("name", ["webhook", "svix"])
@pytest.mark.parametrize("part", ["id", "timestamp", "body", "signature"])
def test_whatever_is_changed_is_noticed(part, key, name):
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
    with pytest.raises(webhooks.WebhookError, match="no signature is right"):
        verified(headers, key, body)


def test_what_was_signed_long_ago_is_refused_and_so_is_the_future():
    for at in (NOW - 301, NOW + 301):
        with pytest.raises(webhooks.WebhookError, match="too long ago"):
            verified(signed(at=at))
    assert verified(signed(at=NOW - 301), tolerance_s=400) is not None
    for at in ("soon", "-1", "٣", "9" * 400, ""):
        with pytest.raises(webhooks.WebhookError, match="no time"):
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


def test_keys_are_drawn_and_come_back_as_they_were_kept():
    drawn = iter([KEYS.shared, KEYS.seed])
    asked = []
    made = Keys.new(lambda count: asked.append(count) or next(drawn))
    assert (made, asked) == (KEYS, [32, 32])
    assert Keys.of(KEYS.kept) == KEYS


def test_secrets_are_not_shown():
    assert "shared" not in repr(KEYS)
    assert "seed" not in repr(KEYS)


def test_ids_have_no_dot_and_tell_versions_apart():
    assert signing.event_id("pay_A-b_1", 2) == "evt_A-b_1_2"


def test_every_status_that_can_be_come_to_is_told():
    assert type_of(CREATED, Status.REQUIRES_ACTION) == "payment.created"
    assert type_of("confirm_refused", Status.REQUIRES_ACTION) is None
    told = {type_of("clock", status) for status in Status} - {None}
    refunds = {type_of_refund(status) for status in RefundStatus}
    assert {*told, "payment.created", "payment.settled", *refunds} == set(EVENT_TYPES)
    assert set(PAYMENT_TYPES) == set(EVENT_TYPES) - refunds


def test_an_endpoint_hears_what_it_wants():
    def endpoint(*events):
        active = EndpointState.ACTIVE
        return Endpoint(
            "whe_1", "prtn_1", None, False, "", frozenset(events), "", "", active, None, 0
        )

    assert all(endpoint().wants(one) for one in PAYMENT_TYPES)
    # a back end that was written for payments alone receives no refunds
    assert not any(endpoint().wants(type_of_refund(status)) for status in RefundStatus)
    assert all(endpoint("*").wants(one) for one in EVENT_TYPES)
    assert all(endpoint("refund.failed", "*").wants(one) for one in EVENT_TYPES)
    assert endpoint("payment.failed", "payment.created").wants("payment.failed")
    assert not endpoint("payment.created").wants("payment.failed")
    # a change that is told to nobody
    assert not endpoint().wants(None)
    assert not endpoint("payment.created").wants(None)


@pytest.mark.parametrize("status", RefundStatus)
def test_a_refund_reads_as_it_did_at_each_version(status):
    now = Refund("rfnd_1", "pay_1", "u", 5, None, RefundStatus.SUCCEEDED, "0x2", 1, 9, version=3)
    then = refund_as_of(now, 2, status, LATER_US, "0x1")
    over = status in {RefundStatus.SUCCEEDED, RefundStatus.FAILED}
    assert (then.version, then.status, then.tx_id) == (2, status, "0x1")
    assert then.completed_at_us == (LATER_US if over else None)
    assert (then.id, then.created_at_us) == (now.id, now.created_at_us)


def snapshots(row, *events, option=None):
    """The snapshot at each event: (place, type, status, other fields)."""
    history = [
        PaymentEvent(place, LATER_US + place, kind, status, **more)
        for place, kind, status, more in events
    ]
    return [snapshot_at(row, option, history, event) for event in history]


PAID = payment(
    status=Status.SUCCEEDED,
    version=2,
    option_id="opt",
    payer="eip155:1:0x1",
    tx_id="0x2",
    option_unit="caip19/x",
    option_value=1_000,
)
CREATED_EVENT = (0, "payment.created", Status.REQUIRES_ACTION, {})
PROCESSING_EVENT = (1, "payment.processing", Status.PROCESSING, {})


def test_sections_are_set_from_the_event_on_that_reaches_them():
    back = Refund("rfnd_1", "pay_1", "caip19/x", 5, None, RefundStatus.PENDING, None, 1)
    paid = replace(back, status=RefundStatus.SUCCEEDED)
    settlement = PaymentSettlement(LATER_US + 4, "0x3", "caip19/x", 990)
    created, processing, succeeded, refunding, settled, refunded = snapshots(
        PAID,
        CREATED_EVENT,
        PROCESSING_EVENT,
        (2, "payment.succeeded", Status.SUCCEEDED, {}),
        (3, "refund.pending", Status.SUCCEEDED, {"refund": back}),
        (4, "payment.settled", Status.SUCCEEDED, {"settlement": settlement}),
        (5, "refund.succeeded", Status.SUCCEEDED, {"refund": paid}),
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


def test_what_was_held_is_processing_since_the_buyer_committed():
    *_, again = snapshots(
        PAID, CREATED_EVENT, PROCESSING_EVENT, (2, "payment.processing", Status.PROCESSING, {})
    )
    assert again.processing_at_us == LATER_US + 1


def test_a_simulated_success_is_processing_since_it_succeeded():
    *_, succeeded = snapshots(PAID, CREATED_EVENT, (1, "payment.succeeded", Status.SUCCEEDED, {}))
    assert succeeded.processing_at_us == succeeded.ended_at_us == LATER_US + 1
    *_, failed = snapshots(PAID, CREATED_EVENT, (1, "payment.failed", Status.FAILED, {}))
    assert (failed.processing_at_us, failed.ended_at_us) == (None, LATER_US + 1)


def test_an_event_without_a_type_has_no_snapshot():
    with pytest.raises(ValueError, match="is not sent"):
        snapshots(PAID, (1, None, Status.REQUIRES_ACTION, {}))


@pytest.mark.parametrize(
    ("fee", "fixed", "basis_points", "parts"),
    [
        (0, 0, 0, None),
        (11, 3, 75, (3, 8, 11)),
        (3, 3, 0, (3, 0, 3)),
        # no fee is more than what is paid
        (1_000, 2_000, 75, (1_000, 0, 1_000)),
    ],
)
def test_a_fee_is_the_sum_of_its_parts(fee, fixed, basis_points, parts):
    option = Option(
        "opt", "pay_1", "a", "a", "c", "x", 1_000, 1, None, "m", (), {}, 1,
        fee=fee, fee_fixed=fixed, fee_basis_points=basis_points,
    )  # fmt: skip
    terms = fee_terms(option)
    assert (terms and (terms.base, terms.percent, terms.total)) == parts
    (snapshot,) = snapshots(PAID, PROCESSING_EVENT, option=option)
    assert snapshot.net_value == 1_000 - fee
    assert terms is None or terms.fraction == (basis_points, 10_000)
    assert fee_terms(None) is None


def test_attempts_come_more_and_more_seldom_and_not_all_at_once():
    waits = [schedule.retry_after_us(n, "pay_1") for n in range(1, 20)]
    assert waits[0] < 6_000_000
    # what is stored
    assert {type(one) for one in waits} == {int}
    assert waits[:10] == sorted(waits[:10])
    assert max(waits) < schedule.LONGEST_US
    assert len({schedule.retry_after_us(3, f"pay_{n}") for n in range(100)}) > 50
    # half a minute or two, and of each the part that a checksum says
    assert zlib.crc32(b"pay_1:2") % 1000 == 662
    assert schedule.retry_after_us(2, "pay_1") == 30_000_000 + 662 * 3_000
    assert zlib.crc32(b"pay_1:3") % 1000 == 680
    assert schedule.retry_after_us(3, "pay_1") == 120_000_000 + 680 * 12_000


def test_an_endpoint_rests_longer_the_longer_it_fails():
    rests = [schedule.rest_us(n) for n in range(30)]
    assert rests[: schedule.FAILING] == [0] * schedule.FAILING
    longer = [seconds * 1_000_000 for seconds in (5, 15, 60, 300, 900)]
    assert rests[schedule.FAILING :] == longer + [900_000_000] * 20


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
        # longer than any date is written
        ("Sun, 06 Nov 2094 08:49:37 GMT (" + "x" * 8 + ")", HALF_DAY_US),
        ("Sun, 06 Nov 2094 08:49:37 GMT (" + "x" * 9 + ")", 0),
        ("Sun, 06 Nov 1994 08:49:37 GMT" + " " * 100 + "x", 0),
        *((text, 0) for text in ("", "-5", "1.5", "soon", "٣", "1e9", "Sun, 99 Foo 2094 99:99:99")),
    ],
)
def test_who_asks_to_wait_is_waited_for_within_bounds(text, wait_us):
    assert schedule.asked_us(text, NOW) == wait_us


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
    assert schedule.asked_us(format_datetime(at), NOW) == 90_000_000


def test_what_is_no_time_asks_for_no_wait_at_any_time():
    assert schedule.asked_us("soon", 0.0) == 0


def test_an_endpoint_that_asks_for_it_rests_for_no_longer_than_one_that_fails():
    assert schedule.rest_us(1, 60_000_000) == 60_000_000
    assert schedule.rest_us(1, HALF_DAY_US) == schedule.rest_us(30) == 900_000_000
    assert schedule.rest_us(30, 1) == 900_000_000


def test_what_is_told_again_may_be_of_some_types():
    waiting = Waiting("whe", "pay", -1, 5, 0, 0, 0, False, 0, 3, frozenset({"payment.failed"}))
    assert waiting.wants(3, "payment.failed")
    assert not waiting.wants(3, "payment.created")
    assert waiting.wants(4, "payment.created")
