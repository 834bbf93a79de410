"""`florin payments list`: the merchant's payments, newest first."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import listing_pb2, payment_pb2

from florin_server.cli.console import note, table, told
from florin_server.cli.operation import minute, misused
from florin_server.cli.payments.amounts import shown
from florin_server.cli.payments.words import status
from florin_server.cli.server import At, as_merchant

if TYPE_CHECKING:
    from florin_client.calls.merchant import ListOptions

_COLUMNS = ("Payment id", "Status", "Made", "Amount", "Reference")
_PAGE_MAX = 200
_STATUSES = {status(value): value for value in payment_pb2.PaymentStatus.values() if value}


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which payments; times are UTC."""

    status: tuple[str, ...] = ()
    reference: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    limit: int = 50


def run(at: At, wanted: Wanted) -> None:
    """Prints the newest of them, as many as were asked for."""
    if unknown := [one for one in wanted.status if one not in _STATUSES]:
        misused(f"there is no status {unknown[0]}; there are {', '.join(_STATUSES)}")
    with as_merchant(at) as client:
        rows = client.merchant.list_merchant_payments(**_options(wanted))
        # one more tells that there is more
        found = list(islice(rows, wanted.limit + 1))
    more = len(found) > wanted.limit
    found = found[: wanted.limit]
    if not told({"payments": found, "more": more}):
        table(_COLUMNS, map(row, found))
        if more:
            note(f"There are more than {wanted.limit}: --limit shows more of them.")


def _options(wanted: Wanted) -> ListOptions:
    found: ListOptions = {
        "status": [_STATUSES[one] for one in wanted.status],
        "start": _utc(wanted.since),
        "end": _utc(wanted.until),
        "limit": min(wanted.limit, _PAGE_MAX),
    }
    if wanted.reference is not None:
        found["reference_id"] = wanted.reference
    return found


def row(one: listing_pb2.PaymentRow) -> tuple[str, ...]:
    """One line of the list."""
    asked = one.fiat_amount if one.HasField("fiat_amount") else one.token_amount
    return (
        one.payment_id,
        status(one.status),
        minute(one, "created_at"),
        shown(asked),
        one.reference_id or "-",
    )


def _utc(time: datetime | None) -> datetime | None:
    return None if time is None else time.replace(tzinfo=UTC)
