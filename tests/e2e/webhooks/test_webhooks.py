"""A merchant's back end receives every change, without an open connection."""

from __future__ import annotations

import socket

import pytest
import pytest_asyncio
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.api import ApiCallError
from tests.support.documents import list_blocks
from tests.support.http_stub import hang, make_stub_response, send_endless_body, serve_stub
from tests.support.javascript import serve_script
from tests.support.receiver import OK, WebhookReceiver, verify_public
from tests.support.service_harness import ORDER, open_service
from tests.support.until import wait_until
from tests.support.webhook_merchant import PATH, WebhookMerchant

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.long]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory):
    home = tmp_path_factory.mktemp("webhooks") / "home"
    webhooks = {"networks": ["127.0.0.0/8"], "timeout_s": 1, "endpoints_max": 100}
    async with open_service(home, webhooks=webhooks) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module")
async def shop(desk):
    """Open a tenant of its own, with a back end."""
    tenant = await desk.tenant()
    async with serve_stub(OK) as server:
        receiver = WebhookReceiver(server)
        server.handler = receiver
        yield WebhookMerchant(desk, tenant, receiver)


async def test_every_change_is_sent_with_a_snapshot(shop):
    created = await shop.endpoint(description="orders")
    payment_id = await shop.pay()
    for outcome in ("stall", "succeeded"):
        await shop.simulate(payment_id, outcome)
    events = await shop.receiver.wait_events(3)
    assert [event["type"] for event in events] == [
        "payment.created",
        "payment.processing",
        "payment.succeeded",
    ]
    assert [event["id"] for event in events] == [f"evt_{payment_id[4:]}_{n}" for n in range(3)]
    assert {event["api_version"] for event in events} == {"2026-05-18"}
    assert [event["data"]["payment_state_version"] for event in events] == [0, 1, 2]
    now = await shop.detail(payment_id)
    assert events[0]["created_at"] == now["createdAt"]
    assert events[2]["created_at"] == now["lastUpdatedAt"]
    assert created["endpoint"]["apiVersion"] == "2026-05-18"
    request = shop.receiver.server.requests[0]
    verify_public(request, created["endpoint"]["publicKeys"][0])
    for name in ("id", "timestamp", "signature"):
        assert request.headers[f"svix-{name}"] == request.headers[f"webhook-{name}"]

    async def taken():
        result = await shop.attempts(created["endpoint"]["id"])
        return result if len(result) == 3 else None

    assert [
        (item["version"], item["httpStatus"], item["succeeded"]) for item in await wait_until(taken)
    ] == [
        (2, 204, True),
        (1, 204, True),
        (0, 204, True),
    ]


@pytest.mark.parametrize("outcome", ["failed", "expired", "cancelled"])
async def test_every_final_event_is_sent_with_the_earlier_versions(shop, outcome):
    """An endpoint that was away receives each version with its original state, when it is back."""
    created_created = await shop.endpoint()
    shop.receiver.handler = make_stub_response(500)
    payment_id = await shop.pay()
    await shop.simulate(payment_id, outcome)
    await shop.wait_failed(created_created["endpoint"]["id"])
    shop.receiver.handler = OK
    shop.receiver.server.requests.clear()
    shop.service.clock.advance(6)
    created, ended = await shop.receiver.wait_events(2)
    assert [created["type"], ended["type"]] == ["payment.created", f"payment.{outcome}"]
    assert (created["data"]["status"], created["data"]["is_final"]) == ("requires_action", False)
    assert created["data"][outcome] is None
    assert (ended["data"]["status"], ended["data"]["is_final"]) == (outcome, True)
    assert ended["data"][outcome][f"{outcome}_at"] == ended["created_at"]


