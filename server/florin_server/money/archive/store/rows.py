"""The rows that are archived, in their stored form: as SQLite stores them, on every engine.

An archive contains what a merchant has to keep. An account is named only where its money moved, and
only by what the payment was paid with; names of wallets and notes are not archived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    LargeBinary,
    Select,
    Table,
    Text,
    and_,
    case,
    delete,
    null,
    select,
    type_coerce,
)

from florin_server.db.engine.columns import U256
from florin_server.db.engine.query import SQLITE, Command, Op, Statement, insert, is_in, operation
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    chain_tx_item_table,
    chain_tx_table,
    confirmation_table,
    option_count_table,
    payment_effect_table,
    payment_event_table,
    payment_note_table,
    payment_option_table,
    payment_table,
    resolved_build_table,
    webhook_delivery_table,
)
from florin_server.domain.payments.payment import PaymentStatus

StoredRow: TypeAlias = tuple[Any, ...]
"""The values of a row, in the order of the columns of its table."""

_payment = payment_table.c
_SUCCEEDED: Final = _payment.status == PaymentStatus.SUCCEEDED
# erased at a buyer's request otherwise, which no file can be
_REPLACED: Final[Mapping[str, ColumnElement[Any]]] = {
    "payer": case((_SUCCEEDED, _payment.payer), else_=null()),
    "provider_name": null(),
    "provider_icon": null(),
}


@dataclass(frozen=True, slots=True)
class ArchivedTable:
    """A table of archived payments or transactions.

    `name` is that of its rows in a file. `id_column` names the payment or transaction; of the
    table that is its own, `is_own`, there is one row for each.
    """

    name: str
    table: Table
    id_column: Column[Any]
    is_own: bool
    select_rows: Statement[StoredRow]
    delete_rows: Command
    insert_row: Command

    def list_columns(self) -> list[Column[Any]]:
        """Return the columns of a stored row, without the id in a row of a list."""
        return [
            column for column in self.table.columns if self.is_own or column is not self.id_column
        ]

    def decode(self, row: StoredRow) -> dict[str, Any]:
        """Return the values of a stored row by their columns' names."""
        return {
            column.name: _decode(column, value)
            for column, value in zip(self.table.columns, row, strict=True)
        }


def _decode(column: Column[Any], value: Any) -> Any:
    convert = column.type.dialect_impl(SQLITE).result_processor(SQLITE, None)
    return convert(value) if convert else value


def _to_stored(column: Column[Any]) -> ColumnElement[Any]:
    """Return a column whose values are as stored, without conversions that would be undone."""
    if column.table is payment_table and column.name in _REPLACED:
        return _REPLACED[column.name].label(column.name)
    if isinstance(column.type, U256 | BigInteger | Boolean | LargeBinary):
        return column
    return type_coerce(column, Text).label(column.name)


def _build_table(
    name: str, table: Table, id_column: Column[Any], *conditions: ColumnElement[bool]
) -> ArchivedTable:
    rows: Select[Any] = select(*(_to_stored(column) for column in table.columns))
    if table is not payment_table and conditions:
        rows = rows.join(payment_table, and_(_payment.id == id_column, *conditions))
    return ArchivedTable(
        name,
        table,
        id_column,
        id_column.name == "id",
        Statement(rows.where(is_in(id_column, "ids")).order_by(*table.primary_key.columns), tuple),
        Command(delete(table).where(is_in(id_column, "ids"))),
        Command(insert(table)),
    )


_options, _builds = payment_option_table.c, resolved_build_table.c
PAYMENTS: Final = _build_table("payment", payment_table, _payment.id)
EVENTS: Final = _build_table("events", payment_event_table, payment_event_table.c.payment_id)
OPTIONS: Final = _build_table(
    "options",
    payment_option_table,
    _options.payment_id,
    _SUCCEEDED,
    _payment.option_id == _options.id,
)
BUILDS: Final = _build_table(
    "builds",
    resolved_build_table,
    _builds.payment_id,
    _SUCCEEDED,
    _payment.option_id == _builds.option_id,
)
CONFIRMATIONS: Final = _build_table(
    "confirmations", confirmation_table, confirmation_table.c.payment_id, _SUCCEEDED
)
EFFECTS: Final = _build_table(
    "effects", payment_effect_table, payment_effect_table.c.payment_id, _SUCCEEDED
)
ARCHIVED_TABLES: Final = (PAYMENTS, EVENTS, OPTIONS, BUILDS, CONFIRMATIONS, EFFECTS)
"""The tables of archived payments, their own first."""

TRANSACTIONS: Final = _build_table("transaction", chain_tx_table, chain_tx_table.c.id)
TRANSACTION_TABLES: Final = (
    TRANSACTIONS,
    _build_table("items", chain_tx_item_table, chain_tx_item_table.c.tx_id),
    _build_table("variants", chain_tx_bump_table, chain_tx_bump_table.c.tx_id),
)
"""The tables of archived transactions, their own first."""

_DELETED_TABLES: Final = (
    option_count_table.c.payment_id,
    payment_note_table.c.payment_id,
    # given up: others keep a payment from the archive
    webhook_delivery_table.c.payment_id,
)
_DELETE_OTHER_ROWS = [
    Command(delete(column.table).where(is_in(column, "ids"))) for column in _DELETED_TABLES
]


@operation
def read_rows(
    tables: Sequence[ArchivedTable], ids: Collection[str]
) -> Op[dict[str, list[StoredRow]]]:
    """Return the rows of payments or transactions by the names of tables, in the order of keys."""
    stored_rows: dict[str, list[StoredRow]] = {}
    for table in tables:
        stored_rows[table.name] = yield from table.select_rows.all(ids=ids)
    return stored_rows


@operation
def delete_payments(ids: Collection[str]) -> Op[None]:
    """Delete the archived rows of locked payments; part of an operation."""
    yield from _delete(ARCHIVED_TABLES, ids)


@operation
def delete_transactions(ids: Collection[str]) -> Op[None]:
    """Delete the rows of locked transactions; part of an operation."""
    yield from _delete(TRANSACTION_TABLES, ids)


def _delete(tables: Sequence[ArchivedTable], ids: Collection[str]) -> Op[None]:
    for table in reversed(tables):
        yield table.delete_rows(ids=ids)


@operation
def delete_other_rows(ids: Collection[str]) -> Op[None]:
    """Delete other rows that have no use without their payments; part of an operation."""
    for command in _DELETE_OTHER_ROWS:
        yield command(ids=ids)


@operation
def insert_rows(table: ArchivedTable, rows: Sequence[StoredRow]) -> Op[None]:
    """Insert archived rows again; part of an operation."""
    if rows:
        yield table.insert_row.bind_many([table.decode(row) for row in rows])
