"""Lists of payments: filters of an address as those of the API, and rows of a CSV file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from florin.v1 import listing_pb2, money_pb2, payment_pb2, refund_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.money import format_minor_units
from florin_server.domain.text import format_csv_cell
from florin_server.web.console.fields import (
    FormValues,
    group_fields,
    parse_choice,
    parse_timestamp,
)
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest
from florin_server.web.console.view import (
    PAYMENT_STATES,
    Formatter,
    compute_rate,
)
from florin_server.web.handlers import NOSNIFF

PAGE_ROWS = 50
# the fields of an address that choose and order payments
FILTER_NAMES = ("status", "from", "to", "reference", "merchant", "token", "network", "sort", "dir")
# the most rows in one answer of the API
ROWS_MAX = 200
# the most rows of a file: `florin export` writes longer ones
FILE_ROWS_MAX = 5_000
_STATUSES = {
    state: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{state.upper()}")
    for state in PAYMENT_STATES
}
_SORTS = {
    "date": listing_pb2.PAYMENT_SORT_DATE,
    "amount": listing_pb2.PAYMENT_SORT_AMOUNT,
}
_DIRECTIONS = {
    "desc": listing_pb2.SORT_DIRECTION_DESC,
    "asc": listing_pb2.SORT_DIRECTION_ASC,
}
# names are stable and in docs/console.md; new columns come at the end
_COLUMNS = (
    *("payment_id", "merchant_id", "merchant", "reference_id", "status", "live"),
    *("amount", "currency", "asset_amount", "asset", "asset_id", "rate", "fee", "net"),
    *("refund_status", "refund_amount", "refunded_at"),
    *("payer", "wallet", "network", "transaction", "created_at", "last_updated_at", "settled_at"),
    *("refunds", "fee_asset", "net_asset", "refund_asset"),
)


@dataclass(frozen=True, slots=True)
class PaymentFilters:
    """The filters of a list, as the address has them."""

    query: FormValues

    @classmethod
    def from_request(cls, console_request: ConsoleRequest) -> PaymentFilters:
        """Return the filters of a request."""
        return cls(group_fields(console_request.request.query))

    @property
    def filtered(self) -> bool:
        """Return True if there is a filter besides the cursor."""
        return any(name != "cursor" and self.query.text(name) for name in self.query.values)

    def to_request(self, limit: int = PAGE_ROWS) -> listing_pb2.ListPaymentsRequest:
        """Return the filters as a request of the API; ConsoleError if one is invalid."""
        query = self.query
        cursor, reference = query.text("cursor"), query.text("reference")
        if reference and len(reference) < 3:
            raise ConsoleError(400, "fault.short_reference")
        return listing_pb2.ListPaymentsRequest(
            start_ts=parse_timestamp(query.text("from")),
            end_ts=parse_timestamp(query.text("to")),
            status=[parse_choice(status, _STATUSES, "status") for status in query.texts("status")],
            token_symbol=query.texts("token"),
            network=query.texts("network"),
            merchant_id=query.texts("merchant"),
            reference_id=reference or None,
            sort_by=parse_choice(query.text("sort") or "date", _SORTS, "sort"),
            sort_dir=parse_choice(query.text("dir") or "desc", _DIRECTIONS, "dir"),
            limit=limit,
            cursor=cursor or None,
        )

    def with_partner(self, partner_id: str) -> PaymentFilters:
        """Return the filters with a partner."""
        return PaymentFilters(FormValues({**self.query.values, "partner": [partner_id]}))

    def address(self, **changes: str) -> str:
        """Return the query of the list with some values changed; empty ones are left out."""
        pairs = [
            (name, value)
            for name, values in self.query.values.items()
            if name not in changes
            for value in values
            if value
        ]
        return urlencode([*pairs, *((name, change) for name, change in changes.items() if change)])


def list_row_states(
    formatter: Formatter, rows: Iterable[listing_pb2.PaymentRow]
) -> list[dict[str, str]]:
    """Return the current status of each row, for the script of an open page."""
    return [{"id": row.payment_id, "status": formatter.row_pill(row).name} for row in rows]


def list_filter_choices(console_request: ConsoleRequest, *, live: bool) -> dict[str, Sequence[str]]:
    """Return the statuses, networks and tokens that a list can be filtered by."""
    assets = console_request.console.app.list_assets(live=live).values()
    return {
        "statuses": PAYMENT_STATES,
        "networks": sorted({rail.chain_id for rail, _ in assets}),
        "tokens": sorted({asset.symbol for _, asset in assets}),
    }


def build_csv(formatter: Formatter, rows: Iterable[listing_pb2.PaymentRow]) -> PlainResponse:
    """Return the rows as a CSV file."""
    buffer = io.StringIO()
    writer = csv.writer(buffer)
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow([_to_cell(each_text) for each_text in _format_row(formatter, row)])
    headers = (
        (b"content-disposition", b'attachment; filename="payments.csv"'),
        NOSNIFF,
    )
    return PlainResponse(200, buffer.getvalue().encode(), "text/csv; charset=utf-8", headers)


def _format_row(formatter: Formatter, row: listing_pb2.PaymentRow) -> list[str]:
    amount = row.fiat_amount if row.HasField("fiat_amount") else row.token_amount
    asset = row.token_amount
    return [
        row.payment_id,
        row.merchant_id,
        row.merchant.name,
        row.reference_id,
        formatter.state("payment", row.status),
        str(row.live).lower(),
        _format_decimal(amount),
        amount.display.asset_symbol,
        _format_decimal(asset),
        asset.display.asset_symbol,
        asset.unit.removeprefix("caip19/"),
        _format_rate(row),
        *_format_fee_and_net(row),
        *_format_refunds(formatter, row),
        row.buyer.account_caip10,
        row.buyer.account_provider_name,
        row.transaction.network_id,
        row.transaction.hash,
        formatter.iso(row.created_at),
        formatter.iso(row.last_updated_at),
        formatter.iso(row.settled_at) if row.HasField("settled_at") else "",
        "; ".join(_describe_refund(formatter, refund) for refund in row.refunds),
        *_format_units(row),
    ]


def _format_decimal(amount: money_pb2.Amount) -> str:
    """Return an amount in whole units as a plain number, all its decimals exact; empty if unset."""
    if not amount.unit or not amount.value.isascii() or not amount.value.isdecimal():
        return ""
    return format_minor_units(int(amount.value), amount.display.decimals)


def _format_rate(row: listing_pb2.PaymentRow) -> str:
    """Return the currency per whole unit of the asset that was paid; empty without both."""
    return compute_rate(row.fiat_amount, row.token_amount) if row.HasField("buyer") else ""


def _format_fee_and_net(row: listing_pb2.PaymentRow) -> tuple[str, str]:
    """Return the operator's fee and the rest, in the asset; empty before the success."""
    paid, fee = row.token_amount, row.fees.total
    if row.status != payment_pb2.PAYMENT_STATUS_SUCCEEDED or not paid.value.isdecimal():
        return "", ""
    decimals, fee_units = paid.display.decimals, int(fee.value) if fee.value.isdecimal() else 0
    return format_minor_units(fee_units, decimals), format_minor_units(
        int(paid.value) - fee_units, decimals
    )


