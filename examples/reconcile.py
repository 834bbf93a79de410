"""A reconciliation job: do the shop's orders, Florin's payments and the money that came agree?

`python examples/reconcile.py shop.db` reads the orders of `examples/shop.py`. It ends with 0 if all
agrees, 1 if something differs, which it tells, and 2 if it could not look. What changed within the
last GRACE_SECONDS is left to the next run: a webhook may be on its way.
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
    """What the shop knows."""

    id: str
    cents: int
    payment: str | None
    shipped: bool


def differences(orders: list[Order], payments: Mapping[str, PaymentRow]) -> Iterator[str]:
    """What does not agree, each in one sentence."""
    of_payment = {one.payment: one for one in orders if one.payment}
    for payment_id, order in of_payment.items():
        if payment_id not in payments:
            yield f"{order.id}: there is no payment {payment_id}"
    for payment_id, row in payments.items():
        succeeded = row.status == PAYMENT_STATUS_SUCCEEDED
        found = of_payment.get(payment_id)
        if found is None:
            if succeeded:
                yield f"{row.reference_id}: {payment_id} is paid, and no order has it"
            continue
        asked = (row.reference_id, row.fiat_amount.unit, row.fiat_amount.value)
        if asked != (found.id, "iso4217/USD", str(found.cents)):
            yield f"{found.id}: {payment_id} is for {asked}, not for {found.cents} cents"
        if found.shipped and not succeeded:
            yield f"{found.id}: shipped, and {payment_id} is {PaymentStatus.Name(row.status)}"
        if succeeded and not found.shipped:
            yield f"{found.id}: paid by {payment_id}, and not shipped"
        # a part that went back, for a broken cup say, is no difference
        if found.shipped and row.refunds and refunded(row) == int(row.token_amount.value):
            yield f"{found.id}: shipped, and {payment_id} is paid back"
        if succeeded and row.settlement.settled:
            paid, kept = int(row.token_amount.value), int(row.fees.total.value or 0)
            if int(row.settlement.amount.value) != paid - kept:
                yield f"{found.id}: of {paid} less {kept} came {row.settlement.amount.value}"


def refunded(row: PaymentRow) -> int:
    """How much of a payment goes back, in minor units of what was paid."""
    active = [one for one in row.refunds if one.status != REFUND_STATUS_FAILED]
    return sum(int(one.amount.value) for one in active)


def orders_of(file: str) -> list[Order]:
    """The orders in a file of the shop; sqlite3.Error if it is none."""
    uri = f"{Path(file).absolute().as_uri()}?mode=ro"
    rows = sqlite3.connect(uri, uri=True).execute("SELECT id, cents, payment, shipped FROM orders")
    return [Order(order_id, cents, payment, bool(done)) for order_id, cents, payment, done in rows]


def main(file: str) -> int:
    """Compares, and tells."""
    before = time.time() - int(os.environ.get("GRACE_SECONDS", "600"))
    try:
        # orders first: what is paid and shipped meanwhile is too fresh to be compared
        orders = orders_of(file)
        with Client(
            os.environ["FLORIN_GRPC_TARGET"],
            plaintext=True,  # on this machine; elsewhere leave it out, and TLS is spoken
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
