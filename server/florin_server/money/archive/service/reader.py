"""Archived payments by id."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from florin_server.base.ttl_cache import TtlCache
from florin_server.db.engine.store import Store
from florin_server.domain.archive import ArchiveError
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.payments.payment import (
    Confirmation,
    Payment,
    PaymentOption,
)
from florin_server.domain.receipts.effect import PaymentEffect
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.store import files, rows
from florin_server.money.archive.store.files import ArchivedPaymentKey
from florin_server.money.archive.store.rows import ArchivedTable, StoredRow
from florin_server.money.payments.store.payments import PaymentEventRecord

_log = logging.getLogger(__name__)

_T = TypeVar("_T")

# A read decompresses a thousand payments. Callers choose what is read, so that few reads run at a
# time and few wait.
_READS_MAX: Final = 2
_WAITING_MAX: Final = 32
# one request can need a payment more than once
_CACHED_MAX, _CACHED_US = 200, 60_000_000


@dataclass(frozen=True, slots=True)
class ArchivedPayment:
    """A payment as its file has it: with its changes and, if it succeeded, how it was paid."""

    payment: Payment
    changes: Sequence[PaymentEventRecord]
    option: PaymentOption | None
    confirmation: Confirmation | None
    effect: PaymentEffect | None


class PaymentArchive:
    """Reads archived payments for one process; `folder` is None where none is set."""

    def __init__(self, store: Store, now_us: Callable[[], int], folder: Path | None) -> None:
        self._store = store
        self._now_us = now_us
        self.folder = None if folder is None else ArchiveFolder(folder)
        self._cache: TtlCache[ArchivedPayment] = TtlCache(_CACHED_MAX, _CACHED_US)
        self._reads = asyncio.Semaphore(_READS_MAX)
        self._waiting = 0
        # why the last payment could not be read, and why none can be archived; empty if they can
        self.read_problem = ""
        self.write_problem = ""

    async def find_key(self, payment_id: str) -> ArchivedPaymentKey | None:
        """Return what the store knows of an archived payment; None if it is in no file."""
        return await self._store.read(files.find_key(payment_id))

    async def find(self, payment_id: str) -> ArchivedPayment | None:
        """Return an archived payment; None if it is in no file.

        ApiError(internal_error), unavailable, if the archive cannot be read here or too many other
        callers wait for it.
        """
        key = await self.find_key(payment_id)
        return None if key is None else await self.read(key)

    async def read(self, key: ArchivedPaymentKey) -> ArchivedPayment:
        """Return an archived payment; ApiError as in `find`."""
        if (cached := self._cache.get(key.payment_id, self._now_us())) is not None:
            return cached
        archived_payment = _to_payment(await self.read_rows(key))
        self._cache.put(key.payment_id, archived_payment, self._now_us())
        return archived_payment

    async def read_rows(self, key: ArchivedPaymentKey) -> dict[str, Sequence[StoredRow]]:
        """Return the rows of an archived payment by archived tables; ApiError as in `find`."""
        if self._waiting >= _WAITING_MAX:
            raise ApiError(ErrorCode.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
        self._waiting += 1
        try:
            async with self._reads:
                stored_rows = await self._read_file(key)
        except ArchiveError as error:
            if str(error) != self.read_problem:
                _log.error("payment %s is archived, but %s", key.payment_id, error)
            self.read_problem = str(error)
            raise ApiError(
                ErrorCode.INTERNAL_ERROR,
                "The payment is in the archive, which cannot be read now",
                unavailable=True,
                retry_after_s=60,
            ) from error
        finally:
            self._waiting -= 1
        self.read_problem = ""
        return stored_rows

    def forget(self, payment_id: str) -> None:
        """Forget a payment whose rows are in the store again."""
        self._cache.remove(payment_id)

    async def _read_file(self, key: ArchivedPaymentKey) -> dict[str, Sequence[StoredRow]]:
        if self.folder is None:
            raise ArchiveError("the settings of this process name no folder of the archive")
        from florin_server.money.archive.service import parquet  # noqa: PLC0415  (extra)

        file = await self._store.read(files.find(key.file_n))
        if file is None:
            raise ArchiveError(f"the store does not know the archive file {key.file_n}")
        path = self.folder.get_path(file)
        stored_rows = await asyncio.to_thread(parquet.find_payment, path, key.payment_id)
        if stored_rows is None:
            raise ArchiveError(f"{path} does not contain the payment {key.payment_id}")
        return dict(stored_rows)


def _to_payment(stored_rows: dict[str, Sequence[StoredRow]]) -> ArchivedPayment:
    return ArchivedPayment(
        payment=_build_all(Payment, rows.PAYMENTS, stored_rows)[0],
        changes=_build_all(PaymentEventRecord, rows.EVENTS, stored_rows),
        option=_build_first(PaymentOption, rows.OPTIONS, stored_rows),
        confirmation=_build_first(Confirmation, rows.CONFIRMATIONS, stored_rows),
        effect=_build_first(PaymentEffect, rows.EFFECTS, stored_rows),
    )


def _build_all(
    kind: type[_T], table: ArchivedTable, stored_rows: dict[str, Sequence[StoredRow]]
) -> list[_T]:
    return [_build(kind, table.decode(row)) for row in stored_rows[table.name]]


def _build_first(
    kind: type[_T], table: ArchivedTable, stored_rows: dict[str, Sequence[StoredRow]]
) -> _T | None:
    built = _build_all(kind, table, stored_rows)
    return built[0] if built else None


def _build(kind: Any, values: dict[str, Any]) -> Any:
    """Return a dataclass with the columns of its fields' names."""
    return kind(**{name: values[name] for name in kind.__dataclass_fields__ if name in values})
