"""A merchant's back end hears of every change, without holding a connection."""

from __future__ import annotations

import socket

import pytest
import pytest_asyncio
from florin_server.store.webhooks import replays
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.answering import answering, answers, endless, never
from tests.support.api import Refused
from tests.support.desk import opened
from tests.support.documents import blocks
from tests.support.javascript import serving
from tests.support.receiver import OK, Receiver, verify_public
from tests.support.until import until
from tests.support.webhook_shop import PATH, Shop

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    webhooks = {"networks": ["127.0.0.0/8"], "timeout_s": 1, "endpoints_max": 100}
    async with opened(home, webhooks=webhooks) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk):
    """A tenant of its own, with a back end."""
    tenant = await desk.tenant()
    async with answering(OK) as server:
        receiver = Receiver(server)
        server.say = receiver
        yield Shop(desk, tenant, receiver)


async def test_every_change_is_sent_with_a_snapshot(shop):
    made = await shop.endpoint(description="orders")
    payment_id = await shop.pay()
    for outcome in ("stall", "succeeded"):
        await shop.simulate(payment_id, outcome)
    events = await shop.receiver.came(3)
    assert [one["type"] for one in events] == [
        "payment.created",
        "payment.processing",
        "payment.succeeded",
    ]
    assert [one["id"] for one in events] == [f"evt_{payment_id[4:]}_{n}" for n in range(3)]
    assert {one["api_version"] for one in events} == {"2026-05-18"}
    assert [one["data"]["payment_state_version"] for one in events] == [0, 1, 2]
    now = await shop.detail(payment_id)
    assert events[0]["created_at"] == now["createdAt"]
    assert events[2]["created_at"] == now["lastUpdatedAt"]
    assert made["endpoint"]["apiVersion"] == "2026-05-18"
    request = shop.receiver.server.came[0]
    verify_public(request, made["endpoint"]["publicKeys"][0])
    for name in ("id", "timestamp", "signature"):
        assert request.headers[f"svix-{name}"] == request.headers[f"webhook-{name}"]

    async def taken():
        found = await shop.attempts(made["endpoint"]["id"])
        return found if len(found) == 3 else None

    assert [
        (one["version"], one["httpStatus"], one["succeeded"]) for one in await until(taken)
    ] == [
        (2, 204, True),
        (1, 204, True),
        (0, 204, True),
    ]


@pytest.mark.parametrize("outcome", ["failed", "expired", "cancelled"])
async def test_every_end_is_sent_and_what_came_before_it_as_it_was(shop, outcome):
    """An endpoint that was away receives each version as it was, when it is back."""
    made = await shop.endpoint()
    shop.receiver.say = answers(500)
    payment_id = await shop.pay()
    await shop.simulate(payment_id, outcome)
    await shop.failed(made["endpoint"]["id"])
    shop.receiver.say = OK
    shop.receiver.server.came.clear()
    shop.desk.clock.advance(6)
    created, ended = await shop.receiver.came(2)
    assert [created["type"], ended["type"]] == ["payment.created", f"payment.{outcome}"]
    assert (created["data"]["status"], created["data"]["is_final"]) == ("requires_action", False)
    assert created["data"][outcome] is None
    assert (ended["data"]["status"], ended["data"]["is_final"]) == (outcome, True)
    assert ended["data"][outcome][f"{outcome}_at"] == ended["created_at"]


async def test_refunds_are_sent_to_endpoints_that_ask_for_them(shop):
    everything = await shop.endpoint("/all", events=["*"])
    by_default = await shop.endpoint("/default")
    payment_id = await shop.pay("succeeded")
    await shop.refund(payment_id)
    events = await shop.receiver.came(3, "/all", everything["secret"])
    assert [one["type"] for one in events][2:] == ["refund.succeeded"]
    other = await shop.pay()
    events = await shop.receiver.came(3, "/default", by_default["secret"])
    assert [one["type"] for one in events if one["data"]["payment_id"] == payment_id] == [
        "payment.created",
        "payment.succeeded",
    ]
    assert events[-1]["data"]["payment_id"] == other


