"""Options of ended payments that were not chosen.

Chains refuse them soon after the end of the payment. Options with an address of their own stay:
money can come to it at any time.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sqlalchemy import Column, Table, delete, exists

from florin_server.db.engine.query import Command, Op, is_in, operation
from florin_server.db.tables.tables import (
    deposit_address_table,
    option_count_table,
    payment_option_table,
    payment_table,
    resolved_build_table,
)
from florin_server.money.archive.store.closed import HAS_ENDED


def _delete_unused(table: Table, option_id: Column[Any] | None = None) -> Command:
    row, payment, address = table.c, payment_table.c, deposit_address_table.c
    ended = exists().where(payment.id == row.payment_id, HAS_ENDED)
    unused = [is_in(row.payment_id, "ids"), ended.correlate(table)]
    if option_id is not None:
        unused += [
            ~exists()
            .where(payment.id == row.payment_id, payment.option_id == option_id)
            .correlate(table),
            ~exists()
            .where(address.payment_id == row.payment_id, address.option_id == option_id)
            .correlate(table),
        ]
    return Command(delete(table).where(*unused))


_DELETE_UNUSED = (
    _delete_unused(resolved_build_table, resolved_build_table.c.option_id),
    _delete_unused(payment_option_table, payment_option_table.c.id),
    _delete_unused(option_count_table),
)


@operation
def delete_unused(ids: Collection[str]) -> Op[None]:
    """Delete what ended payments offered besides the option that was chosen."""
    for command in _DELETE_UNUSED:
        yield command(ids=ids)
