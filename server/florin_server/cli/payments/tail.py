"""`florin payments tail`: a payment, or all of a merchant, as they change."""

from __future__ import annotations

import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING

from florin.v1 import listing_pb2, payment_pb2

from florin_server.cli.console import console, told_line
from florin_server.cli.exits import Exit
from florin_server.cli.operation import misused
from florin_server.cli.payments import words
from florin_server.cli.payments.amounts import shown
from florin_server.cli.payments.listing import row
from florin_server.cli.server import At, as_merchant

if TYPE_CHECKING:
    from florin_client import Client

# of all payments: what one look sees, and the time between two
_NEWEST = 50
_LOOK_S = 2.0


def one(at: At, payment_id: str, after_version: int | None) -> None:
    """Follows one payment; ends as it does."""
    with as_merchant(at) as client:
        # a stream is tried again for minutes: whoever named the wrong server is told at once
        client.merchant.get_payment_status(payment_id)
        raise SystemExit(int(follow(client, payment_id, after_version)))


def follow(client: Client, payment_id: str, after_version: int | None) -> Exit:
    """Prints each change of a payment; how it ended."""
    for update in client.merchant.watch_payment(payment_id, after_version=after_version):
        if not told_line(update):
            console.print(_line(update))
        ended = update.payment
        if ended.is_final:
            return Exit.DONE if ended.status == words.SUCCEEDED else Exit.UNPAID
    # it was over before what was asked for
    status = client.merchant.get_payment_status(payment_id).status
    return Exit.DONE if status == words.SUCCEEDED else Exit.UNPAID


def all_(at: At, after_version: int | None) -> None:
    """Prints how the newest payments stand, and again whenever that has changed, until Ctrl-C."""
    if after_version is not None:
        misused("--after-version is about one payment: name it")
    seen: dict[str, bytes] = {}
    with as_merchant(at) as client:
        while True:
            found = client.merchant.list_merchant_payments(limit=_NEWEST)
            seen = changed(list(islice(found, _NEWEST)), seen)
            time.sleep(_LOOK_S)


def changed(found: Iterable[listing_pb2.PaymentRow], seen: dict[str, bytes]) -> dict[str, bytes]:
    """Prints what was not seen like this, oldest first; what is seen now."""
    now = {one.payment_id: one for one in found}
    for payment_id, payment in reversed(now.items()):
        if seen.get(payment_id) != payment.SerializeToString(deterministic=True) and not told_line(
            payment
        ):
            console.print("  ".join(row(payment)))
    return {name: one.SerializeToString(deterministic=True) for name, one in now.items()}


def _line(update: payment_pb2.WatchPaymentResponse) -> str:
    payment = update.payment
    line = f"version {update.version}  {words.status(payment.status)}"
    if payment.HasField("info"):
        line += f"  {shown(payment.info.option_amount)}  {payment.info.tx_id}"
    return line
