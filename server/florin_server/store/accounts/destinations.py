"""Where merchants want their money: accounts on chains, and bank accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, update

from florin_server.domain.payments.payment import BankAccount, Destination
from florin_server.store.engine.query import (
    Op,
    Statement,
    any_of,
    columns,
    insert,
    operation,
    param,
    upsert,
)
from florin_server.store.tables.tables import bank_account, settlement_dest

_COLUMNS = columns(settlement_dest, Destination)
_OWN = (
    settlement_dest.c.id == param("id_"),
    settlement_dest.c.merchant_id == param("owner"),
)
_PUT = Statement(upsert(settlement_dest, "merchant_id", "asset_key"))
_ADD = Statement(
    insert(settlement_dest)
    .on_conflict_do_nothing(index_elements=["merchant_id", "asset_key"])
    .returning(settlement_dest.c.id)
)
_OF_MERCHANT = Statement(
    select(*_COLUMNS)
    .where(settlement_dest.c.merchant_id == param("owner"))
    .order_by(settlement_dest.c.asset)
)
_OF_ASSET = Statement(
    select(*_COLUMNS).where(
        settlement_dest.c.merchant_id == param("owner"),
        settlement_dest.c.asset_key == param("key"),
    )
)
_GOING_TO = Statement(
    select(*_COLUMNS)
    # as they were written: with capitals, if the merchant wrote some
    .where(any_of(func.lower(settlement_dest.c.account), "accounts"))
    .order_by(settlement_dest.c.id)
    .limit(param("limit"))
)
_ONE = Statement(select(*_COLUMNS).where(*_OWN))
_MOVE = Statement(
    update(settlement_dest).where(*_OWN).values(account=param("to")).returning(*_COLUMNS)
)
_DELETE = Statement(delete_from(settlement_dest).where(*_OWN).returning(settlement_dest.c.id))
_PUT_BANK = Statement(upsert(bank_account, "id"))
_BANKS = Statement(
    select(bank_account)
    .where(bank_account.c.merchant_id == param("owner"))
    .order_by(bank_account.c.id)
)


@dataclass(frozen=True, slots=True)
class Settlements:
    """All places of a merchant: accounts on chains by asset, bank accounts by id."""

    crypto: list[Destination]
    fiat: list[BankAccount]


@operation
def put_destination(place: Destination) -> Op[None]:
    """Stores where a merchant wants an asset to go; one that is known keeps its id."""
    yield _PUT.of(place)


@operation
def add(place: Destination) -> Op[bool]:
    """Stores a new place; False if the merchant has one for the asset."""
    return bool((yield _ADD.of(place)))


@operation
def destinations(merchant_id: str) -> Op[list[Destination]]:
    """Where a merchant wants which asset to go, by asset."""
    return [Destination(*row) for row in (yield _OF_MERCHANT(owner=merchant_id))]


@operation
def destination(merchant_id: str, asset_key: str) -> Op[Destination | None]:
    """Where a merchant wants one asset (in canonical form) to go."""
    rows = yield _OF_ASSET(owner=merchant_id, key=asset_key)
    return Destination(*rows[0]) if rows else None


@operation
def going_to(accounts: Sequence[str], limit: int) -> Op[list[Destination]]:
    """Places of all merchants at accounts (CAIP-10), whatever capitals these are written with.

    On chains whose addresses differ by capitals it may find others too. Looks at all places.
    """
    rows = yield _GOING_TO(accounts=[one.lower() for one in accounts], limit=limit)
    return [Destination(*row) for row in rows]


@operation
def of_merchant(merchant_id: str) -> Op[Settlements]:
    """All places of a merchant."""
    crypto = yield from destinations(merchant_id)
    banks = yield _BANKS(owner=merchant_id)
    return Settlements(crypto, [BankAccount(*row) for row in banks])


@operation
def one(merchant_id: str, settlement_id: str) -> Op[Destination | None]:
    """One place of a merchant by its id."""
    rows = yield _ONE(id_=settlement_id, owner=merchant_id)
    return Destination(*rows[0]) if rows else None


@operation
def move(merchant_id: str, settlement_id: str, account: str) -> Op[Destination | None]:
    """Lets an asset go to another account; None if the merchant has no such place."""
    rows = yield _MOVE(id_=settlement_id, owner=merchant_id, to=account)
    return Destination(*rows[0]) if rows else None


@operation
def delete(merchant_id: str, settlement_id: str) -> Op[bool]:
    """Forgets a place; False if the merchant has no such place."""
    return bool((yield _DELETE(id_=settlement_id, owner=merchant_id)))


@operation
def put_bank_account(account: BankAccount) -> Op[None]:
    """Stores a bank account, or what changed about it."""
    yield _PUT_BANK.of(account)
