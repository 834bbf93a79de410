"""`florin report`: statements of a month, and journals for accounting programs."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TextIO

from florin_server.app.exports.report import StoreReports, open_report_source
from florin_server.app.home import SetupError
from florin_server.cli.console import (
    console,
    fail,
    is_json_output,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import usage_error
from florin_server.cli.settings import get_settings
from florin_server.domain.exports.error import ExportError
from florin_server.domain.reports.period import ReportPeriod, parse_period
from florin_server.features.reports.service.journals import JournalFormat
from florin_server.features.reports.service.statement import (
    MonthStatement,
    StatementSection,
    list_csv_rows,
    to_json_value,
)
from florin_server.features.reports.store.scope import ReportScope

_COLUMNS: Final = ("Line", "Count", "Amount")


class ReportFormat(StrEnum):
    """The formats of a report: of the statement, of its payments, and of the ledger."""

    TEXT = "text"
    CSV = "csv"
    JSON = "json"
    PAYMENTS = "payments"
    HLEDGER = "hledger"
    BEANCOUNT = "beancount"


_JOURNALS: Final = frozenset({ReportFormat.HLEDGER, ReportFormat.BEANCOUNT})
_STATEMENTS: Final = frozenset({ReportFormat.TEXT, ReportFormat.CSV, ReportFormat.JSON})


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """The options of a report."""

    month: str
    zone: str
    format: str
    merchant_id: str | None
    partner_id: str | None
    live: bool
    daily: bool
    file: Path | None


def report(overrides: dict[str, Any], options: ReportOptions) -> None:
    """Print a report, or write it to a file."""
    format_, period = _parse_options(options)
    settings = get_settings(overrides)
    try:
        with open_report_source(settings) as source:
            scope, name = source.find_scope(
                options.merchant_id, options.partner_id, live=options.live
            )
            merchant = (scope.merchant_id or "", name)
            if format_ in _STATEMENTS:
                statement = source.read_statement(scope, period)
                _write_statement(statement, merchant, format_, options.file)
                if statement.differences:
                    fail("The statement differs from the ledger", "; ".join(statement.differences))
            else:
                _write_lines(_list_lines(source, scope, period, format_, options), options.file)
    except (ExportError, SetupError, OSError) as error:
        fail("No report", error)


def _parse_options(options: ReportOptions) -> tuple[ReportFormat, ReportPeriod]:
    if options.format not in set(ReportFormat):
        usage_error(f"unknown format {options.format[:80]!r}: use {', '.join(ReportFormat)}")
    format_ = ReportFormat(options.format)
    if options.daily and format_ not in _JOURNALS:
        usage_error("--daily is for hledger and beancount")
    if options.merchant_id is not None and options.partner_id is not None:
        usage_error("name a merchant or a partner, not both")
    if is_json_output() and format_ is not ReportFormat.TEXT and options.file is None:
        usage_error("--json prints the statement: leave out --format, or write a file with --to")
    try:
        return format_, parse_period(options.month, options.zone)
    except ValueError as error:
        usage_error(str(error))


def _write_statement(
    statement: MonthStatement, merchant: tuple[str, str], format_: ReportFormat, file: Path | None
) -> None:
    if format_ is ReportFormat.CSV:
        _write_lines(_format_csv(list_csv_rows(statement, merchant)), file)
    elif file is None and print_json(to_json_value(statement, merchant)):
        return
    elif format_ is ReportFormat.JSON:
        _write_lines(_format_json(to_json_value(statement, merchant)), file)
    elif file is not None:
        usage_error("--to writes no text: choose another format")
    else:
        _print_statement(statement, merchant)


def _format_json(document: dict[str, object]) -> Iterator[str]:
    yield json.dumps(document, ensure_ascii=True, indent=2)


def _print_statement(statement: MonthStatement, merchant: tuple[str, str]) -> None:
    period = statement.period
    state = "" if statement.is_final else ", not over yet"
    console.print(f"Statement {period.name}, days in {period.zone}{state}")
    if merchant[0]:
        console.print(f"Merchant {merchant[0]} {merchant[1]}")
    for requested in statement.requested:
        amount = requested.unit.format(requested.value)
        console.print(
            f"Requested by {requested.payments} payments: {amount} {requested.unit.symbol}"
        )
    for section in statement.sections:
        console.print()
        console.print(f"{section.asset.name}  {section.asset.id}")
        print_table(_COLUMNS, _list_text_rows(section))
    for cost in statement.costs:
        amount = f"{cost.asset.format(cost.amount)} {cost.asset.symbol}"
        console.print(f"{cost.label}: {amount} ({cost.asset.id})")
    if not statement.sections:
        console.print("Nothing was booked, and nothing is owed.")


def _list_text_rows(section: StatementSection) -> Iterator[tuple[str, str, str]]:
    for line in section.lines:
        count = "" if line.count is None else str(line.count)
        yield line.label, count, f"{section.asset.format(line.amount)} {section.asset.symbol}"


def _list_lines(
    source: StoreReports,
    scope: ReportScope,
    period: ReportPeriod,
    format_: ReportFormat,
    options: ReportOptions,
) -> Iterator[str]:
    if format_ is ReportFormat.PAYMENTS:
        return _format_csv(source.list_payment_rows(scope, period))
    journal_format = JournalFormat(format_)
    return source.list_journal_lines(scope, period, journal_format, daily=options.daily)


def _format_csv(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    for row in rows:
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="").writerow(row)
        yield buffer.getvalue()


def _write_lines(lines: Iterable[str], file: Path | None) -> None:
    """Write lines as they are made: a month can have millions."""
    with _open_output(file) as output:
        for line in lines:
            output.write(f"{line}\n")
    if file is not None and not print_json({"file": str(file)}):
        print_hint(str(file))


@contextmanager
def _open_output(file: Path | None) -> Iterator[TextIO]:
    """Open stdout, or a file that only its owner can read and that appears once it is complete."""
    if file is None:
        yield sys.stdout
        sys.stdout.flush()
        return
    unfinished = file.with_name(f".{file.name}.part")
    unfinished.unlink(missing_ok=True)
    try:
        unfinished.touch(mode=0o600, exist_ok=False)
        with unfinished.open("w", encoding="utf-8") as output:
            yield output
        unfinished.replace(file)
    finally:
        unfinished.unlink(missing_ok=True)
