"""Build a payment in the store's form."""

from __future__ import annotations

import os
import time

from florin_server.domain.ids import generate_payment_id
from florin_server.domain.payments.payment import Payment, PaymentStatus

# the size of a REST answer to a create
RECEIPT = b"x" * 220


def a_payment() -> Payment:
    """Return a payment in its initial state."""
    now_us = time.time_ns() // 1000
    return Payment(
        id=generate_payment_id(now_us, os.urandom),
        partner_id="prtn_bench",
        merchant_id="mrch_bench",
        live=False,
        status=PaymentStatus.REQUIRES_ACTION,
        version=0,
        unit="iso4217/USD",
        value=1250,
        reference_id="order-bench",
        success_url=None,
        error_url=None,
        salt=os.urandom(16),
        created_at_us=now_us,
        updated_at_us=now_us,
        expires_at=now_us // 1_000_000 + 900,
    )
