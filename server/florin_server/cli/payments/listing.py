"""`florin payments list`: list the merchant's payments, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import listing_pb2, payment_pb2

from florin_server.cli.console import print_hint, print_json, print_table
from florin_server.cli.operation import format_minute, usage_error
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.payments.formatting import format_status
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

if TYPE_CHECKING:
    from florin_client.calls.merchant import ListPaymentsCallOptions

_COLUMNS = ("Payment id", "Status", "Created", "Amount", "Reference")
_PAGE_MAX = 200
_STATUSES = {format_status(value): value for value in payment_pb2.PaymentStatus.values() if value}


@dataclass(frozen=True, slots=True)
class ListPaymentsOptions:
    """The filters and the limit of a list of payments; times are UTC."""

    status: tuple[str, ...] = ()
    reference: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


def list_payments(connection: ConnectionOptions, options: ListPaymentsOptions) -> None:
    """Print the newest payments, up to the limit."""
    if unknown := [status for status in options.status if status not in _STATUSES]:
        usage_error(f"unknown status {unknown[0][:80]!r}: use {', '.join(_STATUSES)}")
    with connect_as_merchant(connection) as client:
        rows = client.merchant.list_merchant_payments(**_to_list_options(options))
        # one more row than printed shows whether there are more
        payment_rows = list(islice(rows, options.limit + 1))
    more = len(payment_rows) > options.limit
    payment_rows = payment_rows[: options.limit]
    if not print_json({"payments": payment_rows, "more": more}):
        print_table(_COLUMNS, map(to_row, payment_rows))
        if more:
            print_hint(f"There are more than {options.limit} payments: raise --limit to list them.")


def _to_list_options(options: ListPaymentsOptions) -> ListPaymentsCallOptions:
    call_options: ListPaymentsCallOptions = {
        "status": [_STATUSES[status] for status in options.status],
        "start": _to_utc(options.since),
        "end": _to_utc(options.until),
        "limit": min(options.limit, _PAGE_MAX),
    }
    if options.reference is not None:
        call_options["reference_id"] = options.reference
    return call_options


def to_row(payment_row: listing_pb2.PaymentRow) -> tuple[str, ...]:
    """Return the columns of one payment."""
    amount = (
        payment_row.fiat_amount if payment_row.HasField("fiat_amount") else payment_row.token_amount
    )
    return (
        payment_row.payment_id,
        format_status(payment_row.status),
        format_minute(payment_row, "created_at"),
        format_amount(amount),
        payment_row.reference_id or "-",
    )


def _to_utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)
