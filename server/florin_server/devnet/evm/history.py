"""Blocks, transactions and state on disk: one SQLite file, written with each block.

Nothing is replayed on opening: the state is stored as it is, with the former values of the newest
blocks beside it so that they can be taken back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_server.devnet.chainfile import ChainFile

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
class Block:
    """One block. `bloom` is empty where there are no logs."""

    number: int
    hash: bytes
    parent: bytes
    time: int  # Unix seconds
    base_fee: int  # wei
    gas_used: int
    bloom: bytes


@dataclass(frozen=True, slots=True)
class Mined:
    """A transaction in a block; `body` and `receipt` are the JSON that callers get."""

    hash: bytes
    raw: bytes
    body: bytes
    receipt: bytes


class History(ChainFile[bytes]):
    """The file of one chain; its `meta` are settings that must not change."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, _SCHEMA)

    # ---- writing

    def append(
        self,
        block: Block,
        mined: Sequence[Mined],
        undo: Mapping[Cell, Value | None],
        cells: Mapping[Cell, Value],
    ) -> None:
        """Adds the newest block; `cells` is the state after it, `undo` what it replaced."""
        self._write(
            "insert into block values (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    block.number,
                    block.hash,
                    block.parent,
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
                (one.hash, block.number, position, one.raw, one.body, one.receipt)
                for position, one in enumerate(mined)
            ],
        )
        self._write(
            "insert into undo values (?, ?, ?, ?)",
            [
                (block.number, address, _field(field), None if old is None else _pack(old))
                for (address, field), old in undo.items()
            ],
        )
        self._store(undo, cells)

    def rewind(
        self, number: int, undo: Mapping[Cell, Value | None], cells: Mapping[Cell, Value]
    ) -> list[bytes]:
        """Drops all blocks above a number; returns their raw transactions in order.

        `cells` is the state after that block, which differs in the cells of `undo`.
        """
        raw = self._db.execute(
            "select raw from tx where block > ? order by block, position", (number,)
        ).fetchall()
        for table, column in (("undo", "block"), ("tx", "block"), ("block", "number")):
            self._write(f"delete from {table} where {column} > ?", [(number,)])  # noqa: S608
        self._store(undo, cells)
        return [row[0] for row in raw]

    def prune(self, number: int) -> None:
        """Gives up taking back blocks up to a number."""
        self._write("delete from undo where block <= ?", [(number,)])

    def _store(self, changed: Iterable[Cell], cells: Mapping[Cell, Value]) -> None:
        gone, kept = [], []
        for cell in changed:
            address, field = cell
            value = cells.get(cell)
            if value is None:
                gone.append((address, _field(field)))
            else:
                kept.append((address, _field(field), _pack(value)))
        self._write("delete from cell where address = ? and field = ?", gone)
        self._write("insert or replace into cell values (?, ?, ?)", kept)

    # ---- reading

    def cells(self) -> dict[Cell, Value]:
        """The state after the newest block."""
        rows = self._db.execute("select address, field, value from cell")
        return {
            (address, number := _number(field)): _unpack(number, value)
            for address, field, value in rows
        }

    def undo(self, above: int) -> dict[int, dict[Cell, Value | None]]:
        """The former values that blocks above a number replaced, by block."""
        found: dict[int, dict[Cell, Value | None]] = {}
        rows = self._db.execute(
            "select block, address, field, value from undo where block > ?", (above,)
        )
        for block, address, field, value in rows:
            number = _number(field)
            old = None if value is None else _unpack(number, value)
            found.setdefault(block, {})[address, number] = old
        return found

    def head(self) -> Block | None:
        """The newest block; None before the first."""
        row = self._db.execute("select * from block order by number desc limit 1").fetchone()
        return None if row is None else Block(*row)

    def block(self, number: int) -> Block | None:
        """A block by number."""
        row = self._db.execute("select * from block where number = ?", (number,)).fetchone()
        return None if row is None else Block(*row)

    def block_by_hash(self, block_hash: bytes) -> Block | None:
        """A block by hash."""
        row = self._db.execute("select * from block where hash = ?", (block_hash,)).fetchone()
        return None if row is None else Block(*row)

    def hashes(self, above: int) -> list[bytes]:
        """Hashes of the blocks above a number, oldest first."""
        rows = self._db.execute("select hash from block where number > ? order by number", (above,))
        return [row[0] for row in rows]

    def transactions(self, number: int) -> list[bytes]:
        """Hashes of a block's transactions."""
        rows = self._db.execute("select hash from tx where block = ? order by position", (number,))
        return [row[0] for row in rows]

    def bodies(self, number: int) -> list[bytes]:
        """JSON of a block's transactions."""
        rows = self._db.execute("select body from tx where block = ? order by position", (number,))
        return [row[0] for row in rows]

    def receipts(self, first: int, last: int) -> Iterator[bytes]:
        """JSON of the receipts of a range of blocks, both ends included."""
        rows = self._db.execute(
            "select receipt from tx where block between ? and ? order by block, position",
            (first, last),
        )
        return (row[0] for row in rows)

    def body(self, transaction_hash: bytes) -> bytes | None:
        """JSON of a mined transaction."""
        row = self._db.execute("select body from tx where hash = ?", (transaction_hash,)).fetchone()
        return None if row is None else row[0]

    def receipt(self, transaction_hash: bytes) -> bytes | None:
        """JSON of a mined transaction's receipt."""
        row = self._db.execute(
            "select receipt from tx where hash = ?", (transaction_hash,)
        ).fetchone()
        return None if row is None else row[0]


def _field(field: int) -> bytes:
    """Storage slots as written, the account's own fields as one byte."""
    return field.to_bytes(32, "big") if field >= 0 else bytes([-field])


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big") if len(field) == 32 else -field[0]


def _pack(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return value.to_bytes((value.bit_length() + 7) // 8, "big")


def _unpack(field: int, value: bytes) -> Value:
    return value if field == _CODE else int.from_bytes(value, "big")
