"""Test merchants' destinations: one per asset, in any spelling of the asset."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.accounts.store import destinations
from florin_server.db.engine.query import StoreError
from florin_server.domain.payments.payment import BankAccount, Destination

from tests.support.store_factories import ASSET, CHAIN, COIN, PAYER

OTHER = f"{CHAIN}:0x{'dd' * 20}"
SHOUTED = ASSET.replace("aa", "AA")
TOKEN = Destination("crypto_1", "mer_1", ASSET, PAYER)
NATIVE = Destination("crypto_2", "mer_1", COIN, PAYER)


async def test_merchant_has_a_single_destination_per_asset(store):
    for place in (TOKEN, NATIVE):
        await store.write(destinations.put_destination(place))
    moved = Destination("crypto_3", "mer_1", SHOUTED, OTHER)
    await store.write(destinations.put_destination(moved))
    destination = replace(moved, id="crypto_1")
    assert await store.read(destinations.find_destination("mer_1", ASSET)) == destination
    assert await store.read(destinations.find_destination("mer_1", SHOUTED)) is None
    assert await store.read(destinations.find_destination("mer_2", ASSET)) is None
    assert await store.read(destinations.list_destinations("mer_1")) == [destination, NATIVE]


async def test_second_destination_for_an_asset_is_refused(store):
    assert await store.write(destinations.add(TOKEN))
    again = Destination("crypto_3", "mer_1", SHOUTED, OTHER)
    assert not await store.write(destinations.add(again))
    assert await store.read(destinations.list_destinations("mer_1")) == [TOKEN]
    # other merchants' assets are independent
    assert await store.write(destinations.add(replace(again, merchant_id="mer_2")))


async def test_destination_id_is_unique(store):
    await store.write(destinations.add(TOKEN))
    with pytest.raises(StoreError, match="(?i)unique"):
        await store.write(destinations.add(replace(NATIVE, id=TOKEN.id)))


async def test_places_are_moved_and_forgotten_by_their_merchant_only(store):
    for place in (TOKEN, NATIVE):
        await store.write(destinations.add(place))
    assert await store.read(destinations.find("mer_2", "crypto_1")) is None
    assert await store.write(destinations.move("mer_2", "crypto_1", OTHER)) is None
    assert not await store.write(destinations.delete("mer_2", "crypto_1"))
    assert await store.read(destinations.find("mer_1", "crypto_1")) == TOKEN

    moved = replace(TOKEN, account=OTHER)
    assert await store.write(destinations.move("mer_1", "crypto_1", OTHER)) == moved
    assert await store.read(destinations.list_destinations("mer_1")) == [moved, NATIVE]
    assert await store.write(destinations.delete("mer_1", "crypto_1"))
    assert not await store.write(destinations.delete("mer_1", "crypto_1"))
    assert await store.write(destinations.move("mer_1", "crypto_1", OTHER)) is None
    assert await store.read(destinations.list_destinations("mer_1")) == [NATIVE]
    # a removed destination frees its asset
    assert await store.write(destinations.add(replace(TOKEN, id="crypto_4")))


async def test_bank_accounts_stand_beside_the_chains(store):
    banks = [BankAccount(f"fiat_{n}", "mer_1", "pending", "iban") for n in (1, 2)]
    for bank in (*reversed(banks), BankAccount("fiat_0", "mer_2", "active", "ach")):
        await store.write(destinations.put_bank_account(bank))
    await store.write(destinations.add(TOKEN))
    places = destinations.MerchantDestinations([TOKEN], banks)
    assert await store.read(destinations.get_merchant_destinations("mer_1")) == places
    verified = replace(banks[0], status="verified")
    await store.write(destinations.put_bank_account(verified))
    assert (await store.read(destinations.get_merchant_destinations("mer_1"))).fiat == [
        verified,
        banks[1],
    ]
    assert await store.read(
        destinations.get_merchant_destinations("mer_3")
    ) == destinations.MerchantDestinations([], [])