async def test_snapshots_have_the_metadata_and_no_more_of_the_order(shop):
    await shop.endpoint()
    order = {**ORDER, "description": "Breakfast", "metadata": {"order": "1001"}}
    await shop.service.rest.call("POST", "/v1/payments", shop.tenant.headers, order)
    await shop.pay()
    # events of two payments arrive in any order
    events = await shop.receiver.wait_events(2)
    with_order, without = sorted(events, key=lambda event: "metadata" not in event["data"])
    assert with_order["data"]["metadata"] == {"order": "1001"}
    assert with_order["data"].keys() - without["data"].keys() == {"metadata"}


async def test_refunds_are_sent_to_endpoints_that_ask_for_them(shop):
    everything = await shop.endpoint("/all", events=["*"])
    by_default = await shop.endpoint("/default")
    payment_id = await shop.pay("succeeded")
    await shop.refund(payment_id)
    events = await shop.receiver.wait_events(3, "/all", everything["secret"])
    assert [event["type"] for event in events][2:] == ["refund.succeeded"]
    other = await shop.pay()
    events = await shop.receiver.wait_events(3, "/default", by_default["secret"])
    assert [event["type"] for event in events if event["data"]["payment_id"] == payment_id] == [
        "payment.created",
        "payment.succeeded",
    ]
    assert events[-1]["data"]["payment_id"] == other


async def test_endpoints_hear_of_their_own_merchant_or_of_all_of_the_partner(shop):
    other = await shop.service.merchant(shop.tenant)
    stranger = await shop.service.tenant()
    ours = shop.tenant.merchant.id
    of_one = await shop.endpoint("/one", merchantId=ours)
    of_other = await shop.endpoint("/other", merchantId=other.id)
    of_all = await shop.endpoint("/all")
    their_key = {"Api-Key": stranger.headers["Api-Key"]}
    body = {"url": shop.receiver.url("/theirs")}
    theirs = await shop.service.rest.call("POST", PATH, their_key, body)
    payment_id = await shop.pay()
    await shop.receiver.wait_events(1, "/one", of_one["secret"])
    await shop.receiver.wait_events(1, "/all", of_all["secret"])
    assert shop.receiver.events("/other", of_other["secret"]) == []
    assert shop.receiver.events("/theirs", theirs["secret"]) == []
    # nor can a stranger see, change, replay or delete the endpoints of others
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
        with pytest.raises(ApiCallError) as refused:
            await shop.call(method, f"/{strange}{path}", sent)
        assert (refused.value.http, refused.value.details) == (
            404,
            {"reason": "webhook_not_found"},
        ), path
    with pytest.raises(ApiCallError) as refused:
        await shop.service.rest.call(
            "POST", f"{PATH}/{strange}/replay", their_key, {"paymentId": payment_id}
        )
    assert refused.value.code == "payment_not_found"
    with pytest.raises(ApiCallError) as refused:
        await shop.endpoint("/x", merchantId=stranger.merchant.id)
    assert refused.value.code == "merchant_not_found"


async def test_secret_is_shown_once_and_rotated_with_an_overlap(shop):
    created = await shop.endpoint()
    endpoint_id = created["endpoint"]["id"]
    assert created["secret"].startswith("whsec_")
    shown = await shop.call("GET", f"/{endpoint_id}")
    assert "secret" not in shown
    assert created["secret"] not in str(await shop.call("GET", ""))
    rotated = await shop.call("POST", f"/{endpoint_id}/rotate", {"overlapSeconds": 60})
    assert rotated["secret"] != created["secret"]
    await shop.pay()
    # receivers with the old secret and with the new one both accept it
    assert await shop.receiver.wait_events(1, secret=created["secret"])
    assert await shop.receiver.wait_events(1, secret=rotated["secret"])
    shop.service.clock.advance(61)
    shop.receiver.server.requests.clear()
    await shop.pay()
    await shop.receiver.wait_events(1, secret=rotated["secret"])
    request = shop.receiver.server.requests[0]
    with pytest.raises(WebhookVerificationError):
        Webhook(created["secret"]).verify(request.body, dict(request.headers))
    on_disk = str(shop.service.select("SELECT * FROM webhook_secret"))
    assert rotated["secret"].removeprefix("whsec_") not in on_disk


