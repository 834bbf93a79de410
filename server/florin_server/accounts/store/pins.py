"""Version pins of partners, wallet apps and wallet keys."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from sqlalchemy import Column, select, update

from florin_server.db import generations
from florin_server.db.engine.query import Op, Statement, is_in, operation, param
from florin_server.db.tables.tables import api_key_table, partner_table, wallet_app_table


def _move_statement(key: Column[str]) -> Statement[str]:
    pin = key.table.c.version_pin
    moved = update(key.table).where(key == param("id_"), is_in(pin, "from_"))
    return Statement(moved.values(version_pin=param("to")).returning(pin), str)


def _read_statement(key: Column[str]) -> Statement[str | None]:
    return Statement.nullable(select(key.table.c.version_pin).where(key == param("id_")), str)


_MOVE_PARTNER, _PARTNER = _move_statement(partner_table.c.id), _read_statement(partner_table.c.id)
_MOVE_WALLET, _WALLET = (
    _move_statement(wallet_app_table.c.app_id),
    _read_statement(wallet_app_table.c.app_id),
)
_MOVE_KEY, _KEY = _move_statement(api_key_table.c.key_id), _read_statement(api_key_table.c.key_id)


class PinStatements(NamedTuple):
    """A kind of account that has a version pin."""

    move: Statement[str]
    read: Statement[str | None]


PARTNER = PinStatements(_MOVE_PARTNER, _PARTNER)
WALLET = PinStatements(_MOVE_WALLET, _WALLET)
KEY = PinStatements(_MOVE_KEY, _KEY)


@operation
def move_pin(
    statements: PinStatements, id_: str, from_: Collection[str], to: str
) -> Op[str | None]:
    """Move a pin if it is one of `from_`; return the resulting pin, None if it does not exist.

    Comparing and moving are one statement, so that concurrent moves never move it back.
    """
    pin = yield from statements.move.first(id_=id_, from_=from_, to=to)
    if pin is None:
        return (yield from statements.read.first(id_=id_))
    yield from generations.bump(generations.CacheKind.ACCOUNTS)
    return pin
