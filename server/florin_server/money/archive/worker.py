"""Moves old payments and transactions to the archive, by months, and deletes what has no use.

Unused options of payments have none, nor have ended transfers for other servers.

One process at a time does so, under a lease. A pass looks at everything that is old enough: what
cannot be archived yet is looked at again by the next pass.
"""

from __future__ import annotations

import logging
from itertools import groupby
from typing import Final, Protocol

from florin_server.base.clock import sleep_remaining
from florin_server.db import installation
from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.archive import ArchiveError, get_archive_month
from florin_server.domain.ids import get_payment_id_floor
from florin_server.money.archive.context import ArchiveContext
from florin_server.money.archive.service import archiving, partitions, transactions
from florin_server.money.archive.service.folder import ArchiveFolder
from florin_server.money.archive.store import (
    closed,
    closed_transactions,
    ended_transfers,
    files,
    unused_options,
)
from florin_server.money.archive.store.files import ArchiveFile
from florin_server.operations.store import leases
from florin_server.settings.context import SettingsContext


class _Context(ArchiveContext, SettingsContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_log = logging.getLogger(__name__)

LEASE_NAME: Final = "archive"
# longer than writing a file takes
_LEASE_US: Final = 300_000_000
_POLL_S: Final = 600.0
_PASS_US: Final = 86_400_000_000
_DAY_US: Final = 86_400_000_000
# payments of one transaction that deletes options
_OPTIONS_AT_ONCE: Final = 100
# transfers that one transaction looks at
_TRANSFERS_AT_ONCE: Final = 500
_FILES_MAX: Final = 1_000
# values of the installation: when a pass ended, and up to which id options were deleted
_PASSED, _OPTIONS_DELETED = "archive_passed_us", "archive_options_deleted"


class ArchiveWorker:
    """Works for one process, while it has the lease."""

    def __init__(self, app: _Context, lease_owner: str) -> None:
        self._app = app
        self._lease_owner = lease_owner

    async def run(self) -> None:
        """Run until canceled; a problem of the folder is reported, and retried."""
        app = self._app
        while True:
            now_us = app.clock.now_us()
            try:
                if await self._keep_lease():
                    await self._run_pass(now_us)
                app.archive.write_problem = ""
            except ArchiveError as error:
                if str(error) != app.archive.write_problem:
                    _log.error("nothing can be archived: %s", error)
                app.archive.write_problem = str(error)
            await sleep_remaining(app.clock, _POLL_S, now_us)

    async def _keep_lease(self) -> bool:
        store = self._app.store
        steps = leases.acquire(
            LEASE_NAME, self._lease_owner, self._app.clock.now_us(), _LEASE_US, store.is_exclusive
        )
        return await store.write(steps) is not None

    async def _run_pass(self, now_us: int) -> None:
        settings = self._app.settings.archive
        if settings.option_days is not None:
            await self._delete_options(now_us - settings.option_days * _DAY_US)
        folder = self._app.archive.folder
        if settings.payment_days is None or folder is None:
            return
        passed = await self._app.store.read(installation.find_value(_PASSED))
        if passed is not None and 0 <= now_us - int(passed) < _PASS_US:
            return
        before_us = now_us - settings.payment_days * _DAY_US
        if (
            await self._archive(folder, before_us)
            and await self._delete_transfers(before_us)
            and await self._archive_transactions(folder, before_us)
        ):
            await self._app.store.write(installation.put_value(_PASSED, str(now_us)))

    async def _archive(self, folder: ArchiveFolder, before_us: int) -> bool:
        """Archive all payments of months before that time; False if it has to be tried again."""
        end, after_id = get_archive_month(before_us), archiving.FIRST_ID
        # first what an interrupted pass has left
        is_removed = await self._remove(folder, "")
        while is_removed and await self._keep_lease():
            written = await archiving.write_file(self._app, folder, after_id, end, before_us)
            if written.file is None:
                is_removed = await self._remove(folder, "")
                if is_removed:
                    await partitions.drop_archived_months(self._app, end)
                return is_removed
            after_id = written.last_id
            is_removed = await self._remove(folder, written.file.month)
        return False

    async def _remove(self, folder: ArchiveFolder, unfinished_month: str) -> bool:
        """Delete the rows of all files, except for those of a month that is not complete.

        A partition can be emptied at once. False if another process has the lease.
        """
        unremoved = await self._app.store.read(files.list_unremoved(_FILES_MAX))
        of_payments = [file for file in unremoved if not file.has_transactions]
        for month, month_files in groupby(sorted(of_payments, key=_get_month), _get_month):
            if month == unfinished_month:
                continue
            if not await self._keep_lease():
                return False
            count = await archiving.remove_payments(self._app, folder, list(month_files))
            _log.info("%d payments of %s are in the archive", count, month)
        return True

    async def _archive_transactions(self, folder: ArchiveFolder, before_us: int) -> bool:
        """Archive all transactions that are old enough; False if it has to be tried again."""
        after = closed_transactions.FIRST
        # first what an interrupted pass has left
        is_removed = await self._remove_transactions(folder, before_us)
        while is_removed and await self._keep_lease():
            written = await transactions.write_file(self._app, folder, after, before_us)
            if written.file is None:
                return True
            after = written.last
            is_removed = await self._remove_transactions(folder, before_us)
        return False

    async def _remove_transactions(self, folder: ArchiveFolder, before_us: int) -> bool:
        """Delete the transactions of all files; False if another process has the lease."""
        for file in await self._app.store.read(files.list_unremoved(_FILES_MAX)):
            if not file.has_transactions:
                continue
            if not await self._keep_lease():
                return False
            count = await transactions.remove_transactions(self._app, folder, file, before_us)
            _log.info("%d transactions of %s are in the archive", count, file.month)
        return True

    async def _delete_transfers(self, before_us: int) -> bool:
        """Delete transfers for others that ended; False if another process has the lease."""
        after_key: str | None = archiving.FIRST_ID
        while after_key is not None:
            if not await self._keep_lease():
                return False
            deletion = ended_transfers.delete_ended(after_key, before_us, _TRANSFERS_AT_ONCE)
            after_key = await self._app.store.write(deletion)
        return True

    async def _delete_options(self, before_us: int) -> None:
        end_id = get_payment_id_floor(before_us // 1000)
        while await self._keep_lease() and await self._app.store.write(_delete_page(end_id)):
            pass


def _get_month(file: ArchiveFile) -> str:
    return file.month


@operation
def _delete_page(end_id: str) -> Op[bool]:
    """Delete the unused options of the next payments; return False after the last."""
    after_id = (yield from installation.find_value(_OPTIONS_DELETED)) or archiving.FIRST_ID
    ids = yield from closed.list_ids(after_id, end_id, _OPTIONS_AT_ONCE)
    if not ids:
        return False
    yield from unused_options.delete_unused(ids)
    yield from installation.put_value(_OPTIONS_DELETED, ids[-1])
    return True
