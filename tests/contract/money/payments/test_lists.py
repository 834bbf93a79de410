"""Lists of payments, as callers request them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import grpc
import pytest
import pytest_asyncio
from florin.v1 import listing_pb2, merchant_pb2_grpc
from florin_server.money.payments.service import lists
from google.protobuf.timestamp_pb2 import Timestamp

from tests.support.api import grpc_metadata
from tests.support.api import to_api_call_error as refusal
from tests.support.json import to_json
from tests.support.service_harness import DEPLOYED, ORDER, SPEC, PartnerTenant, ServiceHarness

pytestmark = pytest.mark.asyncio(loop_scope="module")

OURS, PARTNERS = "/v1/merchants/payments", "/v1/payments"


@dataclass
class Shop(PartnerTenant):
    other: str


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shop(desk) -> Shop:
    """Create a merchant with an order of each kind, a minute apart, and a second merchant."""
    tenant: PartnerTenant = await desk.tenant()
    other = await desk.tenant()
    await other.change_merchant(partner_id=tenant.partner.id, name="Cake House")
    token = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
    for headers, unit, value, reference in (
        (tenant.headers, "iso4217/USD", "300", "cup 100%"),
        (tenant.headers, "iso4217/EUR", "200", "cup 1000"),
        ({**tenant.headers, "Merchant-Id": other.merchant.id}, token, "100", "cake_1"),
        (tenant.headers, "iso4217/USD", "200", "Cup"),
    ):
        body = {
            "amount": {"unit": unit, "value": value},
            "referenceId": reference,
            "expiresAt": desk.now + 86_400,
        }
        answer = await desk.ask("POST", "/v1/payments", headers, body)
        assert answer.status == 201, answer.text
        desk.clock.advance(60)
    cancelled = f"/v1/payments/{answer.body['paymentId']}/cancel"
    assert (await desk.ask("POST", cancelled, tenant.headers)).status == 200
    return Shop(**vars(tenant), other=other.merchant.id)


async def read_references(
    desk: ServiceHarness, shop: Shop, query: str = "", path: str = PARTNERS
) -> list[str]:
    """Return the references of a list."""
    answer = await desk.ask("GET", f"{path}?{query}", shop.headers)
    assert answer.status == 200, answer.text
    assert answer.body["stats"]["totalTransactions"] >= len(answer.body["data"])
    return [row["referenceId"] for row in answer.body["data"]]


ALL = ["Cup", "cake_1", "cup 1000", "cup 100%"]


@pytest.mark.parametrize(
    ("query", "references"),
    [
        ("", ALL),
        ("sortDir=asc", ALL[::-1]),
        ("sortBy=amount", ["cup 100%", "Cup", "cup 1000", "cake_1"]),
        ("sortBy=amount&sortDir=asc", ["cake_1", "cup 1000", "Cup", "cup 100%"]),
        ("status=cancelled", ["Cup"]),
        ("status=cancelled,requires_action", ALL),
        ("status=cancelled&status=succeeded", ["Cup"]),
        ("status=succeeded", []),
        ("referenceId=cup", ["cup 1000", "cup 100%"]),
        ("referenceId=100%25", ["cup 100%"]),
        ("referenceId=cake_1", ["cake_1"]),
        ("referenceId=cakex1", []),
        ("token_symbol=TUSD", ["cake_1"]),
        ("token_symbol=eth&token_symbol=tusd", ["cake_1"]),
        ("token_symbol=usd", []),
        ("network=eip155:31337", ["cake_1"]),
        ("network=eip155:1,eip155:31337", ["cake_1"]),
        ("network=eip155:1", []),
        ("unknown=1", ALL),
    ],
)
async def test_list_filter_returns_matching_payments(desk, shop, query, references):
    assert await read_references(desk, shop, query) == references


async def test_an_asset_is_named_in_either_way_and_any_case(desk, shop):
    asset = desk.env["FLORIN_EVM_ASSET"]
    for name in (asset, f"caip19/{asset}", asset.upper().replace("EIP155", "eip155")):
        named = name.replace("ERC20", "erc20")
        assert await read_references(desk, shop, f"asset={quote(named)}") == ["cake_1"]
    assert await read_references(desk, shop, f"asset={quote(asset)}&token_symbol=ETH") == []


async def test_time_range_is_half_open(desk, shop):
    answer = await desk.ask("GET", PARTNERS, shop.headers)
    shown = {row["referenceId"]: row["createdAt"] for row in answer.body["data"]}
    first, last = shown["cup 1000"], shown["Cup"]
    assert await read_references(desk, shop, f"startTs={first}&endTs={last}") == [
        "cake_1",
        "cup 1000",
    ]
    # a plus that was decoded as a blank
    offset = first.replace("Z", "+00:00")
    assert await read_references(desk, shop, f"startTs={offset}") == ALL[:3]
    assert await read_references(desk, shop, f"startTs={quote(offset)}") == ALL[:3]
    assert await read_references(desk, shop, f"startTs={last}&endTs={first}") == []


async def test_a_merchant_sees_its_own_and_a_partner_all_of_them(desk, shop):
    assert await read_references(desk, shop, path=OURS) == ["Cup", "cup 1000", "cup 100%"]
    assert await read_references(desk, shop, f"merchantId={shop.other}") == ["cake_1"]
    assert (
        await read_references(desk, shop, f"merchantId={shop.other}&merchantId={shop.merchant.id}")
        == ALL
    )
    # on the merchant's own path the parameter has no effect
    assert len(await read_references(desk, shop, f"merchantId={shop.other}", OURS)) == 3


async def test_foreign_merchant_or_mode_returns_no_payments(desk, shop):
    foreign = desk.env["FLORIN_MERCHANT_ID"]
    assert await read_references(desk, shop, f"merchantId={foreign}") == []
    assert await read_references(desk, shop, f"merchantId={foreign}&merchantId={shop.other}") == [
        "cake_1"
    ]
    _, live_key = await desk.key(shop.partner.id, live=True)
    for query in ("", f"merchantId={shop.other}"):
        answer = await desk.ask("GET", f"{PARTNERS}?{query}", {"Api-Key": live_key})
        assert answer.body == {
            "data": [],
            "nextCursor": None,
            "stats": {"totalRevenue": [], "totalTransactions": 0, "totalCustomers": 0},
        }


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=5.0", "limit"),
        ("limit=", "limit"),
        ("limit=1&limit=1", "limit"),
        ("status=paid", "status"),
        ("status=failed,paid", "status"),
        ("status=", "status"),
        ("sortBy=value", "sortBy"),
        ("sortDir=up", "sortDir"),
        ("sortBy=date&sortBy=date", "sortBy"),
        ("startTs=2027-01-15", "startTs"),
        ("startTs=2027-01-15T00:00:00", "startTs"),
        ("endTs=2027-02-30T00:00:00Z", "endTs"),
        ("startTs=2027-01-15T00:00:00Z&startTs=2027-01-15T00:00:00Z", "startTs"),
        ("referenceId=ab", "referenceId"),
        ("referenceId=" + "a" * 256, "referenceId"),
        ("asset=USDC", "asset"),
        ("network=base", "network"),
        ("cursor=", "cursor"),
        ("cursor=AAAA", "cursor"),
        ("cursor=" + "A" * 513, "cursor"),
    ],
)
async def test_a_parameter_that_cannot_be_is_refused(desk, shop, query, field):
    for path in (PARTNERS, OURS):
        for profile in (SPEC, DEPLOYED):
            answer = await desk.ask("GET", f"{path}?{query}", {**shop.headers, **profile})
            assert answer.refusal == (400, "invalid_params"), answer.text
            assert [issue["field"] for issue in answer.body["issues"]] == [field]


async def test_a_walk_ends_with_null_and_may_change_the_size_of_pages(desk, shop):
    results, query, sizes = [], {"sortBy": "amount"}, iter([1, 2, 9])
    while True:
        path = f"{PARTNERS}?{urlencode({**query, 'limit': next(sizes)})}"
        body = (await desk.ask("GET", path, shop.headers)).body
        results.append([row["referenceId"] for row in body["data"]])
        if body["nextCursor"] is None:
            break
        query["cursor"] = body["nextCursor"]
    assert results == [["cup 100%"], ["Cup", "cup 1000"], ["cake_1"]]


async def test_a_cursor_belongs_to_its_filters_order_and_scope(desk, shop):
    page = (await desk.ask("GET", f"{PARTNERS}?limit=1", shop.headers)).body
    cursor = page["nextCursor"]
    assert await read_references(desk, shop, f"cursor={cursor}") == ALL[1:]
    remaining = [
        (f"{PARTNERS}?status=cancelled&", shop.headers),
        (f"{PARTNERS}?sortDir=asc&", shop.headers),
        (f"{PARTNERS}?sortBy=amount&", shop.headers),
        (f"{PARTNERS}?merchantId={shop.merchant.id}&", shop.headers),
        (f"{OURS}?", shop.headers),
        (f"{PARTNERS}?", desk.rest.merchant),
    ]
    for path, headers in remaining:
        answer = await desk.ask("GET", f"{path}cursor={cursor}", headers)
        assert answer.refusal == (400, "invalid_params")
        assert answer.body["message"] == (
            "cursor belongs to other filters or another order: repeat the filters of the first page"
        )
    damaged = cursor[:-1] + ("A" if cursor[-1] != "A" else "B")
    answer = await desk.ask("GET", f"{PARTNERS}?cursor={damaged}", shop.headers)
    assert (answer.refusal, answer.body["message"]) == (
        (400, "invalid_params"),
        "cursor is damaged: start again from the first page",
    )


@pytest.mark.parametrize("order", ["date", "amount"])
@pytest.mark.parametrize("path", [PARTNERS, OURS, "/v1/merchants/{}/payments"])
async def test_a_cursor_stays_good_in_another_range_of_times(desk, shop, path, order):
    older = "{}" in path
    path = path.format(shop.merchant.id)
    sort, start, end = (
        ("sort_by", "start_ts", "end_ts") if older else ("sortBy", "startTs", "endTs")
    )

    async def page(**query: str | int) -> tuple[list[dict[str, str]], str | None]:
        answer = await desk.ask("GET", f"{path}?{urlencode({sort: order, **query})}", shop.headers)
        body = answer.body
        assert answer.status == 200, body
        return body["data"], body["next_cursor" if older else "nextCursor"]

    created = "created_at" if older else "createdAt"
    everything, _ = await page()
    # a point of sale sets the end of the range to now, anew for every page
    first, cursor = await page(**{end: time_text(desk.now), "limit": 1})
    assert (first, cursor is None) == (everything[:1], False)
    rest = everything[1:]
    later, _ = await page(**{end: time_text(desk.now + 7), "cursor": cursor})
    assert later == (await page(cursor=cursor))[0] == rest
    # the requested range counts, not the range at the time of the cursor
    bound = max(row[created] for row in rest)
    assert (await page(**{start: bound, "cursor": cursor}))[0] == [
        row for row in rest if row[created] >= bound
    ]
    assert (await page(**{end: bound, "cursor": cursor}))[0] == [
        row for row in rest if row[created] < bound
    ]


def time_text(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat()


async def test_later_pages_repeat_the_totals_for_a_minute_and_first_pages_never(desk):
    tenant = await desk.tenant()

    async def total(query: str) -> tuple[int, Any]:
        body = (await desk.ask("GET", f"{PARTNERS}?limit=1&{query}", tenant.headers)).body
        return body["stats"]["totalTransactions"], body["nextCursor"]

    async def order() -> None:
        assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).status == 201

    await order()
    await order()
    count, cursor = await total("")
    assert count == 2
    await order()
    assert (await total(f"cursor={cursor}"))[0] == 2
    assert (await total(""))[0] == 3
    await order()
    desk.clock.advance(60)
    assert (await total(f"cursor={cursor}"))[0] == 3
    desk.clock.advance(0.001)
    assert (await total(f"cursor={cursor}"))[0] == 4


async def test_a_page_that_only_follows_an_index_needs_no_thread(desk, shop, monkeypatch):
    surveyed = []
    survey = desk.service.app.store.scan

    async def counted(op: Any) -> Any:
        # a worker compares the books with the chains meanwhile
        if op.steps.__name__ != "read_snapshot":
            surveyed.append(op)
        return await survey(op)

    monkeypatch.setattr(type(desk.service.app.store), "scan", lambda _, op: counted(op))
    for query, more in (("", 0), ("sortBy=amount&", 0), ("status=requires_action&", 1)):
        surveyed.clear()
        first = await desk.ask("GET", f"{PARTNERS}?{query}limit=1", shop.headers)
        assert len(surveyed) == 1
        cursor = first.body["nextCursor"]
        await desk.ask("GET", f"{PARTNERS}?{query}cursor={cursor}", shop.headers)
        assert len(surveyed) == 1 + more


async def test_grpc_list_matches_rest_and_refuses_the_same(desk, shop):
    stub = merchant_pb2_grpc.MerchantServiceStub(desk.channel)
    metadata = grpc_metadata(shop.headers)
    answer = await stub.ListPayments(
        listing_pb2.ListPaymentsRequest(limit=3), metadata=metadata, timeout=20
    )
    rest = (await desk.ask("GET", f"{PARTNERS}?limit=3", shop.headers)).body
    assert to_json(answer) == rest
    wrong = [
        {"limit": 0},
        {"limit": 201},
        {"status": [0]},
        {"status": [77]},
        {"sort_by": 9},
        {"start_ts": Timestamp(seconds=2**62)},
        {"end_ts": Timestamp(nanos=-1)},
        {"cursor": ""},
        {"asset": ["x"]},
    ]
    for fields in wrong:
        request = listing_pb2.ListPaymentsRequest(**fields)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ListPayments(request, metadata=metadata, timeout=20)
        assert refusal(caught.value).code == "invalid_params", fields


# the older call


def legacy(merchant_id: str, query: str = "") -> str:
    return f"/v1/merchants/{merchant_id}/payments?{query}"


async def test_the_older_list_has_its_own_names(desk, shop):
    path = legacy(shop.merchant.id, "sort_by=amount&sort_dir=asc&limit=2&status=cancelled")
    answer = await desk.ask("GET", path, {"Api-Key": shop.secret})
    assert [row["reference_id"] for row in answer.body["data"]] == ["Cup"]
    assert answer.headers["Deprecation"] == "@1771372800"
    assert answer.body["next_cursor"] is None
    start = answer.body["data"][0]["created_at"]
    for query, count in ((f"start_ts={start}", 1), (f"end_ts={start}", 2)):
        answer = await desk.ask("GET", legacy(shop.merchant.id, query), {"Api-Key": shop.secret})
        assert len(answer.body["data"]) == count


async def test_legacy_list_reports_no_revenue_as_zero_dollars(desk, shop):
    answer = await desk.ask("GET", legacy(shop.merchant.id), {"Api-Key": shop.secret})
    assert answer.body["stats"] == {
        "total_customers": 0,
        "total_transactions": 3,
        "total_revenue": {"amount": 0.0, "currency": "USD"},
    }


async def test_legacy_list_reports_the_currency_with_the_largest_revenue(desk):
    tenant = await desk.tenant()
    for unit, value in (("iso4217/USD", "9999"), ("iso4217/EUR", "10000"), (None, "5000000")):
        asset = f"caip19/{desk.env['FLORIN_EVM_ASSET']}"
        amount = {"unit": unit or asset, "value": value}
        created = await desk.ask("POST", "/v1/payments", tenant.headers, {"amount": amount})
        path = f"/v1/sandbox/payments/{created.body['paymentId']}/simulate"
        answer = await desk.ask("POST", path, tenant.headers, {"outcome": "succeeded"})
        assert answer.status == 200, answer.text
    answer = await desk.ask("GET", legacy(tenant.merchant.id), {"Api-Key": tenant.secret})
    assert answer.body["stats"]["total_revenue"] == {"amount": 100.0, "currency": "EUR"}
    answer = await desk.ask("GET", PARTNERS, tenant.headers)
    revenue = {item["currency"]: item["amount"] for item in answer.body["stats"]["totalRevenue"]}
    assert revenue == {"USD": 99.99, "EUR": 100.0, "tUSD": 5.0}


async def test_a_fiat_amount_that_32_bits_do_not_hold_is_null_in_the_older_list(desk):
    tenant = await desk.tenant()
    for value in (2**31 - 1, 2**31):
        amount = {"unit": "iso4217/USD", "value": str(value)}
        answer = await desk.ask("POST", "/v1/payments", tenant.headers, {"amount": amount})
        assert answer.status == 201, answer.text
    query = legacy(tenant.merchant.id, "sort_by=amount")
    rows = (await desk.ask("GET", query, {"Api-Key": tenant.secret})).body["data"]
    assert [row["fiat_amount"] for row in rows] == [None, 2**31 - 1]
    assert [row["fiat_currency"] for row in rows] == ["USD", "USD"]


async def test_the_older_list_knows_the_partners_own_merchants_only(desk, shop):
    _, live_key = await desk.key(shop.partner.id, live=True)
    for merchant_id, key in (
        ("mrch_unknown", shop.secret),
        (desk.env["FLORIN_MERCHANT_ID"], shop.secret),
        (shop.merchant.id, live_key),
    ):
        for profile, code in ((SPEC, "merchant_not_found"), (DEPLOYED, "not_found")):
            answer = await desk.ask("GET", legacy(merchant_id), {"Api-Key": key, **profile})
            assert answer.refusal == (404, code)


async def test_the_history_of_a_deleted_merchant_stays(desk):
    tenant = await desk.tenant()
    assert (await desk.ask("POST", "/v1/payments", tenant.headers, ORDER)).status == 201
    await tenant.change_merchant(deleted_at_us=desk.clock.now_us())
    for path in (
        legacy(tenant.merchant.id),
        PARTNERS,
        f"{PARTNERS}?merchantId={tenant.merchant.id}",
    ):
        answer = await desk.ask("GET", path, {"Api-Key": tenant.secret})
        assert len(answer.body["data"]) == 1


async def test_looking_for_few_by_amount_changes_no_answer(desk, shop, monkeypatch):
    answers = []
    for few in (0, 1000):
        monkeypatch.setattr(lists, "_COUNTED_MAX", few)
        answer = await desk.ask("GET", f"{PARTNERS}?sortBy=amount&referenceId=cup", shop.headers)
        answers.append(answer.body["data"])
    assert answers[0] == answers[1] != []
