"""Lists of accounts that are not served; a list is replaced as a whole."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import delete, select

from florin_server.domain.screening.blocklist import ScreeningList
from florin_server.store.engine.query import Op, Statement, insert, operation, param, upsert
from florin_server.store.hints import generations
from florin_server.store.tables.tables import screened_address, screening_list

_PUT = Statement(upsert(screening_list, "name"))
_LISTS = Statement(select(screening_list).order_by(screening_list.c.name))
_LIST = Statement(select(screening_list).where(screening_list.c.name == param("name_")))
_REMOVE = Statement(
    delete(screening_list)
    .where(screening_list.c.name == param("name_"))
    .returning(screening_list.c.name)
)
_ADD = Statement(insert(screened_address))
_CLEAR = Statement(delete(screened_address).where(screened_address.c.list_name == param("name_")))
_ACCOUNTS = Statement(
    select(screened_address.c.namespace, screened_address.c.address)
    .distinct()
    .order_by(screened_address.c.namespace, screened_address.c.address)
)
_ON = Statement(
    select(screened_address.c.list_name)
    .where(
        screened_address.c.namespace == param("namespace_"),
        screened_address.c.address == param("address_"),
    )
    .order_by(screened_address.c.list_name)
)


@operation
def replace(new: ScreeningList, accounts: Collection[tuple[str, str]]) -> Op[None]:
    """Puts a list in the place of the one with its name: namespaces and addresses, none twice."""
    # the list's own row first: of two at once the second waits for it
    yield _PUT.of(new)
    yield _CLEAR(name_=new.name)
    yield _ADD.many(
        [
            {"list_name": new.name, "namespace": namespace, "address": address}
            for namespace, address in sorted(accounts)
        ]
    )
    yield from generations.bump(generations.Kind.SCREENING)


@operation
def remove(name: str) -> Op[bool]:
    """Deletes a list with its addresses; False if there is none."""
    yield _CLEAR(name_=name)
    removed = bool((yield _REMOVE(name_=name)))
    yield from generations.bump(generations.Kind.SCREENING)
    return removed


@operation
def find(name: str) -> Op[ScreeningList | None]:
    """A list by its name, without its addresses."""
    rows = yield _LIST(name_=name)
    return ScreeningList(*rows[0]) if rows else None


@operation
def lists() -> Op[list[ScreeningList]]:
    """All lists by name, without their addresses."""
    return [ScreeningList(*row) for row in (yield _LISTS())]


@operation
def accounts() -> Op[list[tuple[str, str]]]:
    """The namespace and the address of everybody on any list; looks at every row."""
    return [(namespace, address) for namespace, address in (yield _ACCOUNTS())]


@operation
def on(namespace: str, address: str) -> Op[list[str]]:
    """The names of the lists that an address is on."""
    return [name for (name,) in (yield _ON(namespace_=namespace, address_=address))]
