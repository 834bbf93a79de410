"""A point-of-sale terminal: shows an amount as a QR code, and waits for the money.

`python examples/terminal.py 4.50` requests 4.50 USD; SALE_SECONDS is the time that the buyer has.
It exits with 0 if the payment succeeded, 1 if it is final and did not, and 2 if the outcome is
unknown.
"""

from __future__ import annotations

import os
import secrets
import sys
import time
from decimal import Decimal, InvalidOperation

import segno
from florin.v1.merchant_pb2 import PaymentDetail
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED, PaymentStatus
from florin_client import Client, DeadlineError, FlorinError, StateError
from florin_client.sync import Merchant

# the link expires soon after the sale, even if the terminal stops
SPARE_S = 30


def sell(florin: Merchant, cents: int, patience_s: int) -> PaymentDetail:
    """Run one sale; return the payment once it is final."""
    payment = florin.create_payment(
        amount=("iso4217/USD", cents),
        expires_at=int(time.time()) + patience_s + SPARE_S,
        idempotency_key=secrets.token_hex(16),
    )
    segno.make(payment.gateway_url).terminal(compact=True)
    print(payment.gateway_url, flush=True)
    try:
        for update in florin.watch_payment(payment.payment_id, timeout=patience_s):
            print(PaymentStatus.Name(update.payment.status), flush=True)
    except (DeadlineError, KeyboardInterrupt):
        cancel_sale(florin, payment.payment_id)
    return florin.get_payment(payment.payment_id)


def cancel_sale(florin: Merchant, payment_id: str) -> None:
    """Cancel a sale that took too long.

    If a wallet has already paid, wait for the chain's outcome.
    """
    try:
        florin.cancel_payment(payment_id)
    except StateError:
        print("a wallet is paying: wait", flush=True)
        florin.wait_final(payment_id)


def parse_cents(text: str) -> int:
    """Return a typed amount in cents; raise ValueError for an invalid amount."""
    try:
        cents = Decimal(text).scaleb(2)
    except InvalidOperation:
        raise ValueError(f"{text} is not an amount") from None
    if not cents.is_finite() or cents <= 0 or cents != cents.to_integral_value():
        raise ValueError(f"{text} is not an amount in dollars and cents")
    return int(cents)


def main() -> int:
    """Run one sale; return the exit status."""
    try:
        cents = parse_cents(sys.argv[1])
        with Client(
            os.environ["FLORIN_GRPC_TARGET"],
            plaintext=True,  # for a Florin on this machine; omit it elsewhere, to use TLS
            api_key=os.environ["FLORIN_PARTNER_KEY"],
            merchant_id=os.environ["FLORIN_MERCHANT_ID"],
        ) as client:
            payment = sell(client.merchant, cents, int(os.environ.get("SALE_SECONDS", "120")))
    except (FlorinError, ValueError) as error:
        print(f"Unknown outcome: {error}", file=sys.stderr)
        return 2
    paid = payment.status == PAYMENT_STATUS_SUCCEEDED and payment.amount.value == str(cents)
    print("PAID" if paid else "NOT PAID", payment.payment_id)
    return 0 if paid else 1


if __name__ == "__main__":
    sys.exit(main())
