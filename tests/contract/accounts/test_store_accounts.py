"""Test partners, merchants, keys and wallet apps."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import keys, merchants, pins
from florin_server.db.engine.query import StoreError
from florin_server.domain.accounts.account import (
    SCOPES,
    ApiKey,
    Partner,
    WalletApp,
)
from florin_server.domain.accounts.credentials import ApiKeyKind
from florin_server.domain.payments.payment import Merchant

from tests.support.store_factories import LATER_US, NOW_US

PARTNER = Partner("par_1", "Shop Ltd", "2026-01-01", "active", NOW_US)
MERCHANT = Merchant(
    "mer_1", "par_1", "Shop", "shop@shop.example", None, "active", False, NOW_US, None
)
PARTNER_KEY = ApiKey(
    "abcdefgh", ApiKeyKind.PARTNER, False, "par_1", b"\x01" * 32, "9xYz", SCOPES, None, NOW_US
)
WALLET_KEY = replace(
    PARTNER_KEY,
    key_id="hgfedcba",
    kind=ApiKeyKind.WALLET,
    live=True,
    partner_id=None,
    hash=b"\x02" * 32,
    scopes=frozenset(),
    version_pin="2026-01-01",
    created_at_us=LATER_US,
)
APP = WalletApp("app_1", "Wallet", "https://w.example/i", True, "2026-01-01", NOW_US)


async def test_a_partner_is_stored_and_changed(store):
    assert await store.read(merchants.find_partner("par_1")) is None
    assert not await store.read(merchants.has_partners())
    for partner in (PARTNER, replace(PARTNER, name="Shop Inc", status="suspended")):
        await store.write(merchants.put_partner(partner))
        assert await store.read(merchants.find_partner("par_1")) == partner
    assert await store.read(merchants.has_partners())


async def test_stored_merchants_are_changed_and_read_at_once(store):
    other = replace(MERCHANT, id="mer_2", icon_url="https://shop.example/i", live=True)
    for merchant in (MERCHANT, other):
        await store.write(merchants.put_merchant(merchant))
    assert await store.read(merchants.find_merchants(["mer_1", "mer_2", "mer_3"])) == {
        "mer_1": MERCHANT,
        "mer_2": other,
    }
    deleted = replace(MERCHANT, status="inactive", deleted_at_us=LATER_US)
    await store.write(merchants.put_merchant(deleted))
    assert await store.read(merchants.find_merchant("mer_1")) == deleted
    assert await store.read(merchants.find_merchant("mer_3")) is None


async def test_a_status_that_does_not_exist_is_refused(store):
    with pytest.raises(StoreError, match="(?i)check"):
        await store.write(merchants.put_merchant(replace(MERCHANT, status="rich")))


async def test_keys_are_read_listed_and_revoked_once(store):
    for key in (PARTNER_KEY, WALLET_KEY):
        await store.write(keys.put_key(key))
        assert await store.read(keys.find_key(key.key_id)) == key
    assert await store.read(keys.list_keys("par_1")) == [PARTNER_KEY]
    assert await store.read(keys.list_keys(None)) == [WALLET_KEY, PARTNER_KEY]
    revoked = replace(PARTNER_KEY, revoked_at_us=LATER_US)
    for at_us in (LATER_US, LATER_US + 1):
        assert await store.write(keys.revoke_key(PARTNER_KEY.key_id, at_us)) == revoked
    assert await store.write(keys.revoke_key("unknown", LATER_US)) is None
    assert await store.read(keys.find_key("unknown")) is None


@pytest.mark.parametrize("change", [{"hash": b"\x09" * 32}, {"key_id": "another1"}])
async def test_a_key_is_stored_once(store, change):
    await store.write(keys.put_key(PARTNER_KEY))
    with pytest.raises(StoreError, match="(?i)unique"):
        await store.write(keys.put_key(replace(PARTNER_KEY, **change)))


async def test_a_wallet_app_is_stored_and_changed(store):
    assert await store.read(keys.find_app("app_1")) is None
    for app in (APP, replace(APP, name="New", icon_url=None, revoked_at_us=LATER_US)):
        await store.write(keys.put_app(app))
        assert await store.read(keys.find_app("app_1")) == app


async def test_partners_are_listed_newest_first_and_change_their_status(store):
    later = replace(PARTNER, id="par_2", created_at_us=LATER_US)
    for partner in (PARTNER, later):
        await store.write(merchants.put_partner(partner))
    assert await store.read(merchants.list_partners()) == [later, PARTNER]
    suspended = replace(PARTNER, status="suspended")
    assert await store.write(merchants.set_partner_status("par_1", "suspended")) == suspended
    assert await store.read(merchants.list_partners()) == [later, suspended]
    assert await store.write(merchants.set_partner_status("par_3", "suspended")) is None


async def test_merchant_is_added_only_under_an_unused_id(store):
    assert await store.write(merchants.add(MERCHANT))
    deleted = replace(MERCHANT, id="mer_2", deleted_at_us=LATER_US)
    await store.write(merchants.put_merchant(deleted))
    for taken in (MERCHANT, deleted):
        merchant = replace(taken, partner_id="par_2", name="Other", live=True, deleted_at_us=None)
        assert not await store.write(merchants.add(merchant))
        assert await store.read(merchants.find_merchant(taken.id)) == taken


async def test_the_status_of_a_merchant_changes_and_nothing_else(store):
    await store.write(merchants.put_merchant(MERCHANT))
    stopped = replace(MERCHANT, status="inactive")
    assert await store.write(merchants.set_status("mer_1", "inactive")) == stopped
    assert await store.read(merchants.find_merchant("mer_1")) == stopped
    assert await store.write(merchants.set_status("mer_2", "inactive")) is None
    deleted = replace(stopped, deleted_at_us=LATER_US)
    await store.write(merchants.put_merchant(deleted))
    assert await store.write(merchants.set_status("mer_1", "active")) is None
    assert await store.read(merchants.find_merchant("mer_1")) == deleted


async def test_wallet_apps_are_listed_newest_first_and_revoked_once(store):
    later = replace(APP, app_id="app_2", created_at_us=LATER_US)
    for app in (APP, later):
        await store.write(keys.put_app(app))
    revoked = replace(APP, revoked_at_us=LATER_US)
    for at_us in (LATER_US, LATER_US + 1):
        assert await store.write(keys.revoke_app("app_1", at_us)) == revoked
    assert await store.read(keys.list_apps()) == [later, revoked]
    assert await store.write(keys.revoke_app("app_3", LATER_US)) is None


async def test_a_pin_moves_only_from_where_it_may(store):
    await store.write(merchants.put_partner(PARTNER))
    await store.write(keys.put_app(APP))
    await store.write(keys.put_key(WALLET_KEY))
    old, new, newest = PARTNER.version_pin, "2026-02-02", "2026-03-03"
    for kind, id_ in (
        (pins.PARTNER, PARTNER.id),
        (pins.WALLET, APP.app_id),
        (pins.KEY, WALLET_KEY.key_id),
    ):
        assert await store.write(pins.move_pin(kind, id_, [old, new, newest], newest)) == newest
        # a step forward from a pin that has changed since comes too late
        assert await store.write(pins.move_pin(kind, id_, [old, new], new)) == newest
        assert await store.write(pins.move_pin(kind, "unknown", [old, newest], newest)) is None
    assert await store.read(merchants.find_partner("par_1")) == replace(PARTNER, version_pin=newest)
    assert await store.read(keys.find_app("app_1")) == replace(APP, version_pin=newest)
    moved = replace(WALLET_KEY, version_pin=newest)
    assert await store.read(keys.find_key(WALLET_KEY.key_id)) == moved
