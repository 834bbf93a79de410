"""Lists of payments: filters of an address to those of the API, and rows for a table or a file."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from florin.v1 import listing_pb2, payment_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.domain.errors import invalid
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
# programs for tables take cells that begin so for something to compute
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
_COLUMNS = (
    *("payment_id", "merchant_id", "merchant", "reference_id", "status", "live", "asked"),
    *("paid", "fee", "payer", "wallet", "network", "transaction", "refund", "created_at"),
    "last_updated_at",
)


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
    refund = show.state("refund", row.refund.status) if row.HasField("refund") else ""
    return [
        row.payment_id,
        row.merchant_id,
        row.merchant.name,
        row.reference_id,
        show.state("payment", row.status),
        str(row.live).lower(),
        show.amount(row.fiat_amount if row.HasField("fiat_amount") else row.token_amount),
        show.amount(row.token_amount),
        show.amount(row.fees.total),
        row.buyer.account_caip10,
        row.buyer.account_provider_name,
        row.transaction.network_id,
        row.transaction.hash,
        refund,
        show.iso(row.created_at),
        show.iso(row.last_updated_at),
    ]


def _cell(value: Any) -> str:
    """A text as a cell that computes nothing."""
    text = str(value).replace("\u00a0", " ")
    return f"'{text}" if text.startswith(_FORMULA) else text
