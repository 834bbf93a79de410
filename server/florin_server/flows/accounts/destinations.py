"""Where a merchant wants its money: listed, created, changed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from florin_server.domain.accounts.destinations import check_chain, read_asset, read_destination
from florin_server.domain.caip import AccountId
from florin_server.domain.errors import FlorinError, Issue, invalid, invalid_members
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Destination
from florin_server.domain.refusals import settlement_asset_taken, settlement_unknown
from florin_server.flows.accounts import own_accounts
from florin_server.flows.accounts.merchants import require
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.store.accounts import destinations
from florin_server.store.accounts.destinations import Settlements
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments.idempotency import Replay


@dataclass(frozen=True, slots=True)
class NewSettlement:
    """An asset (CAIP-19) and the account (CAIP-10) that it is to go to."""

    asset: str
    destination: str


async def listed(app: App, caller: Caller, merchant_id: str) -> Settlements:
    """All settlements of a merchant."""
    return await app.store.read(_list(caller, merchant_id))


async def create(
    app: App,
    caller: Caller,
    merchant_id: str,
    wanted: Sequence[NewSettlement],
    receipt: Callable[[list[Destination]], bytes],
) -> list[Destination] | Replay:
    """Creates all of them or none, or repeats the answer of the idempotency key."""
    try:
        work = _create(caller, merchant_id, _places(app, merchant_id, wanted))
    except FlorinError as fault:
        work = failing(fault)
    return await once(app, caller, work, receipt)


async def change(
    app: App,
    caller: Caller,
    merchant_id: str,
    settlement_id: str,
    *,
    destination: str,
    receipt: Callable[[Destination], bytes],
) -> Destination | Replay:
    """Lets an asset go elsewhere; options that wallets were told keep their way."""
    try:
        account = read_destination(destination)
        own_accounts.check(app.rails.values(), destination)
    except ValueError as fault:
        return await once(app, caller, failing(invalid("destination", str(fault))), receipt)
    work = _change(caller, merchant_id, settlement_id, account)
    return await once(app, caller, work, receipt)


async def delete(
    app: App,
    caller: Caller,
    merchant_id: str,
    settlement_id: str,
    receipt: Callable[[str], bytes],
) -> str | Replay:
    """Forgets a settlement and gives its id; a second time it is unknown."""
    return await once(app, caller, _delete(caller, merchant_id, settlement_id), receipt)


def _places(app: App, merchant_id: str, wanted: Sequence[NewSettlement]) -> list[Destination]:
    """What is wanted, checked; all faults are told at once."""
    if not wanted:
        raise invalid("settlements", "must have at least 1 item")
    places, faults = [], []
    for index, one in enumerate(wanted):
        path = f"settlements[{index}]"
        asset = None
        try:
            asset = read_asset(one.asset)
        except ValueError as fault:
            faults.append(Issue(f"{path}.asset", str(fault)))
        try:
            account = read_destination(one.destination)
            if asset is not None:
                check_chain(account, asset)
                own_accounts.check(app.rails.values(), one.destination)
                places.append(_place(app, merchant_id, asset, account))
        except ValueError as fault:
            faults.append(Issue(f"{path}.destination", str(fault)))
    if faults:
        raise invalid_members(faults)
    return places


def _place(app: App, merchant_id: str, asset: str, account: AccountId) -> Destination:
    return Destination(short_id("crypto_", app.randbytes), merchant_id, asset, str(account))


@operation
def _list(caller: Caller, merchant_id: str) -> Op[Settlements]:
    yield from require(caller, merchant_id)
    return (yield from destinations.of_merchant(merchant_id))


@operation
def _create(
    caller: Caller, merchant_id: str, places: Sequence[Destination]
) -> Op[list[Destination]]:
    yield from require(caller, merchant_id)
    for place in places:
        # the refusal undoes those before it
        if not (yield from destinations.add(place)):
            raise settlement_asset_taken(wcp_profile=caller.wcp_profile)
    return list(places)


@operation
def _change(
    caller: Caller, merchant_id: str, settlement_id: str, account: AccountId
) -> Op[Destination]:
    yield from require(caller, merchant_id)
    known = yield from destinations.one(merchant_id, settlement_id)
    if known is None:
        raise settlement_unknown(wcp_profile=caller.wcp_profile)
    try:
        check_chain(account, known.asset)
    except ValueError as fault:
        raise invalid("destination", str(fault)) from fault
    moved = yield from destinations.move(merchant_id, settlement_id, str(account))
    if moved is None:
        raise settlement_unknown(wcp_profile=caller.wcp_profile)
    return moved


@operation
def _delete(caller: Caller, merchant_id: str, settlement_id: str) -> Op[str]:
    yield from require(caller, merchant_id)
    if not (yield from destinations.delete(merchant_id, settlement_id)):
        raise settlement_unknown(wcp_profile=caller.wcp_profile)
    return settlement_id
