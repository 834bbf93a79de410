"""Test a partner's merchants: ownership, changes, and stable lists."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import merchants
from florin_server.accounts.store.merchants import MerchantListQuery
from florin_server.db.engine.query import StoreError
from florin_server.domain.accounts.contact import SupportContact
from florin_server.domain.payments.payment import Merchant

from tests.support.store_kit import LATER_US, NOW_US

SHOP = Merchant(
    "mer_1", "par_1", "Shop", "shop@shop.example", "https://shop.example/i", "active", False, NOW_US
)
OWN = {"merchant_id": "mer_1", "partner_id": "par_1", "live": False}
NOT_OWN = [{"merchant_id": "mer_2"}, {"partner_id": "par_2"}, {"live": True}]
ALL = MerchantListQuery("par_1", live=False)


async def list_merchants(store, expected=ALL, after=None, limit=100):
    page = await store.scan(merchants.list_page(expected, after, limit))
    assert page.total >= len(page.merchants)
    return [merchant.id for merchant in page.merchants], page.total, page.has_more


async def named(store, *names):
    for number, name in enumerate(names, start=1):
        merchant = replace(SHOP, id=f"mer_{number}", name=name, created_at_us=NOW_US - number)
        await store.write(merchants.create(merchant))


async def test_merchant_id_is_unique(store):
    assert await store.write(merchants.create(SHOP)) == SHOP
    with pytest.raises(StoreError, match="(?i)unique"):
        await store.write(merchants.create(replace(SHOP, partner_id="par_2")))
    assert await store.read(merchants.find_merchant("mer_1")) == SHOP


@pytest.mark.parametrize("other", NOT_OWN)
async def test_merchant_belongs_to_a_single_partner_and_mode(store, other):
    await store.write(merchants.create(SHOP))
    assert await store.read(merchants.find_owned(**OWN)) == SHOP
    who = {**OWN, **other}
    assert await store.read(merchants.find_owned(**who)) is None
    assert await store.write(merchants.change(**who, name="Mine")) is None
    assert await store.write(merchants.delete(**who, now_us=LATER_US)) is False
    assert await store.read(merchants.find_owned(**OWN)) == SHOP


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"name": "Store"}, {"name": "Store"}),
        ({"email": "new@shop.example"}, {"email": "new@shop.example"}),
        ({"icon_url": "https://shop.example/j"}, {"icon_url": "https://shop.example/j"}),
        ({"icon_url": ""}, {"icon_url": None}),
        ({"support": SupportContact("help@shop.example")}, {"support_email": "help@shop.example"}),
        ({"support": SupportContact(url="")}, {"support_url": None}),
        ({}, {}),
    ],
)
async def test_a_change_leaves_the_rest(store, change, expected):
    await store.write(merchants.create(SHOP))
    changed = replace(SHOP, **expected)
    assert await store.write(merchants.change(**OWN, **change)) == changed
    assert await store.read(merchants.find_owned(**OWN)) == changed


async def test_support_contact_of_a_merchant_changes_alone(store):
    await store.write(merchants.create(SHOP))
    change = SupportContact("", "https://shop.example/help")
    changed = replace(SHOP, support_email=None, support_url="https://shop.example/help")
    assert await store.write(merchants.set_support(SHOP.id, change)) == changed
    assert await store.write(merchants.set_support("mer_none", change)) is None


async def test_deleted_merchant_is_retained_but_not_returned_to_its_partner(store):
    await store.write(merchants.create(SHOP))
    deleted = replace(SHOP, deleted_at_us=LATER_US)
    for at_us in (LATER_US, LATER_US + 1):
        assert await store.write(merchants.delete(**OWN, now_us=at_us)) is True
        assert await store.read(merchants.find_merchant("mer_1")) == deleted
    assert await store.read(merchants.find_owned(**OWN)) is None
    assert await store.write(merchants.change(**OWN, name="Ghost")) is None
    assert await list_merchants(store) == ([], 0, False)


async def test_pages_are_newest_first_and_end(store):
    # three at one time, so that the order also needs the ID
    for number, age in ((1, 5), (2, 3), (3, 3), (4, 3), (5, 1)):
        merchant = replace(SHOP, id=f"mer_{number}", created_at_us=NOW_US - age)
        await store.write(merchants.create(merchant))
    assert await list_merchants(store) == (["mer_5", "mer_4", "mer_3", "mer_2", "mer_1"], 5, False)
    assert await list_merchants(store, limit=5) == (
        ["mer_5", "mer_4", "mer_3", "mer_2", "mer_1"],
        5,
        False,
    )
    assert await list_merchants(store, limit=2) == (["mer_5", "mer_4"], 5, True)
    after = (NOW_US - 3, "mer_4")
    assert await list_merchants(store, after=after, limit=2) == (["mer_3", "mer_2"], 5, True)
    # a merchant created in between moves nothing
    await store.write(merchants.create(replace(SHOP, id="mer_6", created_at_us=NOW_US)))
    after = (NOW_US - 3, "mer_2")
    assert await list_merchants(store, after=after, limit=2) == (["mer_1"], 6, False)
    assert await list_merchants(store, after=(NOW_US - 5, "mer_1")) == ([], 6, False)


async def test_merchant_list_is_limited_to_its_partner_mode_and_status(store):
    remaining = [{"partner_id": "par_2"}, {"live": True}, {"status": "suspended"}]
    for number, other in enumerate([{}, *remaining], start=1):
        await store.write(merchants.create(replace(SHOP, id=f"mer_{number}", **other)))
    assert await list_merchants(store) == (["mer_4", "mer_1"], 2, False)
    assert await list_merchants(store, replace(ALL, status="suspended")) == (["mer_4"], 1, False)
    assert await list_merchants(store, replace(ALL, status="inactive")) == ([], 0, False)
    assert await list_merchants(store, replace(ALL, live=True)) == (["mer_3"], 1, False)
    assert await list_merchants(store, replace(ALL, partner_id="par_2")) == (["mer_2"], 1, False)


@pytest.mark.parametrize(
    ("search", "names"),
    [
        ("corner", {"Corner Café"}),
        ("CAFÉ", {"Corner Café", "CAFÉ NOIR"}),
        # the accent as a separate character
        ("cafe\u0301", {"Corner Café", "CAFÉ NOIR"}),
        ("cafe", set()),
        ("ёлки", {"ЁЛКИ"}),
        ("strasse", {"Königstraße 7"}),
        ("KÖNIG", {"Königstraße 7"}),
        ("%", {"100%_off"}),
        ("_", {"100%_off"}),
        ("0%_O", {"100%_off"}),
        ("\\", set()),
        ("[a-z]*", set()),
        ("MER_2", {"CAFÉ NOIR"}),
        (" ", {"Corner Café", "CAFÉ NOIR", "Königstraße 7"}),
        ("x" * 256, set()),
    ],
)
async def test_a_search_finds_parts_of_names_and_ids_in_any_case(store, search, names):
    every = ("Corner Café", "CAFÉ NOIR", "ЁЛКИ", "Königstraße 7", "100%_off")
    await named(store, *every)
    # every ID has an underscore
    expected_names = names if search != "_" else set(every)
    page = await store.scan(merchants.list_page(replace(ALL, search=search), None, 100))
    assert {merchant.name for merchant in page.merchants} == expected_names
    assert page.total == len(expected_names)
    await store.write(merchants.delete("mer_1", "par_1", live=False, now_us=LATER_US))
    page = await store.scan(merchants.list_page(replace(ALL, search=search), None, 100))
    assert {merchant.name for merchant in page.merchants} == expected_names - {"Corner Café"}


async def test_a_search_is_paged_like_the_rest(store):
    await named(store, "Tea 1", "Coffee", "tea 2", "Tea 3", "Juice", "TEA 4")
    query = replace(ALL, search="tea")
    assert await list_merchants(store, query, limit=2) == (["mer_1", "mer_3"], 4, True)
    assert await list_merchants(store, query, after=(NOW_US - 3, "mer_3"), limit=2) == (
        ["mer_4", "mer_6"],
        4,
        False,
    )
