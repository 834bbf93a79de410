"""The files of the archive, and which of them contains a payment."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Text,
    cast,
    delete,
    exists,
    func,
    literal,
    select,
    text,
    update,
)

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    operation,
    param,
)
from florin_server.db.tables.archive import UNREMOVED_PREDICATE
from florin_server.db.tables.tables import archive_file_table, archived_payment_table, payment_table
from florin_server.money.archive.store.closed import PaymentVersion

TRANSACTION_FOLDER: Final = "transactions/"
"""The beginning of the names of files of transactions."""


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file: payments, or transactions, of a month, from the first id to the last.

    `name` is its path in the folder of the archive. `size` is in bytes. `payments` counts the
    payments or transactions. `removed_at_us` is None until their rows are deleted.
    """

    n: int
    name: str
    sha256: bytes
    size: int
    payments: int
    first_id: str
    last_id: str
    written_at_us: int
    removed_at_us: int | None = None

    @property
    def month(self) -> str:
        """Return the month of its payments or transactions, as 2026-10."""
        return self.folder.rpartition("/")[2]

    @property
    def folder(self) -> str:
        """Return the path of its folder, which has a manifest, in the folder of the archive."""
        return self.name.rpartition("/")[0]

    @property
    def has_transactions(self) -> bool:
        """Return whether it contains transactions, and no payments."""
        return self.name.startswith(TRANSACTION_FOLDER)


@dataclass(frozen=True, slots=True)
class ArchivedPaymentKey:
    """The facts of a payment in a file that stay in the store.

    `value` is in minor units of `unit`.
    """

    payment_id: str
    file_n: int
    version: int
    partner_id: str
    merchant_id: str
    live: bool
    unit: str
    value: int


_file, _key, _payment = archive_file_table.c, archived_payment_table.c, payment_table.c
_NEXT_N = Statement(select(func.coalesce(func.max(_file.n), 0) + 1), int)
_ADD = Command(insert(archive_file_table))
_LIST = Statement(
    select(archive_file_table)
    .where(_file.n > param("after_n"))
    .order_by(_file.n)
    .limit(param("most")),
    ArchiveFile,
)
_FIND = Statement(select(archive_file_table).where(_file.n == param("file_n")), ArchiveFile)
_UNREMOVED = Statement(
    select(archive_file_table)
    .where(text(UNREMOVED_PREDICATE))
    .order_by(_file.n)
    .limit(param("most")),
    ArchiveFile,
)
_MARK_REMOVED = Command(
    update(archive_file_table)
    .where(_file.n == param("file_n"))
    .values(removed_at_us=param("now_us"))
)


def _put_keys_command(*conditions: ColumnElement[bool]) -> Command:
    new = insert(archived_payment_table).from_select(
        [column.name for column in archived_payment_table.c],
        select(
            _payment.id,
            param("file_n", BigInteger),
            *(_payment.version, _payment.partner_id, _payment.merchant_id),
            *(_payment.live, _payment.unit, _payment.value),
        ).where(is_in(_payment.id, "ids"), *conditions),
    )
    # a payment that changed after it was archived is archived again
    return Command(
        new.on_conflict_do_update(
            index_elements=[_key.payment_id],
            set_={"file_n": new.excluded.file_n, "version": new.excluded.version},
        )
    )


_PUT_KEYS = _put_keys_command()
_PUT_UNCHANGED_KEYS = _put_keys_command(
    is_in(_payment.id + literal(":") + cast(_payment.version, Text), "versions")
)
_REMOVED = Statement(
    select(_key.payment_id).where(
        _key.file_n == param("file_n"),
        is_in(_key.payment_id, "ids"),
        ~exists().where(_payment.id == _key.payment_id).correlate(archived_payment_table),
    ),
    str,
)
_FIND_KEY = Statement(
    select(archived_payment_table).where(_key.payment_id == param("payment_id")), ArchivedPaymentKey
)
_FORGET_KEYS = Command(delete(archived_payment_table).where(is_in(_key.payment_id, "ids")))


@operation
def find_next_n() -> Op[int]:
    """Return the number of the next file."""
    return (yield from _NEXT_N.single())


@operation
def add(file: ArchiveFile) -> Op[None]:
    """Add a file that is complete on the disk."""
    yield _ADD(file)


@operation
def list_files(after_n: int, limit: int) -> Op[list[ArchiveFile]]:
    """Return the next files after a number."""
    return (yield from _LIST.all(after_n=after_n, most=limit))


@operation
def find(n: int) -> Op[ArchiveFile | None]:
    """Return a file by its number; None if it does not exist."""
    return (yield from _FIND.first(file_n=n))


@operation
def list_unremoved(limit: int) -> Op[list[ArchiveFile]]:
    """Return the oldest files of which there may still be rows."""
    return (yield from _UNREMOVED.all(most=limit))


@operation
def mark_removed(n: int, now_us: int) -> Op[None]:
    """Record that what a file contains is deleted from the store; part of an operation."""
    yield _MARK_REMOVED(file_n=n, now_us=now_us)


@operation
def put_keys(file_n: int, payment_ids: Collection[str]) -> Op[None]:
    """Record that a file contains locked payments at their versions; part of an operation."""
    yield _PUT_KEYS(file_n=file_n, ids=payment_ids)


@operation
def put_unchanged_keys(file_n: int, payments: Sequence[PaymentVersion]) -> Op[None]:
    """Record which of some payments a file contains as they are now; part of an operation."""
    yield _PUT_UNCHANGED_KEYS(
        file_n=file_n,
        ids=[payment.id for payment in payments],
        versions=[f"{payment.id}:{payment.version}" for payment in payments],
    )


@operation
def list_removed(file_n: int, payment_ids: Collection[str]) -> Op[list[str]]:
    """Return which of some payments are in a file, and no longer in the store."""
    return (yield from _REMOVED.all(file_n=file_n, ids=payment_ids))


@operation
def find_key(payment_id: str) -> Op[ArchivedPaymentKey | None]:
    """Return what is known of an archived payment; None if it is in no file."""
    return (yield from _FIND_KEY.first(payment_id=payment_id))


@operation
def forget_keys(payment_ids: Collection[str]) -> Op[None]:
    """Forget that payments are archived; part of an operation."""
    yield _FORGET_KEYS(ids=payment_ids)
