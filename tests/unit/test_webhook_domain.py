"""What endpoints are told, when it is tried again, and what it is signed with."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from florin_client import webhooks
from florin_server.domain.payments.payment import CancelledReason, FailureCode, Status
from florin_server.domain.payments.state import CREATED
from florin_server.domain.webhooks import schedule, signing
from florin_server.domain.webhooks.endpoint import EVENT_TYPES, type_of
from florin_server.domain.webhooks.past import as_of
from florin_server.domain.webhooks.signing import Keys
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


@pytest.mark.parametrize("key", [KEYS.secret, KEYS.public_key])
@pytest.mark.parametrize("part", ["webhook-id", "webhook-timestamp", "body", "webhook-signature"])
def test_whatever_is_changed_is_noticed(part, key):
    headers, body = signed(), BODY
    if part == "body":
        body = BODY.replace(b"succeeded", b"cancelled")
    else:
        changed = {
            "webhook-id": "evt_2_0",
            "webhook-timestamp": str(NOW + 1),
            "webhook-signature": "v1,AAAA v1a,AAAA v1 v2,x v1,!",
        }
        headers = {**headers, part: changed[part]}
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
    headers = signed()
    del headers[name]
    with pytest.raises(webhooks.WebhookError, match=name):
        verified(headers)


@pytest.mark.parametrize("key", ["whsec_", "whsec_!", "", "whpk_", "whpk_AAAA"])
def test_a_key_that_is_none_is_refused(key):
    with pytest.raises(webhooks.WebhookError, match="the key is no"):
        verified(signed(), key)


def test_secrets_are_not_shown():
    assert "shared" not in repr(KEYS)
    assert "seed" not in repr(KEYS)


def test_ids_have_no_dot_and_tell_versions_apart():
    assert signing.event_id("pay_A-b_1", 2) == "evt_A-b_1_2"


def test_every_status_that_can_be_come_to_is_told():
    assert type_of(CREATED, Status.REQUIRES_ACTION) == "payment.created"
    assert type_of("confirm_refused", Status.REQUIRES_ACTION) is None
    told = {type_of("clock", status) for status in Status} - {None}
    assert {*told, "payment.created"} == set(EVENT_TYPES)


def test_a_payment_reads_as_it_did_at_each_version():
    now = payment(
        status=Status.SUCCEEDED,
        version=2,
        updated_at_us=LATER_US,
        option_id="opt",
        payer="eip155:1:0x1",
        tx_id="0x2",
        option_unit="caip19/x",
        option_value=1,
        settled_value=1,
    )
    assert as_of(now, 2, Status.SUCCEEDED, LATER_US) is now
    processing = as_of(now, 1, Status.PROCESSING, 5)
    assert (processing.tx_id, processing.settled_value, processing.payer) == (None, None, now.payer)
    assert (processing.version, processing.updated_at_us) == (1, 5)
    created = as_of(now, 0, Status.REQUIRES_ACTION, 4)
    assert (created.payer, created.option_unit) == (None, None)
    failed = payment(status=Status.FAILED, version=1, failure_code=FailureCode.DECLINED_USER)
    assert as_of(failed, 0, Status.REQUIRES_ACTION, 4).failure_code is None
    off = payment(status=Status.CANCELLED, version=1, cancelled_reason=CancelledReason.BY_MERCHANT)
    assert as_of(off, 0, Status.REQUIRES_ACTION, 4).cancelled_reason is None


def test_attempts_come_more_and_more_seldom_and_not_all_at_once():
    waits = [schedule.retry_after_us(n, "pay_1") for n in range(1, 20)]
    assert waits[0] < 6_000_000
    assert waits[:10] == sorted(waits[:10])
    assert max(waits) < schedule.LONGEST_US
    assert len({schedule.retry_after_us(3, f"pay_{n}") for n in range(100)}) > 50
    assert schedule.retry_after_us(3, "pay_1") == schedule.retry_after_us(3, "pay_1")


def test_an_endpoint_rests_longer_the_longer_it_fails():
    rests = [schedule.rest_us(n) for n in range(30)]
    assert rests[: schedule.FAILING] == [0] * schedule.FAILING
    assert rests == sorted(rests)
    assert rests[-1] == 900_000_000
