"""The form that asks who pays: what it takes, once, and from whom."""

from __future__ import annotations

import asyncio

import aiohttp
import pytest
import pytest_asyncio
from florin_server.config import LimitSettings

from tests.support.capture import (
    ASKED,
    DATA,
    DAY_S,
    Till,
    hand_in,
    items,
    new_till,
    path_of,
    query_of,
    refusal,
    stored,
)
from tests.support.desk import opened
from tests.support.service import NO_LIMITS

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def desk(tmp_path_factory):
    async with opened(tmp_path_factory.mktemp("forms"), capture=ASKED) as desk:
        yield desk


@pytest_asyncio.fixture(loop_scope="module", params=["rest", "grpc"])
async def till(request, desk) -> Till:
    return await new_till(desk, api=getattr(desk, request.param))


async def test_a_payment_with_a_form(desk, till):
    option = await till.option()
    refused = await refusal(till.fetch(option["actions"][0]["data"]["data"]))
    assert (refused.http, refused.code) == (400, "params_validation")
    assert refused.message == "IC data required but not found"
    url = option["collectData"]["url"]
    assert refused.details == {"reason": "ic_required", "url": url}
    answer = await hand_in(desk, url)
    assert (answer.status, answer.body) == (200, {"status": "success"})
    actions = await till.fetch(option["actions"][0]["data"]["data"])
    assert [one["type"] for one in actions] == ["walletRpc"]
    now = await till.option()
    assert (now["id"], now["collectData"], now["actions"]) == (option["id"], None, actions)
    assert await till.pay() == "succeeded"
    # after that it is only read
    repeated = await till.api.confirm(
        till.payment_id, option["id"], [till.wallet.execute(*actions)]
    )
    assert repeated["status"] == "succeeded"


async def test_without_data_nothing_is_confirmed(desk, till):
    option = await till.option()
    guessed = ["0x" + "11" * 65]
    for outputs in (guessed, guessed * 2):
        refused = await refusal(till.api.confirm(till.payment_id, option["id"], outputs))
        assert (refused.http, refused.code) == (400, "params_validation")
        assert refused.details["reason"] == "ic_required"
    assert (await desk.rest.status(till.payment_id))["status"] == "requires_action"
    # the address of the form is in the refusal too
    assert (await hand_in(desk, refused.details["url"])).status == 200
    assert await till.pay() == "succeeded"


async def test_foreign_build_data_is_still_foreign(till):
    other = await new_till(till.desk)
    (foreign,) = (await other.option())["actions"]
    for data in ("00" * 16, foreign["data"]["data"]):
        assert (await refusal(till.fetch(data, DATA))).code == "invalid_params"
    assert stored(till.desk, till) == 0


async def test_the_same_data_again_is_a_success_and_other_data_is_not(desk):
    till = await new_till(desk)
    url = await till.url()
    assert (await hand_in(desk, url)).status == 200
    before = desk.rows()
    assert (await hand_in(desk, url, items(DATA))).status == 200
    for other in ({**DATA, "fullName": "Eve"}, {**DATA, "porCountry": "FR", "porAddress": "x"}):
        assert (await hand_in(desk, url, other)).told == (401, "unauthorized")
    assert (await hand_in(desk, url, {})).told == (400, "params_validation")
    assert desk.rows() == before
    # also when it is all over: the first answer may have been lost
    await desk.rest.cancel(till.payment_id)
    assert (await hand_in(desk, url)).status == 200


async def test_ten_at_once_are_one(desk):
    till = await new_till(desk)
    url = await till.url()
    names = [f"Ada {n % 2}" for n in range(10)]
    answers = await asyncio.gather(
        *(hand_in(desk, url, {**DATA, "fullName": name}) for name in names)
    )
    told = sorted(answer.status for answer in answers)
    assert told == [200] * 5 + [401] * 5
    assert stored(desk, till) == 1


