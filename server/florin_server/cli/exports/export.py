"""`florin export`: export the store, or a merchant's data from a server, as tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.app.home import SetupError
from florin_server.cli.console import (
    console,
    fail,
    print_json,
    print_table,
    show_progress,
)
from florin_server.cli.operation import usage_error
from florin_server.domain.exports.error import ExportError
from florin_server.domain.exports.tables import TABLES
from florin_server.features.exports.service import folder
from florin_server.features.exports.service.feeds import ExportOrigin
from florin_server.features.exports.service.formats import ExportFormat
from florin_server.features.exports.service.run import ExportRun


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """The options of an export."""

    folder: Path
    format: str = ExportFormat.CSV
    tables: Sequence[str] = ()
    previous_manifest: Path | None = None
    with_personal_data: bool = False


def export_store(overrides: dict[str, Any], options: ExportOptions) -> None:
    """Export from the store, and print the number of rows of each table."""
    # slow to load, and an export from a server does not need it
    from florin_server.app.exports.store import open_store_origin  # noqa: PLC0415
    from florin_server.cli.settings import get_settings  # noqa: PLC0415

    _export(open_store_origin(get_settings(overrides)), options)


def export_from_server(target: str, options: ExportOptions, *, tls: bool, ca: Path | None) -> None:
    """Export a merchant's data from a server, with the key from the environment."""
    # slow to load, and an export from the store does not need it
    from florin_server.app.exports.server import open_server_origin  # noqa: PLC0415
    from florin_server.app.servers.upstream import UpstreamConnection  # noqa: PLC0415

    _export(open_server_origin(target, UpstreamConnection(tls=tls, ca=ca), os.environ), options)


def _export(opened_origin: AbstractContextManager[ExportOrigin], options: ExportOptions) -> None:
    if options.format not in set(ExportFormat):
        usage_error(f"unknown format {options.format[:80]!r}: use {', '.join(ExportFormat)}")
    if unknown := [name for name in options.tables if name not in TABLES]:
        usage_error(f"unknown table {unknown[0][:80]!r}: use {', '.join(TABLES)}")
    try:
        with show_progress("Exporting"), opened_origin as origin:
            written = _write_tables(origin, options)
    except (ExportError, SetupError, OSError) as error:
        fail("Not exported", error)
    manifest = str(options.folder / folder.MANIFEST)
    if print_json({"manifest": manifest, "rows": written}):
        return
    print_table(("Rows", "Table"), [(str(rows), name) for name, rows in written.items()])
    console.print(manifest)


def _write_tables(origin: ExportOrigin, options: ExportOptions) -> dict[str, int]:
    offered_tables = (
        origin.tables
        if origin.read_buyer_data is None
        else {*origin.tables, *folder.BUYER_DATA_TABLES}
    )
    tables = folder.select_tables(
        options.tables, offered_tables, personal=options.with_personal_data
    )
    shape = folder.ExportSpec(ExportFormat(options.format), tables, options.with_personal_data)
    since = (
        None
        if options.previous_manifest is None
        else folder.read_manifest(options.previous_manifest).cursor
    )
    with folder.open_folder(options.folder, shape, origin.id, since) as into:
        return ExportRun(into, origin).export_all()
