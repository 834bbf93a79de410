"""`florin payments cancel`: cancel an unpaid payment."""

from __future__ import annotations

from florin_server.cli.console import (
    console,
    is_json_output,
    print_hint,
    print_json,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.payments import formatting
from florin_server.cli.server import ConnectionOptions, connect_as_merchant


def cancel_payment(
    connection: ConnectionOptions, payment_id: str, *, yes: bool, key: str | None
) -> None:
    """Show the payment, ask, and cancel it."""
    with connect_as_merchant(connection) as client:
        payment = client.merchant.get_payment(payment_id)
        if not is_json_output():
            formatting.print_payment(payment)
        if not formatting.confirm("Cancel this payment?", yes=yes):
            print_hint("Nothing changed.")
            raise SystemExit(int(ExitStatus.REFUSED))
        # a repeated command repeats the call
        done = client.merchant.cancel_payment(
            payment.payment_id, idempotency_key=key or f"florin-cancel-{payment.payment_id}"
        )
    if not print_json(done):
        console.print(f"{done.payment_id} is {formatting.format_status(done.status)}.")
