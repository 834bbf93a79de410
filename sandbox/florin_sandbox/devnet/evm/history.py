"""Blocks, transactions and state on disk: one SQLite file, written with each block.

Opening replays nothing: the current state is stored, together with the former values of the newest
blocks so that these can be undone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_sandbox.devnet.chainfile import ChainFile

Cell = tuple[bytes, int]
Value = int | bytes

_CODE: Final = -3

_SCHEMA: Final = """
create table meta (key text primary key, value blob not null) without rowid;
create table block (
  number integer primary key, hash blob not null unique, parent blob not null,
  time integer not null, base_fee integer not null, gas_used integer not null, bloom blob not null
);
create table tx (
  hash blob primary key, block integer not null, position integer not null,
  raw blob not null, body blob not null, receipt blob not null
);
create unique index tx_block on tx (block, position);
create table cell (
  address blob not null, field blob not null, value blob not null, primary key (address, field)
) without rowid;
create table undo (
  block integer not null, address blob not null, field blob not null, value blob,
  primary key (block, address, field)
) without rowid;
"""


@dataclass(frozen=True, slots=True)
class EvmBlock:
    """One block. `bloom` is empty if it has no logs."""

    number: int
    hash: bytes
    parent_hash: bytes
    time: int  # Unix seconds
    base_fee: int  # wei
    gas_used: int
    bloom: bytes


@dataclass(frozen=True, slots=True)
class StoredTransaction:
    """A transaction in a block; `body` and `receipt` are the JSON that callers get."""

    hash: bytes
    raw: bytes
    body: bytes
    receipt: bytes


class EvmHistory(ChainFile[bytes]):
    """The file of one chain; its `meta` contains settings that must not change."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, _SCHEMA)

    # ---- writes

    def append_block(
        self,
        block: EvmBlock,
        transactions: Sequence[StoredTransaction],
        undo: Mapping[Cell, Value | None],
        cells: Mapping[Cell, Value],
    ) -> None:
        """Add the newest block; `cells` is the state after it, `undo` the replaced values."""
        self._write(
            "insert into block values (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    block.number,
                    block.hash,
                    block.parent_hash,
                    block.time,
                    block.base_fee,
                    block.gas_used,
                    block.bloom,
                )
            ],
        )
        self._write(
            "insert into tx values (?, ?, ?, ?, ?, ?)",
            [
                (
                    stored_transaction.hash,
                    block.number,
                    position,
                    stored_transaction.raw,
                    stored_transaction.body,
                    stored_transaction.receipt,
                )
                for position, stored_transaction in enumerate(transactions)
            ],
        )
        self._write(
            "insert into undo values (?, ?, ?, ?)",
            [
                (block.number, address, _pack_field(field), None if old is None else _pack(old))
                for (address, field), old in undo.items()
            ],
        )
        self._store(undo, cells)

    def rewind_to(
        self, number: int, undo: Mapping[Cell, Value | None], cells: Mapping[Cell, Value]
    ) -> list[bytes]:
        """Drop all blocks above a number; return their raw transactions in order.

        `cells` is the state after that block, which differs in the cells of `undo`.
        """
        raw = self._db.execute(
            "select raw from tx where block > ? order by block, position", (number,)
        ).fetchall()
        for table, column in (("undo", "block"), ("tx", "block"), ("block", "number")):
            self._write(f"delete from {table} where {column} > ?", [(number,)])  # noqa: S608
        self._store(undo, cells)
        return [row[0] for row in raw]

    def prune_undo(self, number: int) -> None:
        """Delete the undo data of blocks up to a number."""
        self._write("delete from undo where block <= ?", [(number,)])

    def _store(self, changed: Iterable[Cell], cells: Mapping[Cell, Value]) -> None:
        gone, stored_rows = [], []
        for cell in changed:
            address, field = cell
            value = cells.get(cell)
            if value is None:
                gone.append((address, _pack_field(field)))
            else:
                stored_rows.append((address, _pack_field(field), _pack(value)))
        self._write("delete from cell where address = ? and field = ?", gone)
        self._write("insert or replace into cell values (?, ?, ?)", stored_rows)

    # ---- reads

    def load_cells(self) -> dict[Cell, Value]:
        """Return the state after the newest block."""
        rows = self._db.execute("select address, field, value from cell")
        return {
            (address, number := _unpack_field(field)): _unpack(number, value)
            for address, field, value in rows
        }

    def load_undo(self, above: int) -> dict[int, dict[Cell, Value | None]]:
        """Return the values that blocks above a number replaced, by block."""
        undo_values: dict[int, dict[Cell, Value | None]] = {}
        rows = self._db.execute(
            "select block, address, field, value from undo where block > ?", (above,)
        )
        for block, address, field, value in rows:
            number = _unpack_field(field)
            old = None if value is None else _unpack(number, value)
            undo_values.setdefault(block, {})[address, number] = old
        return undo_values

    def find_head(self) -> EvmBlock | None:
        """Return the newest block; None before the first."""
        row = self._db.execute("select * from block order by number desc limit 1").fetchone()
        return None if row is None else EvmBlock(*row)

    def find_block(self, number: int) -> EvmBlock | None:
        """Return a block by number; None if it does not exist."""
        row = self._db.execute("select * from block where number = ?", (number,)).fetchone()
        return None if row is None else EvmBlock(*row)

    def find_block_by_hash(self, block_hash: bytes) -> EvmBlock | None:
        """Return a block by hash; None if it does not exist."""
        row = self._db.execute("select * from block where hash = ?", (block_hash,)).fetchone()
        return None if row is None else EvmBlock(*row)

    def list_hashes(self, above: int) -> list[bytes]:
        """Return the hashes of the blocks above a number, oldest first."""
        rows = self._db.execute("select hash from block where number > ? order by number", (above,))
        return [row[0] for row in rows]

    def list_transaction_hashes(self, number: int) -> list[bytes]:
        """Return the hashes of a block's transactions."""
        rows = self._db.execute("select hash from tx where block = ? order by position", (number,))
        return [row[0] for row in rows]

    def list_bodies(self, number: int) -> list[bytes]:
        """Return a block's transactions as JSON."""
        rows = self._db.execute("select body from tx where block = ? order by position", (number,))
        return [row[0] for row in rows]

    def list_receipts(self, first: int, last: int) -> Iterator[bytes]:
        """Return the receipts of a range of blocks as JSON, both ends included."""
        rows = self._db.execute(
            "select receipt from tx where block between ? and ? order by block, position",
            (first, last),
        )
        return (row[0] for row in rows)

    def find_body(self, transaction_hash: bytes) -> bytes | None:
        """Return a mined transaction as JSON; None if it does not exist."""
        row = self._db.execute("select body from tx where hash = ?", (transaction_hash,)).fetchone()
        return None if row is None else row[0]

    def find_receipt(self, transaction_hash: bytes) -> bytes | None:
        """Return a mined transaction's receipt as JSON; None if it does not exist."""
        row = self._db.execute(
            "select receipt from tx where hash = ?", (transaction_hash,)
        ).fetchone()
        return None if row is None else row[0]


def _pack_field(field: int) -> bytes:
    """Encode a storage slot in full, and an account's own field as one byte."""
    return field.to_bytes(32, "big") if field >= 0 else bytes([-field])


def _unpack_field(field: bytes) -> int:
    return int.from_bytes(field, "big") if len(field) == 32 else -field[0]


def _pack(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _unpack(field: int, value: bytes) -> Value:
    return value if field == _CODE else int.from_bytes(value, "big")
