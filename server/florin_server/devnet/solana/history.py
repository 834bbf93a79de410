"""Accounts and transactions on disk: one SQLite file.

Nothing is replayed on opening: accounts are stored as each transaction left them, beside the
journal of the transactions themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_server.devnet.chainfile import ChainFile

_SCHEMA: Final = """
create table meta (key text primary key, value integer not null) without rowid;
create table account (
  address blob primary key, lamports integer not null, owner blob not null,
  executable integer not null, data blob not null
) without rowid;
create table tx (
  number integer primary key, signature blob not null unique, slot integer not null,
  time integer not null, raw blob not null, error text, memo text, meta blob not null
);
create table mention (
  address blob not null, number integer not null, primary key (address, number)
) without rowid;
"""


@dataclass(frozen=True, slots=True)
class StoredAccount:
    """An account. `address` and `owner` are 32 bytes; one without lamports does not exist."""

    address: bytes
    lamports: int
    owner: bytes
    executable: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class Landed:
    """A transaction that was executed. `error` and `meta` are JSON; `time` is Unix seconds."""

    signature: bytes
    slot: int
    time: int
    raw: bytes
    error: str | None
    memo: str | None
    meta: bytes


class History(ChainFile[int]):
    """The file of one chain."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, _SCHEMA)

    def put_accounts(self, accounts: Sequence[StoredAccount]) -> None:
        """Stores accounts as they are now; forgets those that do not exist any more."""
        self._write(
            "insert or replace into account values (?, ?, ?, ?, ?)",
            [
                (one.address, one.lamports, one.owner, one.executable, one.data)
                for one in accounts
                if one.lamports
            ],
        )
        self._write(
            "delete from account where address = ?",
            [(one.address,) for one in accounts if not one.lamports],
        )

    def append(self, landed: Landed, mentions: Iterable[bytes]) -> None:
        """Adds the newest transaction, with the addresses that it names."""
        (number,) = self._db.execute("select coalesce(max(number), 0) + 1 from tx").fetchone()
        self._write(
            "insert into tx values (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    number,
                    landed.signature,
                    landed.slot,
                    landed.time,
                    landed.raw,
                    landed.error,
                    landed.memo,
                    landed.meta,
                )
            ],
        )
        self._write("insert into mention values (?, ?)", [(one, number) for one in set(mentions)])

    def accounts(self) -> Iterator[StoredAccount]:
        """Every account."""
        for row in self._db.execute("select * from account"):
            address, lamports, owner, executable, data = row
            yield StoredAccount(address, lamports, owner, bool(executable), data)

    def transaction(self, signature: bytes) -> Landed | None:
        """A transaction by its first signature."""
        row = self._db.execute(
            "select signature, slot, time, raw, error, memo, meta from tx where signature = ?",
            (signature,),
        ).fetchone()
        return None if row is None else Landed(*row)

    def mentioning(
        self, address: bytes, limit: int, before: bytes | None, until: bytes | None
    ) -> list[Landed]:
        """Transactions that name an address, the newest first, between two signatures."""
        rows = self._db.execute(
            "select signature, slot, time, raw, error, memo, meta from tx"
            " join mention using (number) where mention.address = ?"
            " and number < coalesce((select number from tx where signature = ?), 1 << 60)"
            " and number > coalesce((select number from tx where signature = ?), 0)"
            " order by number desc limit ?",
            (address, before, until, limit),
        )
        return [Landed(*row) for row in rows]

    def first_slot(self) -> int:
        """The first slot that is not forgotten, 0 if none is."""
        return self.meta("first_slot") or 0

    def forget(self, below: int) -> None:
        """Forgets the transactions of all slots below one, as nodes do with what is old."""
        self._write(
            "delete from mention where number in (select number from tx where slot < ?)", [(below,)]
        )
        self._write("delete from tx where slot < ?", [(below,)])
        self.set_meta("first_slot", max(below, self.first_slot()))

    def newest_slot(self) -> int:
        """The slot of the newest transaction, 0 before the first."""
        (slot,) = self._db.execute("select coalesce(max(slot), 0) from tx").fetchone()
        return int(slot)
