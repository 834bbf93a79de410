"""`florin payments cancel`: a payment that nobody has paid is called off."""

from __future__ import annotations

from florin_server.cli.console import console, is_json, note, told
from florin_server.cli.exits import Exit
from florin_server.cli.payments import words
from florin_server.cli.server import At, as_merchant


def run(at: At, payment_id: str, *, yes: bool, key: str | None) -> None:
    """Shows the payment, asks, and calls it off."""
    with as_merchant(at) as client:
        payment = client.merchant.get_payment(payment_id)
        if not is_json():
            words.show(payment)
        if not words.agreed("Call it off?", yes=yes):
            note("It is as it was.")
            raise SystemExit(int(Exit.REFUSED))
        # whoever repeats the command repeats the call
        done = client.merchant.cancel_payment(
            payment.payment_id, idempotency_key=key or f"florin-cancel-{payment.payment_id}"
        )
    if not told(done):
        console.print(f"{done.payment_id} is {words.status(done.status)}.")