async def test_endpoints_hear_of_their_own_merchant_or_of_all_of_the_partner(shop):
    other = await shop.desk.merchant(shop.tenant)
    stranger = await shop.desk.tenant()
    ours = shop.tenant.merchant.id
    of_one = await shop.endpoint("/one", merchantId=ours)
    of_other = await shop.endpoint("/other", merchantId=other.id)
    of_all = await shop.endpoint("/all")
    their_key = {"Api-Key": stranger.headers["Api-Key"]}
    body = {"url": shop.receiver.url("/theirs")}
    theirs = await shop.desk.rest.call("POST", PATH, their_key, body)
    payment_id = await shop.pay()
    await shop.receiver.came(1, "/one", of_one["secret"])
    await shop.receiver.came(1, "/all", of_all["secret"])
    assert shop.receiver.events("/other", of_other["secret"]) == []
    assert shop.receiver.events("/theirs", theirs["secret"]) == []
    # nor can a stranger see, change, replay or delete what is not its own
    strange = theirs["endpoint"]["id"]
    for method, path, sent in (
        ("GET", "", None),
        ("PATCH", "", {"paused": True}),
        ("DELETE", "", None),
        ("POST", "/rotate", {}),
        ("GET", "/attempts", None),
        ("POST", "/replay", {"paymentId": payment_id}),
        ("POST", "/replay-since", {"since": "2020-01-01T00:00:00Z"}),
        ("POST", "/take", {}),
    ):
        with pytest.raises(Refused) as refused:
            await shop.call(method, f"/{strange}{path}", sent)
        assert (refused.value.http, refused.value.details) == (
            404,
            {"reason": "webhook_not_found"},
        ), path
    with pytest.raises(Refused) as refused:
        await shop.desk.rest.call(
            "POST", f"{PATH}/{strange}/replay", their_key, {"paymentId": payment_id}
        )
    assert refused.value.code == "payment_not_found"
    with pytest.raises(Refused) as refused:
        await shop.endpoint("/x", merchantId=stranger.merchant.id)
    assert refused.value.code == "merchant_not_found"


async def test_a_secret_is_told_once_and_rotated_with_an_overlap(shop):
    made = await shop.endpoint()
    endpoint_id = made["endpoint"]["id"]
    assert made["secret"].startswith("whsec_")
    shown = await shop.call("GET", f"/{endpoint_id}")
    assert "secret" not in shown
    assert made["secret"] not in str(await shop.call("GET", ""))
    rotated = await shop.call("POST", f"/{endpoint_id}/rotate", {"overlapSeconds": 60})
    assert rotated["secret"] != made["secret"]
    await shop.pay()
    # both receivers, that with the old secret and that with the new one, take it
    assert await shop.receiver.came(1, secret=made["secret"])
    assert await shop.receiver.came(1, secret=rotated["secret"])
    shop.desk.clock.advance(61)
    shop.receiver.server.came.clear()
    await shop.pay()
    await shop.receiver.came(1, secret=rotated["secret"])
    request = shop.receiver.server.came[0]
    with pytest.raises(WebhookVerificationError):
        Webhook(made["secret"]).verify(request.body, dict(request.headers))
    on_disk = str(shop.desk.select("SELECT * FROM webhook_secret"))
    assert rotated["secret"].removeprefix("whsec_") not in on_disk


async def test_a_url_has_one_endpoint_and_the_refusal_says_what_to_do(shop):
    made = await shop.endpoint()
    with pytest.raises(Refused) as refused:
        await shop.endpoint()
    assert (refused.value.http, refused.value.details["reason"]) == (409, "webhook_url_taken")
    assert made["endpoint"]["id"] in refused.value.message
    other = await shop.endpoint("/second")
    with pytest.raises(Refused) as refused:
        await shop.call("PATCH", f"/{other['endpoint']['id']}", {"url": shop.receiver.url()})
    assert refused.value.http == 409


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "https://u:p@a.example/", "shop.example/hook", "https://a b/", "x",
     "https://xn--a.example/", "https://127.1/", "https://\u202ea.example/"],
)  # fmt: skip
async def test_what_is_no_https_url_is_refused(shop, url):
    with pytest.raises(Refused) as refused:
        await shop.call("POST", "", {"url": url})
    assert (refused.value.code, refused.value.issues[0]["field"]) == ("params_validation", "url")


async def test_an_event_that_is_none_is_refused(shop):
    with pytest.raises(Refused) as refused:
        await shop.endpoint(events=["payment.lost"])
    assert "payment.lost is none of payment.created" in refused.value.message