async def test_second_endpoint_for_a_url_is_refused_with_webhook_url_taken(shop):
    created = await shop.endpoint()
    with pytest.raises(ApiCallError) as refused:
        await shop.endpoint()
    assert (refused.value.http, refused.value.details["reason"]) == (409, "webhook_url_taken")
    assert created["endpoint"]["id"] in refused.value.message
    other = await shop.endpoint("/second")
    with pytest.raises(ApiCallError) as refused:
        await shop.call("PATCH", f"/{other['endpoint']['id']}", {"url": shop.receiver.url()})
    assert refused.value.http == 409


@pytest.mark.parametrize(
    "url", ["ftp://a.example/", "https://u:p@a.example/", "shop.example/hook", "https://a b/", "x",
     "https://xn--a.example/", "https://127.1/", "https://\u202ea.example/"],
)  # fmt: skip
async def test_invalid_webhook_url_is_refused(shop, url):
    with pytest.raises(ApiCallError) as refused:
        await shop.call("POST", "", {"url": url})
    assert (refused.value.code, refused.value.issues[0]["field"]) == ("params_validation", "url")


async def test_an_event_that_is_none_is_refused(shop):
    with pytest.raises(ApiCallError) as refused:
        await shop.endpoint(events=["payment.lost"])
    assert "payment.lost is not one of payment.created" in refused.value.message


@pytest.mark.parametrize(
    ("say", "status", "error"),
    [
        (hang, None, "timeout"),
        *(
            (
                make_stub_response(status, location="http://127.0.0.1:1/new"),
                status,
                "http://127.0.0.1:1/new",
            )
            for status in (301, 302, 303, 307, 308)
        ),
        (make_stub_response(308), 308, "Florin does not follow redirects"),
        (
            make_stub_response(308, location="x\x9b\u202e" + "y" * 300),
            308,
            f"x\ufffd\ufffd{'y' * 180}",
        ),
        (make_stub_response(500, b"our database is down"), 500, None),
        (make_stub_response(404), 404, None),
    ],
)
async def test_failed_attempt_is_reported_and_the_event_is_retried(shop, say, status, error):
    created = await shop.endpoint()
    shop.receiver.handler = say
    payment_id = await shop.pay()
    (attempt,) = await shop.wait_failed(created["endpoint"]["id"])
    assert attempt["httpStatus"] == status
    assert error is None or error in attempt["error"]
    if status == 500:
        assert attempt["answer"] == "our database is down"
    shop.receiver.handler = OK
    shop.receiver.server.requests.clear()
    shop.service.clock.advance(6)
    (event,) = await shop.receiver.wait_events(1)
    assert event["data"]["payment_id"] == payment_id


async def test_oversized_response_counts_by_its_status_and_is_truncated(shop):
    created = await shop.endpoint()
    shop.receiver.handler = send_endless_body
    await shop.pay()

    async def taken():
        return await shop.attempts(created["endpoint"]["id"])

    (attempt,) = await wait_until(taken)
    assert attempt["succeeded"]
    assert attempt["answer"] == "x" * 1000


async def test_unreachable_and_private_addresses_are_reported(shop):
    inside = await shop.call("POST", "", {"url": "https://10.1.2.3/hook"})
    unreachable = await shop.call("POST", "", {"url": "http://127.0.0.1:9/hook"})
    await shop.pay()
    (attempt,) = await shop.wait_failed(inside["endpoint"]["id"])
    assert attempt["error"].startswith("address_not_allowed: the host has no public address")
    (attempt,) = await shop.wait_failed(unreachable["endpoint"]["id"])
    assert attempt["error"] == "connection_failed: the connection was refused"


