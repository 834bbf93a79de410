"""`florin archive`: list and verify the files of the archive, and restore a payment."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

from florin.v1 import archive_pb2

from florin_server.cli.archive_files import list_archive_files, to_archive_file
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
    print_table,
    show_progress,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import call_operator, format_minute, run_with_operator
from florin_server.cli.settings import get_settings
from florin_server.domain.archive import ArchiveError
from florin_server.money.archive.service.folder import ArchiveFolder

_UNKNOWN = "an interrupted run left it, or the store is older than the archive"
_COLUMNS = ("File", "Rows", "MB", "Written", "Left the store")


def list_archive(overrides: dict[str, Any]) -> None:
    """Print all files."""
    files = run_with_operator(overrides, list_archive_files)
    if not print_json(archive_pb2.ListArchiveFilesResponse(files=files)):
        print_table(_COLUMNS, map(_to_row, files))


def verify_archive(overrides: dict[str, Any], month: str | None) -> None:
    """Verify the files of a month, or all; print those that are not as they were written."""
    folder_path = get_settings(overrides).archive.folder
    if folder_path is None:
        fail("Not verified", "the settings name no folder of the archive", ExitStatus.USAGE_ERROR)
    folder, problems, count = ArchiveFolder(folder_path), [], 0
    files = [
        file
        for file in run_with_operator(overrides, list_archive_files)
        if _is_of_month(file.name, month)
    ]
    with show_progress("Reading the archive"):
        for file in files:
            try:
                folder.verify(to_archive_file(file))
                count += 1
            except ArchiveError as error:
                problems.append(str(error))
    names = {name for name in folder.list_names() if _is_of_month(name, month)}
    unknown = sorted(names - {file.name for file in files})
    if not print_json({"verified": count, "problems": problems, "unknown": unknown}):
        console.print(f"{count} of {len(files)} files are as they were written.")
        for problem in problems:
            print_hint(problem)
        for name in unknown:
            print_hint(f"{name} is unknown to the store: {_UNKNOWN}")
    if problems:
        raise SystemExit(int(ExitStatus.REFUSED))


def restore_archived(overrides: dict[str, Any], payment_id: str) -> None:
    """Put a payment back into the store."""
    request = archive_pb2.RestorePaymentRequest(payment_id=payment_id)
    restored = call_operator(overrides, "RestorePayment", request)
    if not print_json(restored):
        console.print(f"{restored.payment_id} is in the store again.")


def _is_of_month(name: str, month: str | None) -> bool:
    return month is None or PurePosixPath(name).parent.name == month


def _to_row(file: archive_pb2.ArchiveFile) -> tuple[str, ...]:
    times = (format_minute(file, name) for name in ("written_at", "removed_at"))
    return (file.name, str(file.payments), f"{file.size / 1e6:.1f}", *times)