@pytest.mark.parametrize(
    ("say", "status", "told"),
    [
        (never, None, "timeout"),
        *(
            (answers(status, location="http://127.0.0.1:1/new"), status, "http://127.0.0.1:1/new")
            for status in (301, 302, 303, 307, 308)
        ),
        (answers(308), 308, "redirects are not followed"),
        (answers(308, location="x\x9b\u202e" + "y" * 300), 308, f"x\ufffd\ufffd{'y' * 180}"),
        (answers(500, b"our database is down"), 500, None),
        (answers(404), 404, None),
    ],
)
async def test_each_bad_answer_is_told_and_the_event_comes_again(shop, say, status, told):
    made = await shop.endpoint()
    shop.receiver.say = say
    payment_id = await shop.pay()
    (attempt,) = await shop.failed(made["endpoint"]["id"])
    assert attempt["httpStatus"] == status
    assert told is None or told in attempt["error"]
    if status == 500:
        assert attempt["answer"] == "our database is down"
    shop.receiver.say = OK
    shop.receiver.server.came.clear()
    shop.desk.clock.advance(6)
    (event,) = await shop.receiver.came(1)
    assert event["data"]["payment_id"] == payment_id


async def test_an_answer_of_megabytes_counts_by_its_status_and_is_kept_in_part(shop):
    made = await shop.endpoint()
    shop.receiver.say = endless
    await shop.pay()

    async def taken():
        return await shop.attempts(made["endpoint"]["id"])

    (attempt,) = await until(taken)
    assert attempt["succeeded"]
    assert attempt["answer"] == "x" * 1000


async def test_nobody_there_and_an_address_that_is_not_public_are_told(shop):
    inside = await shop.call("POST", "", {"url": "https://10.1.2.3/hook"})
    nobody = await shop.call("POST", "", {"url": "http://127.0.0.1:9/hook"})
    await shop.pay()
    (attempt,) = await shop.failed(inside["endpoint"]["id"])
    assert attempt["error"].startswith("address_not_allowed: the host has no public address")
    (attempt,) = await shop.failed(nobody["endpoint"]["id"])
    assert attempt["error"] == "connection_failed: the connection was refused"


async def test_an_endpoint_that_is_gone_is_paused_and_goes_on_when_it_is_resumed(shop):
    made = await shop.endpoint()
    endpoint_id = made["endpoint"]["id"]
    shop.receiver.say = answers(410)
    payment_id = await shop.pay("succeeded")
    await shop.failed(endpoint_id)
    shown = await shop.call("GET", f"/{endpoint_id}")
    assert (shown["status"], shown["pausedReason"]) == ("paused", "it answered 410: it is gone")
    shop.receiver.say = OK
    shop.receiver.server.came.clear()
    shown = await shop.call("PATCH", f"/{endpoint_id}", {"paused": False})
    assert (shown["status"], shown["pausedReason"]) == ("active", None)
    events = await shop.receiver.came(2)
    assert [one["data"]["payment_state_version"] for one in events] == [0, 1]
    assert events[0]["data"]["payment_id"] == payment_id


async def test_a_payment_is_replayed_from_a_version_under_the_same_ids(shop):
    made = await shop.endpoint()
    payment_id = await shop.pay("stall", "succeeded")
    before = await shop.receiver.came(3)
    body = {"paymentId": payment_id, "fromVersion": 1}
    told = await shop.call("POST", f"/{made['endpoint']['id']}/replay", body)
    assert told == {"paymentId": payment_id, "toVersion": 2}
    events = await shop.receiver.came(5)
    assert events[3:] == before[1:]


async def test_a_server_in_node_takes_what_comes_and_nothing_that_is_forged(shop):
    """The one of the documents, by its very text; without Node this is skipped, in CI it fails."""
    (block,) = (one for one in blocks() if one.place == ("docs/webhooks.md", "Verify", 1))
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}/florin"
    made = await shop.call("POST", "", {"url": url})
    script = block.text.replace("3000", str(port))
    async with serving(script, port, WEBHOOK_SECRET=made["secret"]) as node:
        async with shop.desk.session.post(url, data=b'{"type": "payment.succeeded"}') as answer:
            assert answer.status == 400
        payment_id = await shop.pay("succeeded")
        said = [(await node.stdout.readline()).decode().split() for _ in range(2)]
    assert said == [["payment.created", payment_id], ["payment.succeeded", payment_id]]
    told = await shop.attempts(made["endpoint"]["id"])
    assert told[-1]["httpStatus"] == 204


