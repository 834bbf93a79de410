"""The files of the archive, for commands that read its folder themselves."""

from __future__ import annotations

from florin.v1 import archive_pb2

from florin_server.app.operator.client import OperatorClient
from florin_server.money.archive.store.files import ArchiveFile


async def list_archive_files(service: OperatorClient) -> list[archive_pb2.ArchiveFile]:
    """Return all files that the store knows, in the order of their numbers."""
    files: list[archive_pb2.ArchiveFile] = []
    while True:
        after = files[-1].number if files else 0
        request = archive_pb2.ListArchiveFilesRequest(after_number=after)
        page = (await service.call("ListArchiveFiles", request)).files
        if not page:
            return files
        files += page


def to_archive_file(file: archive_pb2.ArchiveFile) -> ArchiveFile:
    """Return a file as the store records it, except when its rows were deleted."""
    return ArchiveFile(
        n=file.number,
        name=file.name,
        sha256=bytes.fromhex(file.sha256),
        size=file.size,
        payments=file.payments,
        first_id=file.first_payment_id,
        last_id=file.last_payment_id,
        written_at_us=file.written_at.ToMicroseconds(),
    )
