"""The last uses of API keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from sqlalchemy import Text, or_, select

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.tables import api_key_table, api_key_use_table

_NEW = insert(api_key_use_table)


class KeyUse(NamedTuple):
    """The last use of a key."""

    key_id: str
    last_used_at_us: int


# another process may have seen a later use
_PUT = Command(
    _NEW.on_conflict_do_update(
        index_elements=["key_id"],
        set_={"last_used_at_us": _NEW.excluded.last_used_at_us},
        where=api_key_use_table.c.last_used_at_us < _NEW.excluded.last_used_at_us,
    )
)
_LIST = Statement(
    select(api_key_use_table.c.key_id, api_key_use_table.c.last_used_at_us)
    .join(api_key_table, api_key_table.c.key_id == api_key_use_table.c.key_id)
    .where(or_(param("owner", Text).is_(None), api_key_table.c.partner_id == param("owner", Text))),
    KeyUse,
)


@operation
def record_uses(uses: Mapping[str, int]) -> Op[None]:
    """Store the last uses of some keys, unless later ones are stored."""
    # in one order, so that processes do not wait for each other
    yield _PUT.bind_many(
        [{"key_id": key_id, "last_used_at_us": uses[key_id]} for key_id in sorted(uses)]
    )


@operation
def list_uses(partner_id: str | None) -> Op[dict[str, int]]:
    """Return the last uses of all keys, or of one partner's, by key id."""
    rows = yield from _LIST.all(owner=partner_id)
    return {use.key_id: use.last_used_at_us for use in rows}
