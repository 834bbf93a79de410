"""Version pins of partners, wallet apps and wallet keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Column, select, update

from florin_server.store.engine.query import Op, Statement, any_of, operation, param
from florin_server.store.hints import generations
from florin_server.store.tables.tables import api_key, partner, wallet_app


def _move(key: Column[str]) -> Statement:
    pin = key.table.c.version_pin
    moved = update(key.table).where(key == param("id_"), any_of(pin, "from_"))
    return Statement(moved.values(version_pin=param("to")).returning(pin))


def _read(key: Column[str]) -> Statement:
    return Statement(select(key.table.c.version_pin).where(key == param("id_")))


_MOVE_PARTNER, _PARTNER = _move(partner.c.id), _read(partner.c.id)
_MOVE_WALLET, _WALLET = _move(wallet_app.c.app_id), _read(wallet_app.c.app_id)
_MOVE_KEY, _KEY = _move(api_key.c.key_id), _read(api_key.c.key_id)


class Pinned(NamedTuple):
    """One kind of account that has a version pin."""

    move: Statement
    read: Statement


PARTNER = Pinned(_MOVE_PARTNER, _PARTNER)
WALLET = Pinned(_MOVE_WALLET, _WALLET)
KEY = Pinned(_MOVE_KEY, _KEY)


@operation
def move_pin(kind: Pinned, id_: str, from_: Collection[str], to: str) -> Op[str | None]:
    """Moves a pin if it is one of `from_`; gives the pin as it then is, None if there is none.

    Comparing and moving are one statement, so that of two that move a pin neither moves it back.
    """
    rows = yield kind.move(id_=id_, from_=from_, to=to)
    if rows:
        yield from generations.bump(generations.Kind.ACCOUNTS)
    else:
        rows = yield kind.read(id_=id_)
    pin: str | None = rows[0][0] if rows else None
    return pin
