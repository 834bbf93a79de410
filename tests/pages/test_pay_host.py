"""The pay host with a payment's link: the page, the status, and its changes."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

import pytest
import pytest_asyncio
from florin_server.settings import AppLinkSettings, LimitSettings
from pydantic import ValidationError

from tests.support.open_responses import wait_no_open_responses
from tests.support.page_texts import get_headers, get_text
from tests.support.service import wait_open_responses
from tests.support.service_harness import ORDER, PAY_URL, ServiceHarness, open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")

APPS = {
    "ios": ["ABCDE12345.example.wallet"],
    "android": [{"package": "example.wallet", "fingerprints": [":".join(["0F"] * 32)]}],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def limited(tmp_path_factory):
    home = tmp_path_factory.mktemp("limited")
    few = LimitSettings(page_burst=3, held_per_payment_caller=4, held_per_address=6)
    async with open_service(home, limits=few, app_links=APPS) as desk:
        yield desk


def parse_events(stream: bytes) -> list[dict[str, Any]]:
    """Return the events of a stream that has ended."""
    events = []
    for block in stream.decode().split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if ": " in line)
        if "data" in fields:
            assert fields["event"] == "status"
            events.append(json.loads(fields["data"]))
            assert int(fields["id"]) == events[-1]["version"]
    return events


# links that name the payment in their query


async def test_a_link_with_the_id_in_its_query_leads_to_the_same_page(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    link = quote(f"{PAY_URL}/{payment_id}", safe="")
    for path, same in (
        *(
            (text, "")
            for text in (f"/?pid={payment_id}", f"/buy?pid={payment_id}", f"/?pid={link}")
        ),
        (f"/buy/?pid={payment_id}", ""),
        (f"/?theme=dark&pid=&pid={payment_id}&pid=pay_other#pid=x", "?theme=dark"),
    ):
        page = await desk.ask("GET", f"/{payment_id}{same}")
        assert page.status == 200
        answer = await desk.ask("GET", path.partition("#")[0])
        assert (answer.status, answer.text) == (200, page.text), path
        assert get_headers(answer)["referrer-policy"] == "same-origin"
        head = await desk.ask("HEAD", path.partition("#")[0])
        assert (head.status, head.text) == (200, "")


@pytest.mark.parametrize("query", ["?pid=", "?pid=pay_unknown", "?PID=x&pid", "?pid=%3Cb%3E"])
@pytest.mark.parametrize("path", ["/", "/buy", "//"])
async def test_a_link_that_names_no_payment_leads_to_a_page_too(desk, path, query):
    answer = await desk.ask("GET", path + query)
    assert answer.status == 404
    assert get_headers(answer)["content-type"] == "text/html; charset=utf-8"
    assert "No payment has this link." in get_text(answer.text)


@pytest.mark.parametrize("path", ["/", "/buy", "//", "/?PID=pay_1", "/buy?theme=dark"])
async def test_path_without_a_payment_is_no_page(desk, path):
    assert (await desk.ask("GET", path)).refusal == (404, "invalid_params")


async def test_a_query_that_cannot_be_read_is_refused(desk):
    answer = await desk.ask("GET", "/?pid=%ff")
    assert answer.refusal == (400, "invalid_params")


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/", "GET, HEAD"),
        ("/buy", "GET, HEAD"),
        ("/pay_0/state", "GET, HEAD"),
        ("/pay_0/events", "GET"),
        ("/.well-known/assetlinks.json", "GET, HEAD"),
    ],
)
async def test_the_pay_host_takes_no_orders(desk, path, allowed):
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        answer = await desk.ask(method, path, desk.rest.merchant)
        assert answer.refusal == (405, "invalid_params")
        assert get_headers(answer)["allow"] == allowed


@pytest.mark.parametrize("path", ["/v1/state", "/docs/events", "/buy/state", "/a/b/state", "/x/y"])
async def test_path_that_is_no_payment_link_has_no_state(desk, path):
    answer = await desk.ask("GET", path)
    assert answer.refusal == (404, "invalid_params")


# state


async def test_state_endpoint_reveals_only_the_state(desk):
    offer = await desk.offer()
    payment_id = offer.payment_id
    expires_at = (await desk.rest.info(payment_id))["expiresAt"]
    answer = await desk.ask("GET", f"/{payment_id}/state")
    assert answer.status == 200
    assert answer.body == {
        "status": "requires_action",
        "isFinal": False,
        "pollInMs": 1000,
        "expiresAt": expires_at,
    }
    headers = get_headers(answer)
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers
    await desk.confirm(offer)
    await desk.wait_final(payment_id)
    answer = await desk.ask("GET", f"/{payment_id}/state/")
    assert answer.body == {"status": "succeeded", "isFinal": True, "expiresAt": expires_at}
    assert (await desk.ask("HEAD", f"/{payment_id}/state")).text == ""


async def test_a_payment_that_is_out_of_time_is_expired_at_once(desk):
    created = await desk.rest.create({**ORDER, "expiresAt": desk.now + 50})
    desk.clock.advance(50)
    answer = await desk.ask("GET", f"/{created['paymentId']}/state")
    assert (answer.body["status"], answer.body["isFinal"]) == ("expired", True)


@pytest.mark.parametrize("name", ["pay_unknown", "x", "%3Cb%3E", "https%3A%2F%2Fevil.example%2Fp"])
@pytest.mark.parametrize("part", ["state", "events"])
async def test_an_unknown_payment_has_no_state(desk, name, part):
    answer = await desk.ask("GET", f"/{name}/{part}")
    assert answer.refusal == (404, "payment_not_found")


async def test_a_whole_link_names_its_payment_here_too(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    link = quote(f"{PAY_URL}/?pid={payment_id}", safe="")
    assert (await desk.ask("GET", f"/{link}/state")).body["status"] == "requires_action"


# events


async def test_event_stream_sends_every_change_until_the_last(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    url = f"{desk.rest.base}/{payment_id}/events"
    async with desk.session.get(url) as stream:
        assert stream.status == 200
        assert stream.headers["Content-Type"] == "text/event-stream"
        assert stream.headers["Cache-Control"] == "no-store, no-transform"
        assert stream.headers["X-Accel-Buffering"] == "no"
        await wait_open_responses(desk.service, 1)
        await desk.rest.cancel(payment_id)
        events = parse_events(await asyncio.wait_for(stream.read(), 20))
    expires_at = events[0]["expiresAt"]
    assert events == [
        {
            "status": "requires_action",
            "isFinal": False,
            "pollInMs": 1000,
            "expiresAt": expires_at,
            "version": 0,
        },
        {"status": "cancelled", "isFinal": True, "expiresAt": expires_at, "version": 1},
    ]
    # seen events are not repeated, and after the end no event follows
    for seen in ("0", ""):
        async with desk.session.get(url, headers={"Last-Event-ID": seen}) as stream:
            assert parse_events(await stream.read()) == events[1:]
    async with desk.session.get(url, headers={"Last-Event-ID": "1"}) as stream:
        assert (stream.status, await stream.read()) == (204, b"")
    for wrong in ("-1", "x", "1" * 19):
        answer = await desk.ask("GET", f"/{payment_id}/events", {"Last-Event-ID": wrong})
        assert answer.refusal == (400, "invalid_params")


async def test_a_stream_that_has_nothing_new_begins_all_the_same(desk):
    payment_id = (await desk.rest.create(ORDER))["paymentId"]
    url = f"{desk.rest.base}/{payment_id}/events"
    async with desk.session.get(url, headers={"Last-Event-ID": "0"}) as stream:
        assert stream.status == 200
        await desk.rest.cancel(payment_id)
        assert [event["version"] for event in parse_events(await stream.read())] == [1]


async def test_pages_take_no_place_from_a_wallet_nor_from_each_other(limited):
    payment_id = (await limited.rest.create(ORDER))["paymentId"]
    path = f"/{payment_id}/events"
    async with AsyncExitStack() as stack:
        # of a payment's slots, one address gets half
        for _ in range(2):
            stream = await stack.enter_async_context(limited.session.get(limited.rest.base + path))
            assert stream.status == 200
            limited.clock.advance(60)
        answer = await limited.ask("GET", path)
        assert answer.refusal == (429, "rate_limited")
        assert get_headers(answer)["retry-after"] == "1"
        wallets = limited.session.get(
            f"{limited.rest.base}/v1/gateway/payment/{payment_id}/events",
            headers=limited.rest.wallet,
        )
        assert (await stack.enter_async_context(wallets)).status == 200
    await wait_no_open_responses(limited)
    limited.clock.advance(60)
    async with limited.session.get(limited.rest.base + path) as stream:
        assert stream.status == 200
    await wait_no_open_responses(limited)


async def test_rate_limited_address_gets_retry_after(limited):
    payment_id = (await limited.rest.create(ORDER))["paymentId"]
    limited.clock.advance(60)
    for path in (f"/{payment_id}/state", f"/{payment_id}/events", "/pay_unknown/state"):
        limited.clock.advance(60)
        for _ in range(3):
            assert (await limited.ask("GET", "/pay_unknown/state")).status == 404
        answer = await limited.ask("GET", path)
        assert answer.refusal == (429, "rate_limited")
        assert int(get_headers(answer)["retry-after"]) >= 1
    limited.clock.advance(60)


async def test_a_service_that_stops_ends_the_streams_of_pages(tmp_path):
    async with open_service(tmp_path) as desk:
        payment_id = (await desk.rest.create(ORDER))["paymentId"]
        stream = await desk.session.get(f"{desk.rest.base}/{payment_id}/events")
        await wait_open_responses(desk.service, 1)
        await desk.service.stop()
        assert len(parse_events(await asyncio.wait_for(stream.read(), 20))) == 1


# files for phones


async def well_known(desk: ServiceHarness) -> tuple[Any, Any]:
    bodies = []
    for name in ("apple-app-site-association", "assetlinks.json"):
        answer = await desk.ask("GET", f"/.well-known/{name}")
        assert answer.status == 200
        assert get_headers(answer)["content-type"] == "application/json"
        bodies.append(answer.body)
    return bodies[0], bodies[1]


async def test_without_apps_links_stay_in_the_browser(desk):
    assert await well_known(desk) == ({"applinks": {"details": []}}, [])


async def test_the_apps_that_the_operator_names_open_payment_links(limited):
    ios, android = await well_known(limited)
    assert ios == {
        "applinks": {
            "details": [
                {
                    "appIDs": APPS["ios"],
                    "components": [
                        {"/": "/pay_*"},
                        {"/": "/", "?": {"pid": "?*"}},
                        {"/": "/buy", "?": {"pid": "?*"}},
                    ],
                }
            ]
        }
    }
    (statement,) = android
    assert statement == {
        "relation": ["delegate_permission/common.handle_all_urls"],
        "target": {
            "namespace": "android_app",
            "package_name": "example.wallet",
            "sha256_cert_fingerprints": APPS["android"][0]["fingerprints"],
        },
    }


@pytest.mark.parametrize(
    "wrong",
    [
        {"ios": ["example.wallet"]},
        {"ios": ["ABCDE12345.a b"]},
        {"android": [{"package": "wallet", "fingerprints": APPS["android"][0]["fingerprints"]}]},
        {"android": [{"package": "example.wallet", "fingerprints": []}]},
        {"android": [{"package": "example.wallet", "fingerprints": ["0f"]}]},
    ],
)
async def test_apps_that_cannot_be_are_refused_at_the_start(wrong):
    with pytest.raises(ValidationError):
        AppLinkSettings.model_validate(wrong)
