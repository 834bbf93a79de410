"""The form for buyer data: which data it accepts, how often, and from which callers."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import pytest_asyncio
from florin_server.settings import LimitSettings

from tests.support.capture import (
    CAPTURE_SETTINGS,
    DATA,
    DAY_S,
    CapturePos,
    count_stored,
    get_path,
    get_query,
    get_refusal,
    open_pos,
    submit_form,
    to_form_items,
    wait_deleted,
)
from tests.support.service import NO_LIMITS
from tests.support.service_harness import open_service

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with open_service(tmp_path_factory.mktemp("forms"), capture=CAPTURE_SETTINGS) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def pos(request, desk) -> CapturePos:
    return await open_pos(desk, api=getattr(desk, request.param))


async def test_a_payment_with_a_form(desk, pos):
    option = await pos.option()
    refused = await get_refusal(pos.fetch(option["actions"][0]["data"]["data"]))
    assert (refused.http, refused.code) == (400, "params_validation")
    assert refused.message == "IC data required but not found"
    url = option["collectData"]["url"]
    assert refused.details == {"reason": "ic_required", "url": url}
    answer = await submit_form(desk, url)
    assert (answer.status, answer.body) == (200, {"status": "success"})
    actions = await pos.fetch(option["actions"][0]["data"]["data"])
    assert [action["type"] for action in actions] == ["walletRpc"]
    now = await pos.option()
    assert (now["id"], now["collectData"], now["actions"]) == (option["id"], None, actions)
    assert await pos.pay() == "succeeded"
    # after that it is read-only
    repeated = await pos.api.confirm(pos.payment_id, option["id"], [pos.wallet.execute(*actions)])
    assert repeated["status"] == "succeeded"


async def test_without_data_nothing_is_confirmed(desk, pos):
    option = await pos.option()
    guessed = ["0x" + "11" * 65]
    for outputs in (guessed, guessed * 2):
        refused = await get_refusal(pos.api.confirm(pos.payment_id, option["id"], outputs))
        assert (refused.http, refused.code) == (400, "params_validation")
        assert refused.details["reason"] == "ic_required"
    assert (await desk.rest.status(pos.payment_id))["status"] == "requires_action"
    # the refusal has the form's address too
    assert (await submit_form(desk, refused.details["url"])).status == 200
    assert await pos.pay() == "succeeded"


async def test_foreign_build_data_is_still_foreign(pos):
    other = await open_pos(pos.desk)
    (foreign,) = (await other.option())["actions"]
    for data in ("00" * 16, foreign["data"]["data"]):
        assert (await get_refusal(pos.fetch(data, DATA))).code == "invalid_params"
    assert count_stored(pos.desk, pos) == 0


async def test_the_same_data_again_is_a_success_and_other_data_is_not(desk):
    pos = await open_pos(desk)
    url = await pos.url()
    assert (await submit_form(desk, url)).status == 200
    before = desk.rows()
    assert (await submit_form(desk, url, to_form_items(DATA))).status == 200
    for other in ({**DATA, "fullName": "Eve"}, {**DATA, "porCountry": "FR", "porAddress": "x"}):
        assert (await submit_form(desk, url, other)).refusal == (401, "unauthorized")
    assert (await submit_form(desk, url, {})).refusal == (400, "params_validation")
    assert desk.rows() == before
    # also after the end: the first answer may have been lost
    await desk.rest.cancel(pos.payment_id)
    assert (await submit_form(desk, url)).status == 200


async def test_ten_concurrent_form_submissions_store_a_single_record(desk):
    pos = await open_pos(desk)
    url = await pos.url()
    names = [f"Ada {n % 2}" for n in range(10)]
    answers = await asyncio.gather(
        *(submit_form(desk, url, {**DATA, "fullName": name}) for name in names)
    )
    result = sorted(answer.status for answer in answers)
    assert result == [200] * 5 + [401] * 5
    assert count_stored(desk, pos) == 1


@pytest.mark.parametrize("token", ["", "x", "00" * 32, "ä" * 64, "0" * 30_000])
async def test_unissued_form_token_is_refused(desk, token):
    answer = await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})
    assert answer.refusal == (401, "unauthorized")
    assert "requestId" in answer.body


async def test_a_form_dies_with_its_payment(desk):
    late, cancelled = await open_pos(desk, expiresAt=desk.now + 100), await open_pos(desk)
    urls = [await late.url(), await cancelled.url()]
    await desk.rest.cancel(cancelled.payment_id)
    desk.clock.advance(99)
    assert (await submit_form(desk, urls[1])).refusal == (401, "unauthorized")
    desk.clock.advance(1)
    assert (await submit_form(desk, urls[0])).refusal == (410, "payment_expired")
    assert (count_stored(desk, late), count_stored(desk, cancelled)) == (0, 0)
    # a form that was open for days gets the reason
    desk.clock.advance(DAY_S)
    assert (await submit_form(desk, urls[0])).refusal == (410, "payment_expired")


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"data": DATA}, ["token"]),
        ({"token": 5, "data": DATA}, ["token"]),
        ({"token": "TOKEN"}, ["data"]),
        ({"token": "TOKEN", "data": None}, ["data"]),
        ({"token": "TOKEN", "data": 5}, ["data"]),
        ({"token": "TOKEN", "data": {**DATA, "dob": "Marker"}}, ["data.dob"]),
        ({"token": "TOKEN", "data": {**DATA, "Marker": "Marker"}}, ["data"]),
        (
            {"token": "TOKEN", "data": {"pobCountry": "DE"}},
            ["data.fullName", "data.dob", "data.tosConfirmed", "data.pobAddress"],
        ),
        ({"token": "TOKEN", "data": [{"id": "dob", "value": 1}, 5]}, None),
    ],
)
async def test_invalid_form_fields_are_named(desk, body, fields):
    pos = await open_pos(desk)
    token = get_query(await pos.url())["t"]
    sent = {name: token if value == "TOKEN" else value for name, value in body.items()}
    answer = await desk.ask("POST", "/collect/", body=sent)
    assert answer.refusal == (400, "params_validation")
    named = [issue["field"] for issue in answer.body["issues"]]
    if fields is None:
        assert {"data[1]", "data.dob"} < set(named)
    else:
        assert set(named) >= set(fields)
        assert len(named) == len(fields) or "data" in fields
    assert "Marker" not in answer.text
    assert count_stored(desk, pos) == 0
    # the token is still valid
    assert (await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})).status == 200


@pytest.mark.parametrize(
    ("data", "kind", "expected_refusal"),
    [
        ("{", "application/json", (400, "params_validation")),
        ("[]", "application/json", (400, "params_validation")),
        ('{"token":"a","token":"b","data":{}}', "application/json", (400, "params_validation")),
        ("token=%ff", "application/x-www-form-urlencoded", (400, "params_validation")),
        ("token=a&data=%7B", "application/x-www-form-urlencoded", (400, "params_validation")),
        ("token=a", "text/plain", (415, "invalid_params")),
        ("--x", "multipart/form-data; boundary=x", (415, "invalid_params")),
        (" " * 65_537, "application/json", (413, "invalid_params")),
    ],
)
async def test_malformed_form_submission_is_refused(desk, data, kind, expected_refusal):
    answer = await desk.ask("POST", "/collect/", {"Content-Type": kind}, data=data)
    assert answer.refusal == expected_refusal


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({"Origin": "https://pay.florin.example"}, 200),
        ({"Sec-Fetch-Site": "cross-site"}, 401),
        ({"Sec-Fetch-Site": "same-site"}, 401),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "null"}, 401),
        ({"Origin": "https://evil.example"}, 401),
        ({"Origin": "null"}, 401),
        ({"Origin": "http://["}, 401),
        ({"Origin": "https://pay.florin.example.evil.example"}, 401),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://evil.example"}, 401),
    ],
)
async def test_a_form_from_another_site_is_refused(desk, headers, status):
    pos = await open_pos(desk)
    assert (await submit_form(desk, await pos.url(), **headers)).status == status
    assert count_stored(desk, pos) == (1 if status == 200 else 0)


async def test_forms_are_limited(tmp_path):
    limits = LimitSettings(
        **{
            **NO_LIMITS.model_dump(),
            "payment_per_minute": 60,
            "payment_burst": 3,
            "failure_per_minute": 60,
            "failure_burst": 4,
        }
    )
    async with open_service(tmp_path, capture=CAPTURE_SETTINGS, limits=limits) as desk:
        pos, other = await open_pos(desk), await open_pos(desk)
        url = await pos.url()
        for _ in range(3):
            assert (await submit_form(desk, url)).status == 200
        over = await submit_form(desk, url)
        assert over.refusal == (429, "rate_limited")
        assert over.headers["Retry-After"] == "1"
        assert (await submit_form(desk, await other.url())).status == 200
        # payment and account give anyone the token: another IP address has its own limit
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.7", 0))
        async with aiohttp.ClientSession(connector=connector) as buyer:
            sent = {"token": get_query(url)["t"], "data": DATA}
            async with buyer.post(f"{desk.rest.base}/collect/", json=sent) as answer:
                assert answer.status == 200
        # guesses are refused failures like any other
        guess = {"token": "00" * 32, "data": DATA}
        result = [(await desk.ask("POST", "/collect/", body=guess)).status for _ in range(5)]
        assert result == [401] * 4 + [429]


async def test_forms_and_pages_share_the_limit_of_an_address(tmp_path):
    limits = LimitSettings(**{**NO_LIMITS.model_dump(), "page_per_minute": 60, "page_burst": 3})
    async with open_service(tmp_path, capture=CAPTURE_SETTINGS, limits=limits) as desk:
        pos = await open_pos(desk)
        url = await pos.url()
        for _ in range(3):
            assert (await desk.ask("GET", get_path(url))).status == 200
        assert (await desk.ask("GET", get_path(url))).status == 429
        over = await submit_form(desk, url)
        assert over.refusal == (429, "rate_limited")
        assert over.headers["Retry-After"] == "1"


async def test_data_is_deleted_when_its_time_is_over(desk):
    pos = await open_pos(desk)
    await submit_form(desk, await pos.url())
    assert await pos.pay() == "succeeded"
    desk.clock.advance(30 * DAY_S - 10)
    later = await open_pos(desk, pos.wallet)
    assert (await later.option())["collectData"] is None
    desk.clock.advance(10)
    assert (await later.option())["collectData"] is not None
    desk.clock.advance(3600)
    await wait_deleted(desk, pos)
