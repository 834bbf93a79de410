"""`florin export`: what the store holds, or what a server tells a merchant, as tables."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.boot.home import Refused
from florin_server.cli.console import console, fail, table, told, working
from florin_server.cli.operation import misused
from florin_server.domain.exports.error import NotExported
from florin_server.domain.exports.tables import TABLES
from florin_server.flows.exports import folder
from florin_server.flows.exports.feeds import Origin
from florin_server.flows.exports.formats import Format
from florin_server.flows.exports.run import Run


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be exported, and where to."""

    to: Path
    format: str = Format.CSV
    tables: Sequence[str] = ()
    since: Path | None = None
    personal: bool = False


def run(given: dict[str, Any], wanted: Wanted) -> None:
    """Exports from the store, and prints how many rows of each table were written."""
    # the store is slow to load, and a server is asked without
    from florin_server.boot.exports.store import of_home  # noqa: PLC0415
    from florin_server.cli.settings import settings_of  # noqa: PLC0415

    _run(of_home(settings_of(given)), wanted)


def run_server(target: str, wanted: Wanted, *, tls: bool, ca: Path | None) -> None:
    """Exports what a server tells a merchant, whose key is in the environment."""
    # a channel is slow to load, and the store needs none
    from florin_server.boot.exports.server import of_server  # noqa: PLC0415
    from florin_server.boot.servers.upstream import Link  # noqa: PLC0415

    _run(of_server(target, Link(tls=tls, ca=ca), os.environ), wanted)


def _run(opened: AbstractContextManager[Origin], wanted: Wanted) -> None:
    if wanted.format not in set(Format):
        misused(f"there is no format {wanted.format}; there are {', '.join(Format)}")
    if unknown := [name for name in wanted.tables if name not in TABLES]:
        misused(f"there is no table {unknown[0]}; there are {', '.join(TABLES)}")
    try:
        with working("Exporting"), opened as origin:
            written = _written(origin, wanted)
    except (NotExported, Refused, OSError) as error:
        fail("Not exported", error)
    manifest = str(wanted.to / folder.MANIFEST)
    if told({"manifest": manifest, "rows": written}):
        return
    table(("Rows", "Table"), [(str(rows), name) for name, rows in written.items()])
    console.print(manifest)


def _written(origin: Origin, wanted: Wanted) -> dict[str, int]:
    known = origin.tables if origin.kept is None else {*origin.tables, *folder.KEPT}
    tables = folder.named(wanted.tables, known, personal=wanted.personal)
    shape = folder.Shape(Format(wanted.format), tables, wanted.personal)
    since = None if wanted.since is None else folder.read(wanted.since).cursor
    with folder.opened(wanted.to, shape, origin.id, since) as into:
        return Run(into, origin).all()
