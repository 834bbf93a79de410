"""Define the command group for the audit log, and its options."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, build_overrides, create_group

audit = create_group("List the audit log: who changed what, when and from where.")

GROUPS = {"audit": audit}


@audit.command("list")
def audit_list(  # noqa: PLR0917  (typer gives them by name)
    action: Annotated[
        str, typer.Option(help="An action such as key.revoked, or its object: key.")
    ] = "",
    actor: Annotated[
        str, typer.Option(help="operator, key, florin or stranger, or the id of an API key.")
    ] = "",
    object_id: Annotated[
        str, typer.Option("--object", help="Id of a payment, merchant, key or other object.")
    ] = "",
    since: Annotated[datetime | None, typer.Option(help="From this time on, UTC.")] = None,
    until: Annotated[datetime | None, typer.Option(help="Before this time, UTC.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=5000, help="Most entries to list.")] = 50,
    home: HomeOption = None,
) -> None:
    """List the newest entries of the audit log.

    Example: `florin audit list --action key --since 2026-11-01`
    """
    from florin_server.cli.audit import listing as command

    filters = command.AuditFilters(action, actor, object_id, since, until)
    command.list_entries(build_overrides(home=home), filters, limit)
