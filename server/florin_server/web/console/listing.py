"""Lists of payments: filters of an address to those of the API, and rows for a table or a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from florin.v1 import listing_pb2, money_pb2, payment_pb2, refund_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.domain.errors import invalid
from florin_server.domain.text import csv_cell
from florin_server.web.console.fields import Form, chosen, grouped, moment
from florin_server.web.console.site import Visit
from florin_server.web.console.view import PAYMENT_STATES, Show

PAGE = 50
# what one answer of the API has at most
ROWS_MAX = 200
# a file has no more: longer ones are for `florin export`
FILE_ROWS_MAX = 5_000
_STATUSES = {
    one: payment_pb2.PaymentStatus.Value(f"PAYMENT_STATUS_{one.upper()}") for one in PAYMENT_STATES
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
    "refunds",
)
_RATE_PLACES = 8


@dataclass(frozen=True, slots=True)
class Asked:
    """The filters of a list, as the address has them."""

    form: Form

    @classmethod
    def of(cls, visit: Visit) -> Asked:
        """Those of a request."""
        return cls(grouped(visit.request.query))

    @property
    def filtered(self) -> bool:
        """True if anything but the place in the list is asked for."""
        return any(one != "cursor" and self.form.text(one) for one in self.form.values)

    def request(self, limit: int = PAGE) -> listing_pb2.ListPaymentsRequest:
        """The same as the API asks; FlorinError for what it cannot be asked."""
        form = self.form
        cursor, reference = form.text("cursor"), form.text("reference")
        if reference and len(reference) < 3:
            raise invalid("reference", "has three characters at least")
        return listing_pb2.ListPaymentsRequest(
            start_ts=moment(form.text("from"), "from"),
            end_ts=moment(form.text("to"), "to"),
            status=[chosen(one, _STATUSES, "status") for one in form.texts("status")],
            token_symbol=form.texts("token"),
            network=form.texts("network"),
            merchant_id=form.texts("merchant"),
            reference_id=reference or None,
            sort_by=chosen(form.text("sort") or "date", _SORTS, "sort"),
            sort_dir=chosen(form.text("dir") or "desc", _DIRECTIONS, "dir"),
            limit=limit,
            cursor=cursor or None,
        )

    def of_partner(self, partner_id: str) -> Asked:
        """The same of a partner."""
        return Asked(Form({**self.form.values, "partner": [partner_id]}))

    def address(self, **changes: str) -> str:
        """The query of the same list with some values changed; empty ones are left out."""
        pairs = [
            (name, value)
            for name, values in self.form.values.items()
            if name not in changes
            for value in values
            if value
        ]
        return urlencode([*pairs, *((name, one) for name, one in changes.items() if one)])


def live_rows(show: Show, rows: Iterable[listing_pb2.PaymentRow]) -> list[dict[str, str]]:
    """What an open page is told of its rows."""
    told = []
    for row in rows:
        status = show.state("payment", row.status)
        told.append({"id": row.payment_id, "status": status, "look": show.look(status)})
    return told


def choices(visit: Visit, *, live: bool) -> dict[str, Sequence[str]]:
    """Networks and tickers that a list may be filtered by."""
    assets = visit.site.app.assets(live=live).values()
    return {
        "statuses": PAYMENT_STATES,
        "networks": sorted({rail.chain_id for rail, _ in assets}),
        "tokens": sorted({asset.symbol for _, asset in assets}),
    }


def table(show: Show, rows: Iterable[listing_pb2.PaymentRow]) -> PlainAnswer:
    """A file with the rows, for programs that show tables."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(_COLUMNS)
    for row in rows:
        writer.writerow([_cell(one) for one in _values(show, row)])
    headers = (
        (b"content-disposition", b'attachment; filename="payments.csv"'),
        (b"x-content-type-options", b"nosniff"),
    )
    return PlainAnswer(200, text.getvalue().encode(), "text/csv; charset=utf-8", headers)


def _values(show: Show, row: listing_pb2.PaymentRow) -> list[str]:
    asked = row.fiat_amount if row.HasField("fiat_amount") else row.token_amount
    asset = row.token_amount
    return [
        row.payment_id,
        row.merchant_id,
        row.merchant.name,
        row.reference_id,
        show.state("payment", row.status),
        str(row.live).lower(),
        _decimal(asked),
        asked.display.asset_symbol,
        _decimal(asset),
        asset.display.asset_symbol,
        asset.unit.removeprefix("caip19/"),
        _rate(row),
        *_fee_and_net(row),
        *_refund(show, row),
        row.buyer.account_caip10,
        row.buyer.account_provider_name,
        row.transaction.network_id,
        row.transaction.hash,
        show.iso(row.created_at),
        show.iso(row.last_updated_at),
        show.iso(row.settled_at) if row.HasField("settled_at") else "",
        "; ".join(_describe_refund(show, refund) for refund in row.refunds),
    ]


def _decimal(amount: money_pb2.Amount) -> str:
    """Return an amount in whole units as a plain number, all its decimals exact; empty if unset."""
    if not amount.unit or not amount.value.isascii() or not amount.value.isdecimal():
        return ""
    return _in_units(int(amount.value), amount.display.decimals)


def _in_units(minor: int, decimals: int) -> str:
    sign, digits = "-" if minor < 0 else "", str(abs(minor)).zfill(decimals + 1)
    return sign + (f"{digits[:-decimals]}.{digits[-decimals:]}" if decimals else digits)


def _rate(row: listing_pb2.PaymentRow) -> str:
    """Return the currency per whole unit of the asset that was paid; empty without both."""
    asked, paid = row.fiat_amount, row.token_amount
    if not row.HasField("buyer") or not asked.value.isdecimal() or not paid.value.isdecimal():
        return ""
    if not int(paid.value):
        return ""
    # minor units of currency per minor unit of asset, moved by the difference of decimals
    shift = paid.display.decimals - asked.display.decimals + _RATE_PLACES
    top, bottom = int(asked.value) * 10 ** max(shift, 0), int(paid.value) * 10 ** max(-shift, 0)
    return _in_units((2 * top + bottom) // (2 * bottom), _RATE_PLACES)


def _fee_and_net(row: listing_pb2.PaymentRow) -> tuple[str, str]:
    """Return what the operator keeps and what is left, in the asset; empty before the success."""
    paid, fee = row.token_amount, row.fees.total
    if row.status != payment_pb2.PAYMENT_STATUS_SUCCEEDED or not paid.value.isdecimal():
        return "", ""
    decimals, kept = paid.display.decimals, int(fee.value) if fee.value.isdecimal() else 0
    return _in_units(kept, decimals), _in_units(int(paid.value) - kept, decimals)


def _refund(show: Show, row: listing_pb2.PaymentRow) -> tuple[str, str, str]:
    """Return the state of the refunds, what they give back in the asset, and the newest end."""
    summary = show.refunds(row)
    if summary is None:
        return "", "", ""
    ends = [one.completed_at for one in row.refunds if one.HasField("completed_at")]
    newest = max(ends, key=lambda end: (end.seconds, end.nanos), default=None)
    return summary.state, _decimal(summary.amount), "" if newest is None else show.iso(newest)


def _describe_refund(show: Show, refund: refund_pb2.Refund) -> str:
    return f"{refund.refund_id} {show.state('refund', refund.status)} {_decimal(refund.amount)}"


def _cell(value: Any) -> str:
    """Return a value as a cell that computes nothing."""
    return csv_cell(str(value).replace("\u00a0", " "))
