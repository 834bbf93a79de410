"""`florin payments show`: show a payment and its refunds."""

from __future__ import annotations

from florin_server.cli.console import print_json
from florin_server.cli.payments import formatting
from florin_server.cli.server import ConnectionOptions, connect_as_merchant


def show_payment(connection: ConnectionOptions, payment_id: str) -> None:
    """Print the payment."""
    with connect_as_merchant(connection) as client:
        payment = client.merchant.get_payment(payment_id)
    if not print_json(payment):
        formatting.print_payment(payment)
