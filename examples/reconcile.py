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


def compare(orders: list[Order], payments: Mapping[str, PaymentRow]) -> Iterator[str]:
    """Yield the differences, each in one sentence."""
    orders_by_payment = {order.payment: order for order in orders if order.payment}
    for payment_id, shop_order in orders_by_payment.items():
        if payment_id not in payments:
            yield f"{shop_order.id}: payment {payment_id} does not exist"
    for payment_id, row in payments.items():
        succeeded = row.status == PAYMENT_STATUS_SUCCEEDED
        order = orders_by_payment.get(payment_id)
        if order is None:
            if succeeded:
                yield f"{row.reference_id}: {payment_id} is paid, but belongs to no order"
            continue
        terms = (row.reference_id, row.fiat_amount.unit, row.fiat_amount.value)
        if terms != (order.id, "iso4217/USD", str(order.cents)):
            yield f"{order.id}: {payment_id} is for {terms}, not for {order.cents} cents"
        if order.shipped and not succeeded:
            yield f"{order.id}: shipped, but {payment_id} is {PaymentStatus.Name(row.status)}"
        if succeeded and not order.shipped:
            yield f"{order.id}: paid by {payment_id}, but not shipped"
        # a partial refund, e.g. for a broken cup, is no difference
        if order.shipped and row.refunds and sum_refunds(row) == int(row.token_amount.value):
            yield f"{order.id}: shipped, but {payment_id} is refunded"
        if succeeded and row.settlement.settled:
            paid, fee = int(row.token_amount.value), int(row.fees.total.value or 0)
            if int(row.settlement.amount.value) != paid - fee:
                yield f"{order.id}: of {paid} less {fee} arrived {row.settlement.amount.value}"


def sum_refunds(row: PaymentRow) -> int:
    """Return the refunded amount of a payment, in minor units of the paid token."""
    active = [refund for refund in row.refunds if refund.status != REFUND_STATUS_FAILED]
    return sum(int(refund.amount.value) for refund in active)


def read_orders(file: str) -> list[Order]:
    """Return the orders in a file of the shop; raise sqlite3.Error if it is not such a file."""
    uri = f"{Path(file).absolute().as_uri()}?mode=ro"
    rows = sqlite3.connect(uri, uri=True).execute("SELECT id, cents, payment, shipped FROM orders")
    return [Order(order_id, cents, payment, bool(done)) for order_id, cents, payment, done in rows]


def main(file: str) -> int:
    """Compare, print the differences, and return the exit status."""
    before = time.time() - int(os.environ.get("GRACE_SECONDS", "600"))
    try:
        # orders first: payments and orders that change meanwhile are too recent to compare
        orders = read_orders(file)
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
    fresh = {row.payment_id for row in rows if row.last_updated_at.seconds > before}
    payments = {row.payment_id: row for row in rows if row.payment_id not in fresh}
    comparable_orders = [order for order in orders if order.payment not in fresh]
    differences = list(compare(comparable_orders, payments))
    print(*differences, sep="\n", end="\n" if differences else "")
    paid = [row for row in payments.values() if row.status == PAYMENT_STATUS_SUCCEEDED]
    held = sum(not row.settlement.settled for row in paid)
    print(f"{len(orders)} orders, {len(paid)} paid, of which {held} are still owed by the operator")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
