"""The statement of a month: what a merchant was owed, what came, and what left."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from florin_server.db.engine.query import Op, operation
from florin_server.domain.reports.assets import (
    FindReportAsset,
    ReportAsset,
    ReportUnit,
    get_unit,
)
from florin_server.domain.reports.period import ReportPeriod
from florin_server.domain.reports.statement import (
    AssetStatement,
    CostSum,
    RequestedSum,
    StatementSums,
    build_statements,
)
from florin_server.domain.text import format_csv_cell
from florin_server.features.reports.store import statement as sums_store
from florin_server.features.reports.store.scope import ReportScope, ScopeKind

# names are stable and in docs/books.md; new columns come at the end
CSV_COLUMNS: Final = (
    *("period", "time_zone", "merchant_id", "merchant"),
    *("line", "count", "amount", "currency", "asset_id"),
)


@dataclass(frozen=True, slots=True)
class StatementLine:
    """A line of a statement: a stable key, words, and an amount in minor units.

    Amounts of lines that reduce the balance are below zero. `count` is None for lines that count
    nothing.
    """

    key: str
    label: str
    count: int | None
    amount: int


@dataclass(frozen=True, slots=True)
class StatementSection:
    """The lines in one asset. The movements and the opening balance add up to the closing one."""

    asset: ReportAsset
    movements: Sequence[StatementLine]
    held: Sequence[StatementLine]
    opening: int
    closing: int

    @property
    def lines(self) -> Sequence[StatementLine]:
        """Return all lines, with the balances."""
        return (
            StatementLine("opening_balance", "Opening balance", None, self.opening),
            *self.movements,
            StatementLine("closing_balance", "Closing balance", None, self.closing),
            *self.held,
        )


class RequestedLine(NamedTuple):
    """The payments that were requested in one unit."""

    unit: ReportUnit
    unit_id: str
    payments: int
    value: int


class CostLine(NamedTuple):
    """The cost of the operator's transactions in one coin, in minor units."""

    asset: ReportAsset
    key: str
    label: str
    amount: int


@dataclass(frozen=True, slots=True)
class MonthStatement:
    """A statement; `differences` from the ledger, in sentences, are empty.

    `costs` are the operator's, in the statement of all merchants alone. `is_final` means that the
    period is over.
    """

    period: ReportPeriod
    is_final: bool
    sections: Sequence[StatementSection]
    requested: Sequence[RequestedLine]
    costs: Sequence[CostLine]
    differences: Sequence[str]


@dataclass(frozen=True, slots=True)
class StatementData:
    """The rows of the store for a statement, all of one moment."""

    sums: StatementSums
    requested: Sequence[RequestedSum]
    costs: Sequence[CostSum]


@operation
def read_statement(scope: ReportScope, period: ReportPeriod) -> Op[StatementData]:
    """Return the data of a statement."""
    sums = yield from sums_store.read_sums(scope, period)
    requested = yield from sums_store.read_requested(scope, period)
    costs: Sequence[CostSum] = ()
    if scope.kind is ScopeKind.ALL:
        costs = yield from sums_store.read_costs(period)
    return StatementData(sums, requested, costs)


def build_statement(
    data: StatementData,
    scope: ReportScope,
    period: ReportPeriod,
    find_asset: FindReportAsset,
    now_us: int,
) -> MonthStatement:
    """Return the statement, with the names of its assets."""
    lines = build_statements(data.sums)
    sections = [_build_section(find_asset(asset), lines.assets[asset]) for asset in lines.assets]
    costs = [
        _build_cost(find_asset(cost.asset), cost)
        for cost in data.costs
        if find_asset(cost.asset).live in {scope.live, None}
    ]
    return MonthStatement(
        period,
        period.is_over(now_us),
        sections,
        [
            RequestedLine(get_unit(part.unit, find_asset), part.unit, part.payments, part.value)
            for part in data.requested
        ],
        costs,
        lines.differences,
    )


def list_csv_rows(statement: MonthStatement, merchant: tuple[str, str]) -> Iterator[list[str]]:
    """Yield the rows of the CSV file, the header first; `merchant` is its id and its name."""
    yield list(CSV_COLUMNS)
    period = (statement.period.name, statement.period.zone, *map(format_csv_cell, merchant))
    for requested in statement.requested:
        amount = requested.unit.format(requested.value)
        currency = format_csv_cell(requested.unit.symbol)
        yield [
            *(*period, "requested", str(requested.payments), amount, currency),
            requested.unit.asset_id,
        ]
    for section in statement.sections:
        asset = (format_csv_cell(section.asset.symbol), section.asset.id)
        for line in section.lines:
            count = "" if line.count is None else str(line.count)
            yield [*period, line.key, count, section.asset.format(line.amount), *asset]
    for cost in statement.costs:
        asset = (format_csv_cell(cost.asset.symbol), cost.asset.id)
        yield [*period, cost.key, "", cost.asset.format(cost.amount), *asset]


def to_json_value(statement: MonthStatement, merchant: tuple[str, str]) -> dict[str, object]:
    """Return the statement as JSON; amounts are texts, in whole units."""
    merchant_id, merchant_name = merchant
    return {
        "period": statement.period.name,
        "timeZone": statement.period.zone,
        "isFinal": statement.is_final,
        "merchantId": merchant_id or None,
        "merchant": merchant_name or None,
        "requested": [
            {
                "unit": requested.unit_id,
                "currency": requested.unit.symbol,
                "payments": requested.payments,
                "amount": requested.unit.format(requested.value),
            }
            for requested in statement.requested
        ],
        "assets": [
            {
                "asset": section.asset.id,
                "symbol": section.asset.symbol,
                "network": section.asset.network or None,
                "lines": [
                    {
                        "line": line.key,
                        "count": line.count,
                        "amount": section.asset.format(line.amount),
                    }
                    for line in section.lines
                ],
            }
            for section in statement.sections
        ],
        "costs": [
            {
                "asset": cost.asset.id,
                "symbol": cost.asset.symbol,
                "line": cost.key,
                "amount": cost.asset.format(cost.amount),
            }
            for cost in statement.costs
        ],
        "differences": list(statement.differences),
    }


def _build_section(asset: ReportAsset, sums: AssetStatement) -> StatementSection:
    movements = (
        StatementLine("payments", "Payments received", sums.payments, sums.received),
        StatementLine("fees", "Fees", None, -sums.fees),
        StatementLine("other_received", "Late and other money", None, sums.other_received),
        StatementLine(
            "settled_directly",
            "Paid to the merchant's destination at once",
            None,
            -sums.settled_directly,
        ),
        StatementLine("refunds", "Refunds", sums.refunds, -sums.refunded),
        StatementLine("returns", "Returned late money", sums.returns, -sums.returned),
        StatementLine("payouts", "Payouts", sums.payouts, -sums.paid_out),
    )
    held = (
        StatementLine("held_opening", "Held at the start", None, sums.held_opening),
        StatementLine("held_in", "Held from blocked payers", None, sums.held_in),
        StatementLine("held_out", "Released or returned", None, -sums.held_out),
        StatementLine("held_closing", "Held at the end", None, sums.held_closing),
    )
    shown = held if any(line.amount for line in held) else ()
    return StatementSection(asset, movements, shown, sums.opening, sums.closing)


def _build_cost(asset: ReportAsset, cost: CostSum) -> CostLine:
    key, label = cost.line
    return CostLine(asset, key, label, -cost.amount)
