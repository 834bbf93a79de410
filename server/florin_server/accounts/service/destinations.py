"""Merchants' settlement destinations: list, create, change, delete."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.accounts.service import own_accounts
from florin_server.accounts.service.merchants import require
from florin_server.accounts.store import destinations
from florin_server.accounts.store.destinations import MerchantDestinations
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.caller import Caller
from florin_server.domain.accounts.destinations import (
    check_same_chain,
    parse_destination,
    parse_destination_asset,
)
from florin_server.domain.audit import (
    AuditAction,
    AuditChange,
    AuditObject,
    FieldChange,
    list_changes,
)
from florin_server.domain.caip import AccountId
from florin_server.domain.errors import (
    ApiError,
    FieldIssue,
    validation_error,
    validation_error_for,
)
from florin_server.domain.ids import generate_short_id
from florin_server.domain.payments.payment import Destination
from florin_server.domain.refusals import (
    settlement_asset_conflict_error,
    settlement_not_found_error,
)
from florin_server.idempotency.service import fail_with, run_once
from florin_server.idempotency.store.responses import StoredResponse
from florin_server.operations.service.audit_log import audited, audited_change
from florin_server.rails.context import ChainContext
from florin_server.settings.context import SettingsContext


class _Context(ChainContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


@dataclass(frozen=True, slots=True)
class NewDestination:
    """An asset (CAIP-19) and the account (CAIP-10) that it is to go to."""

    asset: str
    account: str


async def list_destinations(
    app: StorageContext, caller: Caller, merchant_id: str
) -> MerchantDestinations:
    """Return all settlements of a merchant."""
    return await app.store.read(_list_destinations(caller, merchant_id))


async def create(
    app: _Context,
    caller: Caller,
    merchant_id: str,
    new_destinations: Sequence[NewDestination],
    encode_response: Callable[[list[Destination]], bytes],
) -> list[Destination] | StoredResponse:
    """Create all of them or none, or repeat the response of the idempotency key."""
    try:
        places = _parse_destinations(app, merchant_id, new_destinations)
        changes = list_changes({}, {place.asset: place.account for place in places})
        change = _describe(AuditAction.MERCHANT_DESTINATION_ADDED, caller, merchant_id, changes)
        work = audited(app, _create(caller, merchant_id, places), lambda _: change)
    except ApiError as fault:
        work = fail_with(fault)
    return await run_once(app, caller, work, encode_response)


async def update(
    app: _Context,
    caller: Caller,
    merchant_id: str,
    settlement_id: str,
    *,
    destination: str,
    encode_response: Callable[[Destination], bytes],
) -> Destination | StoredResponse:
    """Change the destination of an asset; options that wallets received keep their route."""
    try:
        account = parse_destination(destination)
        own_accounts.check(app.rails.values(), destination)
    except ValueError as fault:
        return await run_once(
            app, caller, fail_with(validation_error("destination", str(fault))), encode_response
        )

    def describe(before: Destination | None, after: Destination) -> AuditChange:
        changes = list_changes(_list_accounts(before), _list_accounts(after))
        return _describe(AuditAction.MERCHANT_DESTINATION_CHANGED, caller, merchant_id, changes)

    work = audited_change(
        app,
        destinations.find(merchant_id, settlement_id),
        _update(caller, merchant_id, settlement_id, account),
        describe,
    )
    return await run_once(app, caller, work, encode_response)


async def delete(
    app: _Context,
    caller: Caller,
    merchant_id: str,
    settlement_id: str,
    encode_response: Callable[[str], bytes],
) -> str | StoredResponse:
    """Delete a settlement and return its id; a second time it is unknown."""

    def describe(before: Destination | None, _: str) -> AuditChange:
        changes = list_changes(_list_accounts(before), {})
        return _describe(AuditAction.MERCHANT_DESTINATION_REMOVED, caller, merchant_id, changes)

    work = audited_change(
        app,
        destinations.find(merchant_id, settlement_id),
        _delete(caller, merchant_id, settlement_id),
        describe,
    )
    return await run_once(app, caller, work, encode_response)


def _describe(
    action: AuditAction, caller: Caller, merchant_id: str, changes: tuple[FieldChange, ...]
) -> AuditChange:
    return AuditChange(
        action, AuditObject.MERCHANT, merchant_id, caller.partner_id, caller.live, changes
    )


def _list_accounts(destination: Destination | None) -> dict[str, object]:
    return {} if destination is None else {destination.asset: destination.account}


def _parse_destinations(
    app: _Context, merchant_id: str, new_destinations: Sequence[NewDestination]
) -> list[Destination]:
    """Return the checked requests; all faults are reported together."""
    if not new_destinations:
        raise validation_error("settlements", "must have at least 1 item")
    places, faults = [], []
    for index, new_destination in enumerate(new_destinations):
        path = f"settlements[{index}]"
        asset = None
        try:
            asset = parse_destination_asset(new_destination.asset)
        except ValueError as fault:
            faults.append(FieldIssue(f"{path}.asset", str(fault)))
        try:
            account = parse_destination(new_destination.account)
            if asset is not None:
                check_same_chain(account, asset)
                own_accounts.check(app.rails.values(), new_destination.account)
                places.append(_parse_destination(app, merchant_id, asset, account))
        except ValueError as fault:
            faults.append(FieldIssue(f"{path}.destination", str(fault)))
    if faults:
        raise validation_error_for(faults)
    return places


def _parse_destination(
    app: StorageContext, merchant_id: str, asset: str, account: AccountId
) -> Destination:
    return Destination(
        generate_short_id("crypto_", app.randbytes), merchant_id, asset, str(account)
    )


@operation
def _list_destinations(caller: Caller, merchant_id: str) -> Op[MerchantDestinations]:
    yield from require(caller, merchant_id)
    return (yield from destinations.get_merchant_destinations(merchant_id))


@operation
def _create(
    caller: Caller, merchant_id: str, new_destinations: Sequence[Destination]
) -> Op[list[Destination]]:
    yield from require(caller, merchant_id)
    for place in new_destinations:
        # the error undoes the earlier ones
        if not (yield from destinations.add(place)):
            raise settlement_asset_conflict_error(wcp_profile=caller.wcp_profile)
    return list(new_destinations)


@operation
def _update(
    caller: Caller, merchant_id: str, settlement_id: str, account: AccountId
) -> Op[Destination]:
    yield from require(caller, merchant_id)
    destination = yield from destinations.find(merchant_id, settlement_id)
    if destination is None:
        raise settlement_not_found_error(wcp_profile=caller.wcp_profile)
    try:
        check_same_chain(account, destination.asset)
    except ValueError as fault:
        raise validation_error("destination", str(fault)) from fault
    moved = yield from destinations.move(merchant_id, settlement_id, str(account))
    if moved is None:
        raise settlement_not_found_error(wcp_profile=caller.wcp_profile)
    return moved


@operation
def _delete(caller: Caller, merchant_id: str, settlement_id: str) -> Op[str]:
    yield from require(caller, merchant_id)
    if not (yield from destinations.delete(merchant_id, settlement_id)):
        raise settlement_not_found_error(wcp_profile=caller.wcp_profile)
    return settlement_id
