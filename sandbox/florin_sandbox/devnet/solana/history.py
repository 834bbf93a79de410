"""Accounts and transactions on disk: one SQLite file.

Opening replays nothing: accounts are stored in their latest state, beside the journal of the
transactions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from florin_sandbox.devnet.chainfile import ChainFile

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
    """An account.

    `address` and `owner` are 32 bytes; an account without lamports does not exist.
    """

    address: bytes
    lamports: int
    owner: bytes
    executable: bool
    data: bytes


@dataclass(frozen=True, slots=True)
class LandedTransaction:
    """An executed transaction; `error` and `meta` are JSON, `time` is Unix seconds."""

    signature: bytes
    slot: int
    time: int
    raw: bytes
    error: str | None
    memo: str | None
    meta: bytes


class SolanaHistory(ChainFile[int]):
    """The file of one chain."""

    def __init__(self, path: Path | None) -> None:
        super().__init__(path, _SCHEMA)

    def put_accounts(self, accounts: Sequence[StoredAccount]) -> None:
        """Store the current state of accounts; delete accounts that no longer exist."""
        self._write(
            "insert or replace into account values (?, ?, ?, ?, ?)",
            [
                (
                    stored_account.address,
                    stored_account.lamports,
                    stored_account.owner,
                    stored_account.executable,
                    stored_account.data,
                )
                for stored_account in accounts
                if stored_account.lamports
            ],
        )
        self._write(
            "delete from account where address = ?",
            [
                (stored_account.address,)
                for stored_account in accounts
                if not stored_account.lamports
            ],
        )

    def append_transaction(self, transaction: LandedTransaction, mentions: Iterable[bytes]) -> None:
        """Add the newest transaction, with the addresses that it mentions."""
        (number,) = self._db.execute("select coalesce(max(number), 0) + 1 from tx").fetchone()
        self._write(
            "insert into tx values (?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    number,
                    transaction.signature,
                    transaction.slot,
                    transaction.time,
                    transaction.raw,
                    transaction.error,
                    transaction.memo,
                    transaction.meta,
                )
            ],
        )
        self._write(
            "insert into mention values (?, ?)", [(mention, number) for mention in set(mentions)]
        )

    def list_accounts(self) -> Iterator[StoredAccount]:
        """Yield every account."""
        for row in self._db.execute("select * from account"):
            address, lamports, owner, executable, data = row
            yield StoredAccount(address, lamports, owner, bool(executable), data)

    def find_transaction(self, signature: bytes) -> LandedTransaction | None:
        """Return a transaction by its first signature; None if it does not exist."""
        row = self._db.execute(
            "select signature, slot, time, raw, error, memo, meta from tx where signature = ?",
            (signature,),
        ).fetchone()
        return None if row is None else LandedTransaction(*row)

    def list_mentioning(
        self, address: bytes, limit: int, before: bytes | None, until: bytes | None
    ) -> list[LandedTransaction]:
        """Return transactions that mention an address, the newest first, between two signatures."""
        rows = self._db.execute(
            "select signature, slot, time, raw, error, memo, meta from tx"
            " join mention using (number) where mention.address = ?"
            " and number < coalesce((select number from tx where signature = ?), 1 << 60)"
            " and number > coalesce((select number from tx where signature = ?), 0)"
            " order by number desc limit ?",
            (address, before, until, limit),
        )
        return [LandedTransaction(*row) for row in rows]

    def get_first_slot(self) -> int:
        """Return the first slot that is still stored, 0 if all are."""
        return self.find_meta("first_slot") or 0

    def forget_slots(self, below: int) -> None:
        """Delete the transactions of all slots below a slot, as nodes prune old data."""
        self._write(
            "delete from mention where number in (select number from tx where slot < ?)", [(below,)]
        )
        self._write("delete from tx where slot < ?", [(below,)])
        self.set_meta("first_slot", max(below, self.get_first_slot()))

    def get_newest_slot(self) -> int:
        """Return the slot of the newest transaction, 0 before the first."""
        (slot,) = self._db.execute("select coalesce(max(slot), 0) from tx").fetchone()
        return int(slot)