async def test_endpoint_that_answers_410_is_paused_and_continues_when_resumed(shop):
    created = await shop.endpoint()
    endpoint_id = created["endpoint"]["id"]
    shop.receiver.handler = make_stub_response(410)
    payment_id = await shop.pay("succeeded")
    await shop.wait_failed(endpoint_id)
    shown = await shop.call("GET", f"/{endpoint_id}")
    assert (shown["status"], shown["pausedReason"]) == (
        "paused",
        "the endpoint answered HTTP 410 (gone)",
    )
    shop.receiver.handler = OK
    shop.receiver.server.requests.clear()
    shown = await shop.call("PATCH", f"/{endpoint_id}", {"paused": False})
    assert (shown["status"], shown["pausedReason"]) == ("active", None)
    events = await shop.receiver.wait_events(2)
    assert [event["data"]["payment_state_version"] for event in events] == [0, 1]
    assert events[0]["data"]["payment_id"] == payment_id


async def test_a_payment_is_replayed_from_a_version_under_the_same_ids(shop):
    created = await shop.endpoint()
    payment_id = await shop.pay("stall", "succeeded")
    before = await shop.receiver.wait_events(3)
    body = {"paymentId": payment_id, "fromVersion": 1}
    result = await shop.call("POST", f"/{created['endpoint']['id']}/replay", body)
    assert result == {"paymentId": payment_id, "toVersion": 2}
    events = await shop.receiver.wait_events(5)
    assert events[3:] == before[1:]


async def test_node_server_accepts_genuine_events_and_refuses_forged_events(shop):
    """The server of the documents, verbatim; without Node this is skipped, in CI it fails."""
    (block,) = (
        each_block
        for each_block in list_blocks()
        if each_block.place == ("docs/webhooks.md", "Verify", 1)
    )
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    url = f"http://127.0.0.1:{port}/florin"
    created = await shop.call("POST", "", {"url": url})
    script = block.text.replace("3000", str(port))
    async with serve_script(script, port, WEBHOOK_SECRET=created["secret"]) as node:
        async with shop.service.session.post(url, data=b'{"type": "payment.succeeded"}') as answer:
            assert answer.status == 400
        payment_id = await shop.pay("succeeded")
        text = [(await node.stdout.readline()).decode().split() for _ in range(2)]
    assert text == [["payment.created", payment_id], ["payment.succeeded", payment_id]]
    result = await shop.attempts(created["endpoint"]["id"])
    assert result[-1]["httpStatus"] == 204


async def test_a_refund_is_sent_after_its_payment(shop):
    """A simulated one; and all of it again, under the same ids."""
    created = await shop.endpoint(events=["*"])
    payment_id = await shop.pay("succeeded")
    await shop.refund(payment_id)
    *_, succeeded, refunded = await shop.receiver.wait_events(3)
    assert succeeded["data"]["refunds"] == []
    assert (refunded["type"], refunded["id"]) == ("refund.succeeded", f"evt_{payment_id[4:]}_2")
    (refund,) = refunded["data"]["refunds"]
    known_refund = (await shop.detail(payment_id))["refund"]
    assert (refund["refund_id"], refund["status"]) == (known_refund["refundId"], "succeeded")
    assert refund["amount"] == {name: known_refund["amount"][name] for name in ("unit", "value")}
    assert refunded["created_at"] == refund["completed_at"]
    before = await shop.receiver.wait_events(3)
    result = await shop.call(
        "POST", f"/{created['endpoint']['id']}/replay", {"paymentId": payment_id}
    )
    assert result == {"paymentId": payment_id, "toVersion": 2}
    assert (await shop.receiver.wait_events(6))[3:] == before


async def test_each_part_is_an_event_with_all_refunds_until_then(shop):
    await shop.endpoint(events=["refund.succeeded"])
    payment_id = await shop.pay("succeeded")
    call, headers = shop.service.rest.call, shop.tenant.headers
    for value in ("300", "125"):
        body = {"paymentId": payment_id, "amount": {"unit": "iso4217/USD", "value": value}}
        await call("POST", "/v1/refunds", headers, body)
    first, second = [item["data"]["refunds"] for item in await shop.receiver.wait_events(2)]
    assert [item["amount"]["value"] for item in second] == ["3000000", "1250000"]
    assert first == second[:1]


