"""The payments of a month as a CSV file: one row for each, numbers and units in their own columns.

A payment is in the month in which Florin booked its success. If a reorganization removes it later,
a row of the kind "reversal" takes it back in the month of that event. The sums of `paid_amount`,
`fee_amount` and `net_amount` equal the lines of the statement.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Final

from florin_server.domain.ledger.accounts import FEE
from florin_server.domain.ledger.journals import JournalKind
from florin_server.domain.ledger.postings import is_owed_fee
from florin_server.domain.money import RATE_PLACES, compute_rate, format_minor_units
from florin_server.domain.reports.assets import FindReportAsset, ReportAsset, get_unit
from florin_server.domain.reports.period import ReportPeriod
from florin_server.domain.reports.statement import split_reversal
from florin_server.domain.text import format_csv_cell
from florin_server.features.reports.store.journals import ReportJournal
from florin_server.features.reports.store.payments import ReportPayment

# names are stable and in docs/books.md; new columns come at the end
COLUMNS: Final = (
    *("day", "booked_at", "kind", "payment_id", "merchant_id", "merchant", "reference_id"),
    *("requested_amount", "requested_currency", "rate", "rate_unit"),
    *("paid_amount", "paid_asset", "fee_amount", "fee_asset", "net_amount", "net_asset"),
    *("refunded_amount", "refunded_asset", "settled_amount", "settled_asset", "settled_at"),
    *("asset_id", "network", "transaction"),
)


def is_settlement(journal: ReportJournal) -> bool:
    """Return whether a journal books a succeeded payment, or takes it back."""
    return split_reversal(journal.type)[0] == JournalKind.SETTLE and journal.payment_id is not None


def list_rows(
    journals: Iterable[ReportJournal],
    payments: Mapping[str, ReportPayment],
    period: ReportPeriod,
    find_asset: FindReportAsset,
) -> Iterator[list[str]]:
    """Yield the rows of settlements; `payments` are theirs, by id."""
    for journal in journals:
        payment = payments.get(journal.payment_id or "")
        if payment is not None:
            yield _build_row(journal, payment, period, find_asset)


def _build_row(
    journal: ReportJournal,
    payment: ReportPayment,
    period: ReportPeriod,
    find_asset: FindReportAsset,
) -> list[str]:
    _, sign = split_reversal(journal.type)
    fee = sign * sum(p.amount for p in journal.postings if FEE in {p.debit, p.credit})
    paid = sign * sum(p.amount for p in journal.postings if not is_owed_fee(p))
    # an account that paid itself moved nothing
    asset = find_asset(journal.postings[0].asset) if journal.postings else None
    return [
        period.to_day(journal.at_us).isoformat(),
        _format_time(journal.at_us),
        "payment" if sign > 0 else "reversal",
        payment.id,
        format_csv_cell(journal.merchant_id),
        format_csv_cell(payment.merchant),
        format_csv_cell(payment.reference_id),
        *_format_request(payment, asset, sign, find_asset),
        *(cell for amount in (paid, fee, paid - fee) for cell in _format_amount(asset, amount)),
        *_format_outcome(payment, find_asset),
        asset.id if asset else "",
        format_csv_cell(asset.network) if asset else "",
        format_csv_cell(journal.tx_hash or payment.tx_id or ""),
    ]


def _format_request(
    payment: ReportPayment, asset: ReportAsset | None, sign: int, find_asset: FindReportAsset
) -> tuple[str, str, str, str]:
    """Return what was requested, and the rate if that was in a currency."""
    unit = get_unit(payment.unit, find_asset)
    symbol = format_csv_cell(unit.symbol)
    amount = unit.format(sign * payment.value)
    if unit.asset_id or asset is None or not payment.option_value:
        return amount, symbol, "", ""
    rate = compute_rate(payment.value, unit.decimals, payment.option_value, asset.decimals)
    rate_unit = format_csv_cell(f"{unit.symbol} per {asset.symbol}")
    return amount, symbol, format_minor_units(rate, RATE_PLACES), rate_unit


def _format_outcome(payment: ReportPayment, find_asset: FindReportAsset) -> list[str]:
    """Return what was refunded, and what the merchant received, each with its unit."""
    cells = ["", "", "", "", ""]
    if payment.refund_unit:
        unit = get_unit(payment.refund_unit, find_asset)
        cells[:2] = unit.format(payment.refunded), format_csv_cell(unit.symbol)
    if payment.settled_value is not None and payment.settled_at_us is not None:
        unit = get_unit(payment.settled_unit, find_asset)
        cells[2:4] = unit.format(payment.settled_value), format_csv_cell(unit.symbol)
        cells[4] = _format_time(payment.settled_at_us)
    return cells


def _format_amount(asset: ReportAsset | None, amount: int) -> tuple[str, str]:
    if asset is None:
        return "", ""
    return asset.format(amount), format_csv_cell(asset.symbol)


def _format_time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
