"""The operator's request to send home what is left at the addresses of a payment."""

from __future__ import annotations

from typing import Protocol

from florin_server.base.context import EventContext
from florin_server.base.topics import Topic
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.caip import canonicalize_asset
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.money.settlement.store import address_sweeps
from florin_server.rails.context import ChainContext


class _Context(ChainContext, EventContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


async def recover_address(app: _Context, payment_id: str, chain_id: str, asset: str) -> list[str]:
    """Look at a payment's addresses on a chain now, and move an asset home, also small amounts.

    The chain (CAIP-2) can be another than the payment's: the same address exists there. The asset
    (CAIP-19) can be a token that the settings do not list. Return the addresses; nothing moves
    while it can still be paid. ApiError(invalid_params) for what does not exist.
    """
    rail = app.rails.get(chain_id)
    if rail is None or rail.addresses is None:
        raise ApiError(
            ErrorCode.INVALID_PARAMS, f"Chain {chain_id[:100]} has no addresses of payments"
        )
    try:
        asset = canonicalize_asset(asset, checksum=False)
    except ValueError as error:
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Asset: {error}") from error
    if not asset.startswith(f"{chain_id}/"):
        raise ApiError(ErrorCode.INVALID_PARAMS, f"Asset {asset[:100]} is not of chain {chain_id}")

    @operation
    def request() -> Op[list[str]]:
        addresses = yield from address_sweeps.request(
            payment_id, chain_id, asset, app.clock.now_us()
        )
        if not addresses:
            raise ApiError(ErrorCode.INVALID_PARAMS, f"Payment {payment_id[:100]} has no address")
        return addresses

    addresses = await app.store.write(request())
    app.notifier.publish(Topic.SETTLEMENT, chain_id)
    return addresses