def _format_units(row: listing_pb2.PaymentRow) -> tuple[str, str, str]:
    """Return the tickers of fee, net and refund amount; empty where the amount is empty."""
    symbol = row.token_amount.display.asset_symbol
    fee, net = (symbol if text else "" for text in _format_fee_and_net(row))
    return fee, net, row.refunds[-1].amount.display.asset_symbol if row.refunds else ""


def _format_refunds(formatter: Formatter, row: listing_pb2.PaymentRow) -> tuple[str, str, str]:
    """Return the state of the refunds, their sum in the asset, and when the newest ended."""
    summary = formatter.refunds(row)
    if summary is None:
        return "", "", ""
    ends = [refund.completed_at for refund in row.refunds if refund.HasField("completed_at")]
    newest = max(ends, key=lambda end: (end.seconds, end.nanos), default=None)
    return (
        summary.state,
        _format_decimal(summary.amount),
        "" if newest is None else formatter.iso(newest),
    )


def _describe_refund(formatter: Formatter, refund: refund_pb2.Refund) -> str:
    return (
        f"{refund.refund_id} {formatter.state('refund', refund.status)} "
        f"{_format_decimal(refund.amount)}"
    )


def _to_cell(value: Any) -> str:
    """Return a value as a cell that spreadsheets do not evaluate."""
    return format_csv_cell(str(value).replace("\u00a0", " "))
