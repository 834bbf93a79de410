"""The operator's view of money that is still at addresses, and requests to send it home."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.caip import canonicalize_account, canonicalize_asset
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.payments.service.load import chain_unavailable_error
from florin_server.money.settlement.store import address_sweeps
from florin_server.rails.context import ChainContext
from florin_server.rails.protocol import Rail
from florin_server.rails.types import RailUnavailable


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


LISTED_MAX: Final = 100
# deposits that one list reads, the newest addresses first
_READ_MAX: Final = 5_000


@dataclass(frozen=True, slots=True)
class AddressMoney:
    """Money of an asset at an address (CAIP-10) of a payment that is over."""

    payment_id: str
    address: str
    asset: str
    value: int
    is_requested: bool


async def list_address_money(app: _Context, chain_id: str) -> tuple[list[AddressMoney], bool]:
    """Return money that is at addresses of a chain, and whether there can be more.

    Only deposits that Florin recorded are considered, and only what the addresses hold counts.
    """
    rail = _get_rail(app, chain_id)
    now_s = app.clock.now_us() // 1_000_000
    received = await app.store.scan(address_sweeps.list_received(chain_id, now_s, _READ_MAX))
    left: dict[tuple[str, str], int] = defaultdict(int)
    requests: dict[str, address_sweeps.ReceivedMoney] = {}
    for item in received:
        place = item.address, item.asset
        if place not in left and item.is_paid and item.asset == item.paid_asset:
            left[place] -= item.paid
        left[place] += item.value
        requests[item.address] = item
    places = [place for place, value in left.items() if value > 0]
    listed, has_more = places[:LISTED_MAX], len(places) > LISTED_MAX
    balances = await _read_balances(rail, listed)
    money = [
        AddressMoney(
            requests[address].payment_id,
            f"{chain_id}:{address}",
            asset,
            balances[address, asset],
            requests[address].requested_asset == asset,
        )
        for address, asset in listed
        if balances[address, asset]
    ]
    return money, has_more or len(received) == _READ_MAX


async def sweep_addresses(
    app: _Context, chain_id: str, items: Sequence[tuple[str, str]]
) -> list[str]:
    """Look at addresses now, and move an asset of each home, also small amounts.

    `items` are addresses (CAIP-10) with assets (CAIP-19), each address once. Return the addresses.
    ApiError(invalid_params) if one does not exist; then no address is looked at.
    """
    _get_rail(app, chain_id)
    assets: dict[str, str] = {}
    for account, asset in items:
        try:
            address = canonicalize_account(account).removeprefix(f"{chain_id}:").lower()
            canonical_asset = canonicalize_asset(asset, checksum=False)
        except ValueError as error:
            raise ApiError(ErrorCode.INVALID_PARAMS, f"Items: {error}") from error
        if address in assets:
            raise ApiError(ErrorCode.INVALID_PARAMS, f"Address {account[:100]} occurs twice")
        if not canonical_asset.startswith(f"{chain_id}/"):
            text = f"Asset {asset[:100]} is not of chain {chain_id}"
            raise ApiError(ErrorCode.INVALID_PARAMS, text)
        assets[address] = canonical_asset

    @operation
    def request() -> Op[None]:
        existing = yield from address_sweeps.request_many(chain_id, assets, app.clock.now_us())
        if missing := sorted(assets.keys() - set(existing)):
            text = f"No payment has the address {missing[0][:100]} on chain {chain_id}"
            raise ApiError(ErrorCode.INVALID_PARAMS, text)

    await app.store.write(request())
    app.notifier.publish(Topic.SETTLEMENT, chain_id)
    return [f"{chain_id}:{address}" for address in assets]


def _get_rail(app: ChainContext, chain_id: str) -> Rail:
    rail = app.rails.get(chain_id)
    if rail is None or rail.addresses is None or rail.deposits is None:
        text = f"Chain {chain_id[:100]} has no addresses of payments"
        raise ApiError(ErrorCode.INVALID_PARAMS, text)
    return rail


async def _read_balances(
    rail: Rail, places: Sequence[tuple[str, str]]
) -> dict[tuple[str, str], int]:
    if not places or rail.deposits is None:
        return {}
    try:
        final = (await rail.deposits.read_activity([], 0)).final
        return await rail.deposits.read_balances(places, final)
    except RailUnavailable as error:
        raise chain_unavailable_error() from error