async def test_a_refund_is_sent_after_its_payment(shop):
    """One that was simulated; and all of it again, under the same ids."""
    made = await shop.endpoint(events=["*"])
    payment_id = await shop.pay("succeeded")
    await shop.refund(payment_id)
    *_, succeeded, refunded = await shop.receiver.came(3)
    assert succeeded["data"]["refunds"] == []
    assert (refunded["type"], refunded["id"]) == ("refund.succeeded", f"evt_{payment_id[4:]}_2")
    (refund,) = refunded["data"]["refunds"]
    known = (await shop.detail(payment_id))["refund"]
    assert (refund["refund_id"], refund["status"]) == (known["refundId"], "succeeded")
    assert refund["amount"] == {name: known["amount"][name] for name in ("unit", "value")}
    assert refunded["created_at"] == refund["completed_at"]
    before = await shop.receiver.came(3)
    told = await shop.call("POST", f"/{made['endpoint']['id']}/replay", {"paymentId": payment_id})
    assert told == {"paymentId": payment_id, "toVersion": 2}
    assert (await shop.receiver.came(6))[3:] == before


async def test_each_part_is_an_event_with_all_refunds_until_then(shop):
    await shop.endpoint(events=["refund.succeeded"])
    payment_id = await shop.pay("succeeded")
    call, headers = shop.desk.rest.call, shop.tenant.headers
    for value in ("300", "125"):
        body = {"paymentId": payment_id, "amount": {"unit": "iso4217/USD", "value": value}}
        await call("POST", "/v1/refunds", headers, body)
    first, second = [one["data"]["refunds"] for one in await shop.receiver.came(2)]
    assert [one["amount"]["value"] for one in second] == ["3000000", "1250000"]
    assert first == second[:1]


async def test_a_refund_on_a_chain_is_sent_with_its_transaction(shop):
    kinds = ["refund.pending", "refund.processing", "refund.succeeded"]
    await shop.endpoint(events=kinds)
    offer = await shop.desk.offer(tenant=shop.tenant)
    await shop.desk.confirm(offer)
    await shop.desk.ended(offer.payment_id)
    await shop.refund(offer.payment_id)
    refund = await shop.desk.refunded(offer.payment_id, shop.tenant.headers)
    events = await shop.receiver.came(3)
    assert [one["type"] for one in events] == kinds
    assert [[one["status"] for one in event["data"]["refunds"]] for event in events] == [
        ["pending"],
        ["processing"],
        ["succeeded"],
    ]
    assert [event["data"]["refunds"][0]["tx_id"] for event in events] == [
        None,
        *[refund["txId"]] * 2,
    ]
    places = [one["data"]["payment_state_version"] for one in events]
    assert places == list(range(places[0], places[0] + 3))


async def put_off(shop: Shop) -> str:
    """A payment whose endpoint was busy, asked to be told in a minute, and is free by now."""
    made = await shop.endpoint()
    shop.receiver.say = answers(429, retry_after="60")
    payment_id = await shop.pay()
    await shop.failed(made["endpoint"]["id"])
    shop.receiver.say = OK
    shop.receiver.server.came.clear()
    return payment_id


async def test_who_is_busy_is_asked_again_when_it_wants(shop):
    payment_id = await put_off(shop)
    shop.desk.clock.advance(30)
    await shop.endpoint("/other")
    other = await shop.pay()
    # what comes meanwhile is told to others, and to nobody who asked to wait
    await until(lambda: shop.receiver.server.came)
    assert [one.line.split()[1] for one in shop.receiver.server.came] == ["/other"]
    shop.receiver.server.came.clear()
    shop.desk.clock.advance(31)
    events = await shop.receiver.came(2)
    assert {one["data"]["payment_id"] for one in events} == {payment_id, other}


async def test_time_that_passes_while_it_is_looked_is_not_waited_for_once_more(shop, monkeypatch):
    payment_id = await put_off(shop)
    store = shop.desk.service.app.store
    read, passed = store.read, []

    async def slow(op):
        found = await read(op)
        if op.steps.__name__ == "is_due" and not passed:
            passed.append(op)
            shop.desk.clock.advance(61)
        return found

    monkeypatch.setattr(type(store), "read", lambda _, op: slow(op))
    shop.desk.clock.advance(1)
    (event,) = await shop.receiver.came(1)
    assert event["data"]["payment_id"] == payment_id
    assert passed


