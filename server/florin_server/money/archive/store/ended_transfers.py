"""Transfers that Florin sent for other servers (x402), once no caller can repeat them.

Until its signature expires, the row of a transfer prevents that it is sent a second time. Transfers
for payments of Florin stay: the addresses of these payments stay too.
"""

from __future__ import annotations

from sqlalchemy import delete, exists, select, text

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    is_in,
    is_one_of,
    operation,
    param,
)
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    chain_tx_table,
    facilitation_table,
    watched_tx_table,
)
from florin_server.domain.x402.settlement import FacilitationState

_row, _tx, _variant = facilitation_table.c, chain_tx_table.c, chain_tx_bump_table.c
_watched = watched_tx_table.c
_KEYS = Statement(
    select(_row.key).where(_row.key > param("after_key")).order_by(_row.key).limit(param("most")),
    str,
)
_IN_OPEN = (
    exists()
    .where(
        text(OPEN_TX_PREDICATE),
        _tx.chain_id == _row.chain_id,
        (_tx.hash == _row.tx_hash)
        | _tx.id.in_(
            select(_variant.tx_id)
            .where(_variant.hash == _row.tx_hash)
            .correlate(facilitation_table)
        ),
    )
    .correlate(facilitation_table)
)
_IS_WATCHED = (
    exists()
    .where(_watched.chain_id == _row.chain_id, _watched.tx_hash == _row.tx_hash)
    .correlate(facilitation_table)
)
_DELETE = Command(
    delete(facilitation_table).where(
        is_in(_row.key, "keys"),
        _row.payment_id.is_(None),
        is_one_of(_row.state, [state for state in FacilitationState if state.is_final]),
        _row.ended_at_us < param("before_us"),
        _row.expires_at < param("before_s"),
        ~_IN_OPEN,
        ~_IS_WATCHED,
    )
)


@operation
def delete_ended(after_key: str, before_us: int, limit: int) -> Op[str | None]:
    """Look at the next transfers after a key, and delete what ended and expired before a time.

    Return the last key that was looked at; None at the end.
    """
    keys = yield from _KEYS.all(after_key=after_key, most=limit)
    if not keys:
        return None
    yield _DELETE(keys=keys, before_us=before_us, before_s=before_us // 1_000_000)
    return keys[-1]
