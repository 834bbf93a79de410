"""`florin payments show`: everything about one payment."""

from __future__ import annotations

from florin_server.cli.console import told
from florin_server.cli.payments import words
from florin_server.cli.server import At, as_merchant


def run(at: At, payment_id: str) -> None:
    """Prints the payment."""
    with as_merchant(at) as client:
        payment = client.merchant.get_payment(payment_id)
    if not told(payment):
        words.show(payment)
