"""Merchants' destinations: accounts on chains, and bank accounts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete as delete_from
from sqlalchemy import func, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    upsert,
)
from florin_server.db.tables.tables import bank_account_table, destination_table
from florin_server.domain.payments.payment import BankAccount, Destination

_COLUMNS = columns(destination_table, Destination)
_OWN = (
    destination_table.c.id == param("id_"),
    destination_table.c.merchant_id == param("owner"),
)
_PUT = Command(upsert(destination_table, "merchant_id", "asset_key"))
_ADD = Statement(
    insert(destination_table)
    .on_conflict_do_nothing(index_elements=["merchant_id", "asset_key"])
    .returning(destination_table.c.id),
    str,
)
_OF_MERCHANT = Statement(
    select(*_COLUMNS)
    .where(destination_table.c.merchant_id == param("owner"))
    .order_by(destination_table.c.asset),
    Destination,
)
_OF_ASSET = Statement(
    select(*_COLUMNS).where(
        destination_table.c.merchant_id == param("owner"),
        destination_table.c.asset_key == param("key"),
    ),
    Destination,
)
_LIST_BY_ACCOUNTS = Statement(
    select(*_COLUMNS)
    # in their original spelling: with capitals, if the merchant used some
    .where(is_in(func.lower(destination_table.c.account), "accounts"))
    .order_by(destination_table.c.id)
    .limit(param("limit")),
    Destination,
)
_FIND = Statement(select(*_COLUMNS).where(*_OWN), Destination)
_MOVE = Statement(
    update(destination_table).where(*_OWN).values(account=param("to")).returning(*_COLUMNS),
    Destination,
)
_DELETE = Statement(
    delete_from(destination_table).where(*_OWN).returning(destination_table.c.id), str
)
_PUT_BANK = Command(upsert(bank_account_table, "id"))
_BANKS = Statement(
    select(bank_account_table)
    .where(bank_account_table.c.merchant_id == param("owner"))
    .order_by(bank_account_table.c.id),
    BankAccount,
)


@dataclass(frozen=True, slots=True)
class MerchantDestinations:
    """The destinations of a merchant: accounts on chains by asset, bank accounts by id."""

    crypto: list[Destination]
    fiat: list[BankAccount]


@operation
def put_destination(destination: Destination) -> Op[None]:
    """Store a merchant's destination for an asset; an existing destination keeps its id."""
    yield _PUT(destination)


@operation
def add(destination: Destination) -> Op[bool]:
    """Store a new destination; return False if the merchant has one for the asset."""
    return (yield from _ADD.any(destination))


@operation
def list_destinations(merchant_id: str) -> Op[list[Destination]]:
    """Return a merchant's destinations, by asset."""
    return (yield from _OF_MERCHANT.all(owner=merchant_id))


@operation
def find_destination(merchant_id: str, asset_key: str) -> Op[Destination | None]:
    """Return a merchant's destination for an asset (in canonical form); None if it has none."""
    return (yield from _OF_ASSET.first(owner=merchant_id, key=asset_key))


@operation
def list_by_accounts(accounts: Sequence[str], limit: int) -> Op[list[Destination]]:
    """Return destinations of all merchants at accounts (CAIP-10), ignoring their case.

    On chains with case-sensitive addresses it may also return other accounts. It reads all
    destinations.
    """
    return (
        yield from _LIST_BY_ACCOUNTS.all(
            accounts=[account.lower() for account in accounts], limit=limit
        )
    )


@operation
def get_merchant_destinations(merchant_id: str) -> Op[MerchantDestinations]:
    """Return all destinations of a merchant."""
    crypto = yield from list_destinations(merchant_id)
    return MerchantDestinations(crypto, (yield from _BANKS.all(owner=merchant_id)))


@operation
def find(merchant_id: str, settlement_id: str) -> Op[Destination | None]:
    """Return a merchant's destination by id; None if it has none."""
    return (yield from _FIND.first(id_=settlement_id, owner=merchant_id))


@operation
def move(merchant_id: str, settlement_id: str, account: str) -> Op[Destination | None]:
    """Change the account of a destination; return None if the merchant does not have it."""
    return (yield from _MOVE.first(id_=settlement_id, owner=merchant_id, to=account))


@operation
def delete(merchant_id: str, settlement_id: str) -> Op[bool]:
    """Delete a destination; return False if the merchant does not have it."""
    return (yield from _DELETE.any(id_=settlement_id, owner=merchant_id))


@operation
def put_bank_account(account: BankAccount) -> Op[None]:
    """Store a bank account, or its changes."""
    yield _PUT_BANK(account)