async def test_a_refund_on_a_chain_is_sent_with_its_transaction(shop):
    kinds = ["refund.pending", "refund.processing", "refund.succeeded"]
    await shop.endpoint(events=kinds)
    offer = await shop.service.offer(tenant=shop.tenant)
    await shop.service.confirm(offer)
    await shop.service.wait_ended(offer.payment_id)
    await shop.refund(offer.payment_id)
    refund = await shop.service.wait_refunded(offer.payment_id, shop.tenant.headers)
    events = await shop.receiver.wait_events(3)
    assert [event["type"] for event in events] == kinds
    assert [
        [each_refund["status"] for each_refund in event["data"]["refunds"]] for event in events
    ] == [
        ["pending"],
        ["processing"],
        ["succeeded"],
    ]
    assert [event["data"]["refunds"][0]["tx_id"] for event in events] == [
        None,
        *[refund["txId"]] * 2,
    ]
    places = [event["data"]["payment_state_version"] for event in events]
    assert places == list(range(places[0], places[0] + 3))


async def test_busy_endpoint_is_retried_at_its_requested_time(shop):
    payment_id = await shop.put_off()
    shop.service.clock.advance(30)
    await shop.endpoint("/other")
    other = await shop.pay()
    # later events go to other endpoints, and not to the one that asked to wait
    await wait_until(lambda: shop.receiver.server.requests)
    assert [item.line.split()[1] for item in shop.receiver.server.requests] == ["/other"]
    shop.receiver.server.requests.clear()
    shop.service.clock.advance(31)
    events = await shop.receiver.wait_events(2)
    assert {event["data"]["payment_id"] for event in events} == {payment_id, other}


async def test_replay_since_sends_all_events_again(shop):
    created = await shop.endpoint(events=["*"])
    path = f"/{created['endpoint']['id']}/replay-since"
    payment_ids = [await shop.pay("succeeded") for _ in range(2)]
    await shop.refund(payment_ids[0])
    before = {item["id"]: item for item in await shop.receiver.wait_events(5)}
    shop.receiver.server.requests.clear()
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
    events = await shop.receiver.wait_events(5)
    assert {event["id"] for event in events} == set(before)
    assert all(event == before[event["id"]] for event in events)
    # a cursor belongs to one list, and a type must be known
    for wrong in (
        {"since": "2021-01-01T00:00:00Z", "cursor": body["cursor"]},
        {"since": "2021-01-01T00:00:00Z", "cursor": "x"},
        {"since": "2021-01-01T00:00:00Z", "events": ["payment.lost"]},
        {"events": []},
    ):
        with pytest.raises(ApiCallError) as refused:
            await shop.call("POST", path, wrong)
        assert refused.value.http == 400
    await shop.call(
        "PATCH", f"/{created['endpoint']['id']}", {"events": {"types": ["payment.failed"]}}
    )
    with pytest.raises(ApiCallError) as refused:
        await shop.call(
            "POST", path, {"since": "2021-01-01T00:00:00Z", "events": ["payment.created"]}
        )
    assert "is not subscribed to payment.created" in refused.value.message


async def test_an_endpoint_that_was_deleted_hears_nothing_more(shop):
    created = await shop.endpoint()
    endpoint_id = created["endpoint"]["id"]
    assert (await shop.call("DELETE", f"/{endpoint_id}")) == {"id": endpoint_id, "deleted": True}
    await shop.endpoint("/other")
    await shop.pay()
    await wait_until(lambda: len(shop.receiver.server.requests) >= 1)
    assert [item.line.split()[1] for item in shop.receiver.server.requests] == ["/other"]
    with pytest.raises(ApiCallError) as refused:
        await shop.call("DELETE", f"/{endpoint_id}")
    assert refused.value.http == 404
