"""The operator's calls about the archive."""

from __future__ import annotations

from typing import Any, Final

from florin.v1 import archive_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.money.archive.service.restoring import restore_payment
from florin_server.money.archive.store import files
from florin_server.money.archive.store.files import ArchiveFile

_PAGE: Final = 1_000


class ArchiveCalls:
    """The archive: list files, and restore a payment."""

    _app: ApiContext

    async def ListArchiveFiles(
        self, request: archive_pb2.ListArchiveFilesRequest, context: Any
    ) -> archive_pb2.ListArchiveFilesResponse:
        """List files after a number."""
        page = await self._app.store.scan(files.list_files(request.after_number, _PAGE))
        return archive_pb2.ListArchiveFilesResponse(files=map(_to_message, page))

    async def RestorePayment(
        self, request: archive_pb2.RestorePaymentRequest, context: Any
    ) -> archive_pb2.RestorePaymentResponse:
        """Put an archived payment back into the store."""
        await restore_payment(self._app, request.payment_id)
        return archive_pb2.RestorePaymentResponse(payment_id=request.payment_id)


def _to_message(file: ArchiveFile) -> archive_pb2.ArchiveFile:
    removed_at_us = file.removed_at_us
    return archive_pb2.ArchiveFile(
        number=file.n,
        name=file.name,
        sha256=file.sha256.hex(),
        size=file.size,
        payments=file.payments,
        first_payment_id=file.first_id,
        last_payment_id=file.last_id,
        written_at=to_timestamp(file.written_at_us),
        removed_at=None if removed_at_us is None else to_timestamp(removed_at_us),
    )
