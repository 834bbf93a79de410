"""Lists of blocked accounts; a list is replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import delete, select

from florin_server.db import generations
from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param, upsert
from florin_server.db.tables.tables import screened_address_table, screening_list_table
from florin_server.domain.screening.blocklist import ScreeningList


class _ListedAddress(NamedTuple):
    namespace: str
    address: str


_PUT = Command(upsert(screening_list_table, "name"))
_LISTS = Statement(
    select(screening_list_table).order_by(screening_list_table.c.name), ScreeningList
)
_LIST = Statement(
    select(screening_list_table).where(screening_list_table.c.name == param("name_")), ScreeningList
)
_REMOVE = Statement(
    delete(screening_list_table)
    .where(screening_list_table.c.name == param("name_"))
    .returning(screening_list_table.c.name),
    str,
)
_ADD = Command(insert(screened_address_table))
_CLEAR = Command(
    delete(screened_address_table).where(screened_address_table.c.list_name == param("name_"))
)
_ACCOUNTS = Statement(
    select(screened_address_table.c.namespace, screened_address_table.c.address)
    .distinct()
    .order_by(screened_address_table.c.namespace, screened_address_table.c.address),
    _ListedAddress,
)
_LIST_MATCHES = Statement(
    select(screened_address_table.c.list_name)
    .where(
        screened_address_table.c.namespace == param("namespace_"),
        screened_address_table.c.address == param("address_"),
    )
    .order_by(screened_address_table.c.list_name),
    str,
)


@operation
def replace(new: ScreeningList, accounts: Collection[tuple[str, str]]) -> Op[None]:
    """Replace the list of that name by namespaces and addresses without duplicates."""
    # the list's own row first, so that concurrent replacements wait for each other
    yield _PUT(new)
    yield _CLEAR(name_=new.name)
    yield _ADD.bind_many(
        [
            {"list_name": new.name, "namespace": namespace, "address": address}
            for namespace, address in sorted(accounts)
        ]
    )
    yield from generations.bump(generations.CacheKind.SCREENING)


@operation
def remove(name: str) -> Op[bool]:
    """Delete a list with its addresses; return False if it does not exist."""
    yield _CLEAR(name_=name)
    removed = yield from _REMOVE.any(name_=name)
    yield from generations.bump(generations.CacheKind.SCREENING)
    return removed


@operation
def find(name: str) -> Op[ScreeningList | None]:
    """Return a list by its name, without its addresses; None if it does not exist."""
    return (yield from _LIST.first(name_=name))


@operation
def list_blocklists() -> Op[list[ScreeningList]]:
    """Return all lists by name, without their addresses."""
    return (yield from _LISTS.all())


@operation
def list_accounts() -> Op[list[tuple[str, str]]]:
    """Return the namespaces and addresses on any list; reads every row."""
    return list((yield from _ACCOUNTS.all()))


@operation
def list_matches(namespace: str, address: str) -> Op[list[str]]:
    """Return the names of the lists that contain an address."""
    return (yield from _LIST_MATCHES.all(namespace_=namespace, address_=address))
