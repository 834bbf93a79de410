"""Where a merchant wants its money: listed, created, changed, deleted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from florin_server.domain.accounts.destinations import (
    AssetAccount,
    check_chain,
    read_asset,
    read_destination,
)
from florin_server.domain.caip import AccountId, canonical_account
from florin_server.domain.errors import FlorinError, Issue, invalid, invalid_members
from florin_server.domain.ids import short_id
from florin_server.domain.payments.payment import Destination
from florin_server.domain.refusals import settlement_asset_taken, settlement_unknown
from florin_server.flows.accounts import own_accounts
from florin_server.flows.accounts.merchants import require
from florin_server.flows.app import App, Caller
from florin_server.flows.payments.idempotent import failing, once
from florin_server.flows.payouts import opening
from florin_server.store.accounts import destinations
from florin_server.store.accounts.destinations import Settlements
from florin_server.store.engine.query import Op, operation
from florin_server.store.payments.idempotency import Replay
from florin_server.store.settlement import token_accounts


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
        work = _create(app, caller, merchant_id, _places(app, merchant_id, wanted))
    except FlorinError as fault:
        work = failing(fault)
    outcome = await once(app, caller, work, receipt)
    if not isinstance(outcome, Replay):
        _tell(app, outcome)
    return outcome


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
    work = _change(app, caller, merchant_id, settlement_id, account)
    outcome = await once(app, caller, work, receipt)
    if not isinstance(outcome, Replay):
        _tell(app, [outcome])
    return outcome


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


def _tell(app: App, places: Sequence[Destination]) -> None:
    """Lets settlers look at new receivers, outside of the request."""
    for chain_id in {_receiver(one).chain_id for one in places} & app.chains.keys():
        app.expect_receivers(chain_id)


def _receiver(place: Destination) -> AssetAccount:
    return AssetAccount(place.asset_key, canonical_account(place.account))


@operation
def _expect(app: App, place: Destination) -> Op[None]:
    """Queues what has to be opened before the place can receive."""
    receiver = _receiver(place)
    rail = app.rails.get(receiver.chain_id)
    if (
        rail is not None
        and rail.token_accounts is not None
        and rail.token_accounts.needed(receiver)
    ):
        wanted = opening.of(rail, place.merchant_id, receiver)
        yield from token_accounts.want(wanted, app.clock.now_us())


@operation
def _create(
    app: App, caller: Caller, merchant_id: str, places: Sequence[Destination]
) -> Op[list[Destination]]:
    yield from require(caller, merchant_id)
    for place in places:
        # the refusal undoes those before it
        if not (yield from destinations.add(place)):
            raise settlement_asset_taken(wcp_profile=caller.wcp_profile)
        yield from _expect(app, place)
    return list(places)


@operation
def _change(
    app: App, caller: Caller, merchant_id: str, settlement_id: str, account: AccountId
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
    yield from _expect(app, moved)
    return moved


@operation
def _delete(caller: Caller, merchant_id: str, settlement_id: str) -> Op[str]:
    yield from require(caller, merchant_id)
    if not (yield from destinations.delete(merchant_id, settlement_id)):
        raise settlement_unknown(wcp_profile=caller.wcp_profile)
    return settlement_id