@pytest.mark.parametrize("token", ["", "x", "00" * 32, "ä" * 64, "0" * 30_000])
async def test_a_token_that_was_never_given_out_is_refused(desk, token):
    answer = await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})
    assert answer.told == (401, "unauthorized")
    assert "requestId" in answer.body


async def test_a_form_dies_with_its_payment(desk):
    late, cancelled = await new_till(desk, expiresAt=desk.now + 100), await new_till(desk)
    urls = [await late.url(), await cancelled.url()]
    await desk.rest.cancel(cancelled.payment_id)
    desk.clock.advance(99)
    assert (await hand_in(desk, urls[1])).told == (401, "unauthorized")
    desk.clock.advance(1)
    assert (await hand_in(desk, urls[0])).told == (410, "payment_expired")
    assert (stored(desk, late), stored(desk, cancelled)) == (0, 0)
    # whoever has it open for days is told why
    desk.clock.advance(DAY_S)
    assert (await hand_in(desk, urls[0])).told == (410, "payment_expired")


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
async def test_what_is_wrong_with_a_form_is_named(desk, body, fields):
    till = await new_till(desk)
    token = query_of(await till.url())["t"]
    sent = {name: token if value == "TOKEN" else value for name, value in body.items()}
    answer = await desk.ask("POST", "/collect/", body=sent)
    assert answer.told == (400, "params_validation")
    named = [issue["field"] for issue in answer.body["issues"]]
    if fields is None:
        assert {"data[1]", "data.dob"} < set(named)
    else:
        assert set(named) >= set(fields)
        assert len(named) == len(fields) or "data" in fields
    assert "Marker" not in answer.text
    assert stored(desk, till) == 0
    # the token is as good as before
    assert (await desk.ask("POST", "/collect/", body={"token": token, "data": DATA})).status == 200


@pytest.mark.parametrize(
    ("data", "kind", "told"),
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
async def test_what_is_no_form_is_refused(desk, data, kind, told):
    answer = await desk.ask("POST", "/collect/", {"Content-Type": kind}, data=data)
    assert answer.told == told


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
    till = await new_till(desk)
    assert (await hand_in(desk, await till.url(), **headers)).status == status
    assert stored(desk, till) == (1 if status == 200 else 0)


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
    async with opened(tmp_path, capture=ASKED, limits=limits) as desk:
        till, other = await new_till(desk), await new_till(desk)
        url = await till.url()
        for _ in range(3):
            assert (await hand_in(desk, url)).status == 200
        over = await hand_in(desk, url)
        assert over.told == (429, "rate_limited")
        assert over.headers["Retry-After"] == "1"
        assert (await hand_in(desk, await other.url())).status == 200
        # whoever knows payment and account has the token: at another address that counts apart
        connector = aiohttp.TCPConnector(local_addr=("127.0.0.7", 0))
        async with aiohttp.ClientSession(connector=connector) as buyer:
            sent = {"token": query_of(url)["t"], "data": DATA}
            async with buyer.post(f"{desk.rest.base}/collect/", json=sent) as answer:
                assert answer.status == 200
        # guesses are refused failures like any other
        guess = {"token": "00" * 32, "data": DATA}
        told = [(await desk.ask("POST", "/collect/", body=guess)).status for _ in range(5)]
        assert told == [401] * 4 + [429]


async def test_forms_and_pages_share_the_limit_of_an_address(tmp_path):
    limits = LimitSettings(**{**NO_LIMITS.model_dump(), "page_per_minute": 60, "page_burst": 3})
    async with opened(tmp_path, capture=ASKED, limits=limits) as desk:
        till = await new_till(desk)
        url = await till.url()
        for _ in range(3):
            assert (await desk.ask("GET", path_of(url))).status == 200
        assert (await desk.ask("GET", path_of(url))).status == 429
        over = await hand_in(desk, url)
        assert over.told == (429, "rate_limited")
        assert over.headers["Retry-After"] == "1"
