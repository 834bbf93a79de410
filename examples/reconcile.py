"""A reconciliation job: compare the shop's orders, Florin's payments and the money that arrived.

`python examples/reconcile.py shop.db` reads the orders of `examples/shop.py`. It exits with 0 if
all agree, with 1 and a list if something differs, and with 2 if it could not compare. Changes of
the last GRACE_SECONDS are left to the next run: a webhook can still be on its way.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from florin.v1.listing_pb2 import PaymentRow
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED, PaymentStatus
from florin.v1.refund_pb2 import REFUND_STATUS_FAILED
from florin_client import Client, FlorinError


class Order(NamedTuple):
    """One order of the shop."""

    id: str
    cents: int
    payment: str | None
    shipped: bool


def differences(orders: list[Order], payments: Mapping[str, PaymentRow]) -> Iterator[str]:
    """Yield the differences, each in one sentence."""
    of_payment = {one.payment: one for one in orders if one.payment}
    for payment_id, order in of_payment.items():
        if payment_id not in payments:
            yield f"{order.id}: payment {payment_id} does not exist"
    for payment_id, row in payments.items():
        succeeded = row.status == PAYMENT_STATUS_SUCCEEDED
        found = of_payment.get(payment_id)
        if found is None:
            if succeeded:
                yield f"{row.reference_id}: {payment_id} is paid, but belongs to no order"
            continue
        asked = (row.reference_id, row.fiat_amount.unit, row.fiat_amount.value)
        if asked != (found.id, "iso4217/USD", str(found.cents)):
            yield f"{found.id}: {payment_id} is for {asked}, not for {found.cents} cents"
        if found.shipped and not succeeded:
            yield f"{found.id}: shipped, but {payment_id} is {PaymentStatus.Name(row.status)}"
        if succeeded and not found.shipped:
            yield f"{found.id}: paid by {payment_id}, but not shipped"
        # a partial refund, e.g. for a broken cup, is no difference
        if found.shipped and row.refunds and refunded(row) == int(row.token_amount.value):
            yield f"{found.id}: shipped, but {payment_id} is refunded"
        if succeeded and row.settlement.settled:
            paid, kept = int(row.token_amount.value), int(row.fees.total.value or 0)
            if int(row.settlement.amount.value) != paid - kept:
                yield f"{found.id}: of {paid} less {kept} arrived {row.settlement.amount.value}"


def refunded(row: PaymentRow) -> int:
    """Return the refunded amount of a payment, in minor units of the paid token."""
    active = [one for one in row.refunds if one.status != REFUND_STATUS_FAILED]
    return sum(int(one.amount.value) for one in active)


def orders_of(file: str) -> list[Order]:
    """Return the orders in a file of the shop; raise sqlite3.Error if it is not such a file."""
    uri = f"{Path(file).absolute().as_uri()}?mode=ro"
    rows = sqlite3.connect(uri, uri=True).execute("SELECT id, cents, payment, shipped FROM orders")
    return [Order(order_id, cents, payment, bool(done)) for order_id, cents, payment, done in rows]


def main(file: str) -> int:
    """Compare, print the differences, and return the exit status."""
    before = time.time() - int(os.environ.get("GRACE_SECONDS", "600"))
    try:
        # orders first: payments and orders that change meanwhile are too recent to compare
        orders = orders_of(file)
        with Client(
            os.environ["FLORIN_GRPC_TARGET"],
            plaintext=True,  # for a Florin on this machine; omit it elsewhere, to use TLS
            api_key=os.environ["FLORIN_PARTNER_KEY"],
            merchant_id=os.environ["FLORIN_MERCHANT_ID"],
        ) as client:
            rows = list(client.merchant.list_merchant_payments(reference_id="shop-", limit=200))
    except (FlorinError, sqlite3.Error) as error:
        print(f"Not compared: {error}", file=sys.stderr)
        return 2
    fresh = {one.payment_id for one in rows if one.last_updated_at.seconds > before}
    payments = {one.payment_id: one for one in rows if one.payment_id not in fresh}
    found = list(differences([one for one in orders if one.payment not in fresh], payments))
    print(*found, sep="\n", end="\n" if found else "")
    paid = [one for one in payments.values() if one.status == PAYMENT_STATUS_SUCCEEDED]
    held = sum(not one.settlement.settled for one in paid)
    print(f"{len(orders)} orders, {len(paid)} paid, of which {held} are still owed by the operator")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
