"""A point-of-sale terminal: shows an amount as a code to be scanned, and waits for the money.

`python examples/terminal.py 4.50` asks for 4.50 USD; SALE_SECONDS is how long the buyer has. It
ends with 0 if it is paid, 1 if it is not and never will be, and 2 if nobody knows.
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

# the link ends by itself soon after the sale, whatever becomes of the terminal
SPARE_S = 30


def sell(florin: Merchant, cents: int, patience_s: int) -> PaymentDetail:
    """One sale; answers the payment once it is final."""
    made = florin.create_payment(
        amount=("iso4217/USD", cents),
        expires_at=int(time.time()) + patience_s + SPARE_S,
        idempotency_key=secrets.token_hex(16),
    )
    segno.make(made.gateway_url).terminal(compact=True)
    print(made.gateway_url, flush=True)
    try:
        for update in florin.watch_payment(made.payment_id, timeout=patience_s):
            print(PaymentStatus.Name(update.payment.status), flush=True)
    except (DeadlineError, KeyboardInterrupt):
        call_off(florin, made.payment_id)
    return florin.get_payment(made.payment_id)


def call_off(florin: Merchant, payment_id: str) -> None:
    """Ends a sale that took too long. One that is being paid is not over: the chain decides."""
    try:
        florin.cancel_payment(payment_id)
    except StateError:
        print("it is being paid: wait", flush=True)
        florin.wait_final(payment_id)


def cents_of(text: str) -> int:
    """An amount as it is typed, in cents; ValueError if it is none."""
    try:
        cents = Decimal(text).scaleb(2)
    except InvalidOperation:
        raise ValueError(f"{text} is no amount") from None
    if not cents.is_finite() or cents <= 0 or cents != cents.to_integral_value():
        raise ValueError(f"{text} is no amount in dollars and cents")
    return int(cents)


def main() -> int:
    """Sells once."""
    try:
        cents = cents_of(sys.argv[1])
        with Client(
            os.environ["FLORIN_GRPC_TARGET"],
            plaintext=True,  # on this machine; elsewhere leave it out, and TLS is spoken
            api_key=os.environ["FLORIN_PARTNER_KEY"],
            merchant_id=os.environ["FLORIN_MERCHANT_ID"],
        ) as client:
            payment = sell(client.merchant, cents, int(os.environ.get("SALE_SECONDS", "120")))
    except (FlorinError, ValueError) as error:
        print(f"Nobody knows: {error}", file=sys.stderr)
        return 2
    paid = payment.status == PAYMENT_STATUS_SUCCEEDED and payment.amount.value == str(cents)
    print("PAID" if paid else "NOT PAID", payment.payment_id)
    return 0 if paid else 1


if __name__ == "__main__":
    sys.exit(main())
