"""Lists of a partner's merchants, over REST and over gRPC."""

from __future__ import annotations

import asyncio

import pytest
import pytest_asyncio

from tests.support.accounts import PROTOCOLS, PartnerAccount, to_refusal
from tests.support.service_harness import PartnerTenant

pytestmark = [
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.parametrize("protocol", PROTOCOLS),
]


@pytest_asyncio.fixture(loop_scope="module")
async def tenant(desk) -> PartnerTenant:
    return await desk.tenant()


@pytest.fixture
def account(tenant, protocol) -> PartnerAccount:
    return PartnerAccount(tenant, protocol)


async def walk(account, between=None, **query):
    """Return the ids of all pages, and the total on each page."""
    pages, totals, cursor = [], [], {}
    while True:
        page = (await account.ask("ListMerchants", {**query, **cursor})).body
        pages.append([merchant["id"] for merchant in page["merchants"]])
        totals.append(page["totalCount"])
        if page["nextCursor"] is None:
            return pages, totals
        cursor = {"cursor": page["nextCursor"]}
        if between is not None:
            await between()


async def test_pagination_returns_each_merchant_once_despite_new_merchants(desk, account, tenant):
    existing = [tenant.merchant.id]
    for number in range(5):
        desk.clock.advance(0 if number == 3 else 0.001)  # two of one moment
        existing.insert(0, (await account.create(merchantName=f"Shop {number}"))["id"])

    async def another():
        desk.clock.advance(1)
        await account.create(merchantName="Late shop")

    pages, totals = await walk(account, limit=2)
    seen = [merchant for page in pages for merchant in page]
    assert [len(page) for page in pages] == [2, 2, 2]
    assert seen[0] == existing[0]
    assert sorted(seen) == sorted(existing)
    assert totals == [6, 6, 6]
    pages, totals = await walk(account, another, limit=2)
    assert [merchant for page in pages for merchant in page] == seen
    assert totals == [6, 7, 8]


async def test_pagination_continues_after_its_cursor_merchant_is_deleted(desk, account):
    created = []
    for _ in range(4):
        desk.clock.advance(1)
        created.insert(0, (await account.create())["id"])
    page = (await account.ask("ListMerchants", {"limit": 2})).body
    await account.ask("DeleteMerchant", merchant=created[1])
    following = {"limit": 2, "cursor": page["nextCursor"]}
    page = (await account.ask("ListMerchants", following)).body
    assert [merchant["id"] for merchant in page["merchants"]] == created[2:]
    assert page["totalCount"] == 4


async def test_default_page_size_is_twenty(account):
    await asyncio.gather(*(account.create() for _ in range(21)))
    page = (await account.ask("ListMerchants")).body
    assert (len(page["merchants"]), page["totalCount"]) == (20, 22)
    page = (await account.ask("ListMerchants", {"limit": 100})).body
    assert (len(page["merchants"]), page["nextCursor"]) == (22, None)


async def test_a_list_is_filtered_by_status(account, tenant):
    created = await account.create()
    await tenant.change_merchant(status="suspended")
    for status, expected in (
        ("active", [created["id"]]),
        ("suspended", [tenant.merchant.id]),
        ("inactive", []),
    ):
        page = (await account.ask("ListMerchants", {"status": status})).body
        assert [merchant["id"] for merchant in page["merchants"]] == expected
        assert page["totalCount"] == len(expected)
        assert all(merchant["status"] == status for merchant in page["merchants"])


@pytest.mark.parametrize(
    ("search", "expected"),
    [
        ("café", {"Café Zürich", "CAFÉ 100%"}),
        ("ZÜRICH", {"Café Zürich"}),
        ("100%", {"CAFÉ 100%"}),
        ("%", {"CAFÉ 100%"}),
        ("é_z", set()),
        ("A_B", {"a_b"}),
        ("\\", set()),
        ("'", set()),
    ],
)
async def test_a_search_knows_accents_and_no_wildcards(account, search, expected):
    for name in ("Café Zürich", "CAFÉ 100%", "a_b", "axb"):
        await account.create(merchantName=name)
    page = (await account.ask("ListMerchants", {"search": search})).body
    assert {merchant["name"] for merchant in page["merchants"]} == expected
    assert page["totalCount"] == len(expected)


async def test_a_search_finds_parts_of_ids_in_any_case(account):
    created, _ = await account.create(), await account.create()
    for part in (created["id"], created["id"][5:].upper(), created["id"][8:].lower()):
        page = (await account.ask("ListMerchants", {"search": part})).body
        assert [merchant["id"] for merchant in page["merchants"]] == [created["id"]]


async def test_a_cursor_belongs_to_its_filters_and_its_partner(desk, account, protocol):
    for _ in range(3):
        await account.create()
    query = {"search": "zürich", "limit": 1}
    cursor = (await account.ask("ListMerchants", query)).body["nextCursor"]
    assert (await account.ask("ListMerchants", {**query, "limit": 2, "cursor": cursor})).body
    other = PartnerAccount(await desk.tenant(), protocol)
    for who, body in (
        (account, {"limit": 1, "cursor": cursor}),
        (account, {**query, "search": "Zürich", "cursor": cursor}),
        (account, {**query, "status": "active", "cursor": cursor}),
        (account, {**query, "cursor": cursor[:-1] + ("A" if cursor[-1] != "A" else "B")}),
        (account, {**query, "cursor": "nonsense"}),
        (other, {**query, "cursor": cursor}),
    ):
        assert to_refusal(await who.get_refusal("ListMerchants", body)) == (400, "invalid_params")


@pytest.mark.parametrize(
    "query",
    [
        {"limit": 0},
        {"limit": 101},
        {"limit": -1},
        {"search": ""},
        {"search": "x" * 257},
        {"cursor": "x" * 513},
    ],
)
async def test_invalid_list_query_is_refused(account, query):
    error = await account.get_refusal("ListMerchants", query)
    assert to_refusal(error) == (400, "invalid_params")
    assert [issue["field"] for issue in error.issues] == [*query]