async def test_all_since_a_time_is_told_again(shop):
    made = await shop.endpoint(events=["*"])
    path = f"/{made['endpoint']['id']}/replay-since"
    payment_ids = [await shop.pay("succeeded") for _ in range(2)]
    await shop.refund(payment_ids[0])
    before = {one["id"]: one for one in await shop.receiver.came(5)}
    shop.receiver.server.came.clear()
    counts = []
    for events in (["refund.succeeded"], []):
        body = {"since": "2020-01-01T00:00:00Z", "events": events}
        while True:
            page = await shop.call("POST", path, body)
            counts.append(page["payments"])
            if page["nextCursor"] is None:
                break
            body["cursor"] = page["nextCursor"]
    assert sum(counts) == 3
    events = await shop.receiver.came(5)
    assert {one["id"] for one in events} == set(before)
    assert all(one == before[one["id"]] for one in events)
    # a cursor is of one list, and a type is one that is heard of
    for wrong in (
        {"since": "2021-01-01T00:00:00Z", "cursor": body["cursor"]},
        {"since": "2021-01-01T00:00:00Z", "cursor": "x"},
        {"since": "2021-01-01T00:00:00Z", "events": ["payment.lost"]},
        {"events": []},
    ):
        with pytest.raises(Refused) as refused:
            await shop.call("POST", path, wrong)
        assert refused.value.http == 400
    await shop.call(
        "PATCH", f"/{made['endpoint']['id']}", {"events": {"types": ["payment.failed"]}}
    )
    with pytest.raises(Refused) as refused:
        await shop.call(
            "POST", path, {"since": "2021-01-01T00:00:00Z", "events": ["payment.created"]}
        )
    assert "does not hear of payment.created" in refused.value.message


async def test_no_more_waits_for_an_endpoint_than_may(shop, monkeypatch):
    made = await shop.endpoint()
    endpoint_id = made["endpoint"]["id"]
    shop.receiver.say = answers(500)
    await shop.pay()
    await shop.failed(endpoint_id)
    monkeypatch.setattr(replays, "WAITING_MAX", 1)
    body = {"since": "2020-01-01T00:00:00Z"}
    with pytest.raises(Refused) as refused:
        await shop.call("POST", f"/{endpoint_id}/replay-since", body)
    assert (refused.value.http, refused.value.code) == (429, "rate_limited")
    # what a paused one is to be told waits for ever, and so would whoever asks again
    await shop.call("PATCH", f"/{endpoint_id}", {"paused": True})
    with pytest.raises(Refused) as refused:
        await shop.call("POST", f"/{endpoint_id}/replay-since", body)
    assert (refused.value.code, refused.value.message) == (
        "invalid_state",
        "Endpoint is paused: resume it first",
    )


async def test_an_endpoint_that_was_deleted_hears_nothing_more(shop):
    made = await shop.endpoint()
    endpoint_id = made["endpoint"]["id"]
    assert (await shop.call("DELETE", f"/{endpoint_id}")) == {"id": endpoint_id, "deleted": True}
    await shop.endpoint("/other")
    await shop.pay()
    await until(lambda: len(shop.receiver.server.came) >= 1)
    assert [one.line.split()[1] for one in shop.receiver.server.came] == ["/other"]
    with pytest.raises(Refused) as refused:
        await shop.call("DELETE", f"/{endpoint_id}")
    assert refused.value.http == 404


async def test_one_without_a_url_is_asked_for_what_waits(shop):
    made = await shop.call("POST", "", {})
    path = f"/{made['endpoint']['id']}/take"
    payment_id = await shop.pay("succeeded")
    (event,) = (await shop.call("POST", path, {}))["events"]
    assert event["eventId"] == f"evt_{payment_id[4:]}_0"
    # it is nobody else's until a receipt comes, or a minute is over
    assert (await shop.call("POST", path, {}))["events"] == []
    receipts = [{"token": event["token"], "httpStatus": 200}]
    (event,) = (await shop.call("POST", path, {"receipts": receipts}))["events"]
    assert event["eventId"] == f"evt_{payment_id[4:]}_1"
    # a receipt that comes twice, or of something else, ends nothing
    assert (await shop.call("POST", path, {"receipts": receipts}))["events"] == []
    shop.desk.clock.advance(61)
    (again,) = (await shop.call("POST", path, {}))["events"]
    assert again["eventId"] == event["eventId"]
    late = [{"token": event["token"], "httpStatus": 200}]
    assert (await shop.call("POST", path, {"receipts": late}))["events"] == []
    receipts = [{"token": again["token"], "httpStatus": 200}]
    assert (await shop.call("POST", path, {"receipts": receipts}))["events"] == []
    shop.desk.clock.advance(3600)
    assert (await shop.call("POST", path, {}))["events"] == []
