"""The command `florin report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from florin_server.cli.options import HomeOption, LiveOption, build_overrides


def report(  # noqa: PLR0917  (typer gives them by name)
    month: Annotated[str, typer.Option(help="Month as 2026-10, or a year as 2026.")],
    zone: Annotated[
        str, typer.Option(help="Time zone of the days, such as Europe/Berlin.")
    ] = "UTC",
    format_: Annotated[
        str,
        typer.Option("--format", help="text, csv, json, payments, hledger or beancount."),
    ] = "text",
    merchant: Annotated[
        str | None, typer.Option(help="Merchant id.  [default: all merchants of the mode]")
    ] = None,
    partner: Annotated[
        str | None, typer.Option(help="Partner id, for the sum of its merchants.")
    ] = None,
    live: LiveOption = False,
    daily: Annotated[
        bool,
        typer.Option("--daily", help="One transaction a day for each type of journal."),
    ] = False,
    to: Annotated[Path | None, typer.Option(help="File to write.  [default: stdout]")] = None,
    home: HomeOption = None,
) -> None:
    """Print the statement, the payments or the ledger of a month.

    Florin can run meanwhile. A statement has the opening balance, payments, fees, refunds, payouts
    and the closing balance, and exits with 1 if it differs from the ledger.

    Example: `florin report --month 2026-10 --merchant mrch_... --format csv`
    """
    from florin_server.cli.exports import report as command

    options = command.ReportOptions(month, zone, format_, merchant, partner, live, daily, to)
    command.report(build_overrides(home=home), options)
