"""`florin payments tail`: follow a payment, or all payments of a merchant."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import listing_pb2, payment_pb2

from florin_server.cli.console import console, print_json_line
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import usage_error
from florin_server.cli.payments import formatting
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.payments.listing import to_row
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

if TYPE_CHECKING:
    from florin_client import Client

# when it follows all payments: rows per read, and seconds between reads
_NEWEST_MAX = 50
_POLL_S = 2.0


def follow_one(connection: ConnectionOptions, payment_id: str, after_version: int | None) -> None:
    """Follow one payment, and exit with its outcome."""
    with connect_as_merchant(connection) as client:
        # a stream retries for minutes; this call reports a wrong server at once
        client.merchant.get_payment_status(payment_id)
        raise SystemExit(int(follow_payment(client, payment_id, after_version)))


def follow_payment(client: Client, payment_id: str, after_version: int | None) -> ExitStatus:
    """Print each change of a payment until it ends; return the exit status of its outcome."""
    for update in client.merchant.watch_payment(payment_id, after_version=after_version):
        if not print_json_line(update):
            console.print(_format_update(update))
        ended = update.payment
        if ended.is_final:
            return ExitStatus.DONE if ended.status == formatting.SUCCEEDED else ExitStatus.UNPAID
    # the payment ended before the requested version
    status = client.merchant.get_payment_status(payment_id).status
    return ExitStatus.DONE if status == formatting.SUCCEEDED else ExitStatus.UNPAID


def follow_all(connection: ConnectionOptions, after_version: int | None) -> None:
    """Print the newest payments, then each one that changed, until Ctrl-C."""
    if after_version is not None:
        usage_error("--after-version needs a payment: pass its id")
    seen: dict[str, bytes] = {}
    with connect_as_merchant(connection) as client:
        while True:
            pages = client.merchant.list_merchant_payments(limit=_NEWEST_MAX)
            seen = print_changed(list(islice(pages, _NEWEST_MAX)), seen)
            time.sleep(_POLL_S)


def print_changed(
    rows: Iterable[listing_pb2.PaymentRow], previous: dict[str, bytes]
) -> dict[str, bytes]:
    """Print the payments that changed since `previous`, oldest first; return the new `previous`."""
    now = {payment_row.payment_id: payment_row for payment_row in rows}
    for payment_id, payment in reversed(now.items()):
        if previous.get(payment_id) != payment.SerializeToString(
            deterministic=True
        ) and not print_json_line(payment):
            console.print("  ".join(to_row(payment)))
    return {
        name: payment_row.SerializeToString(deterministic=True) for name, payment_row in now.items()
    }


def _format_update(update: payment_pb2.WatchPaymentResponse) -> str:
    payment = update.payment
    line = f"version {update.version}  {formatting.format_status(payment.status)}"
    if payment.HasField("info"):
        line += f"  {format_amount(payment.info.option_amount)}  {payment.info.tx_id}"
    return line
