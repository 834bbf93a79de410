"""`florin payments refund`: a payment is paid back to the account that paid it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from florin.v1 import merchant_pb2, refund_pb2

from florin_server.cli.console import console, is_json, note, told, told_line
from florin_server.cli.exits import Exit
from florin_server.cli.payments import words
from florin_server.cli.payments.amounts import shown
from florin_server.cli.server import At, as_merchant

if TYPE_CHECKING:
    from florin_client import Client


def run(at: At, payment_id: str, *, yes: bool, wait: bool, key: str | None) -> None:
    """Shows what goes where, asks, and asks for the refund; with `wait` it follows it."""
    with as_merchant(at) as client:
        payment = client.merchant.get_payment(payment_id)
        if not is_json():
            words.show(payment)
            console.print()
        if not words.agreed(_question(payment), yes=yes):
            note("Nothing is paid back.")
            raise SystemExit(int(Exit.REFUSED))
        # whoever repeats the command repeats the call
        made = client.merchant.create_refund(
            payment.payment_id, idempotency_key=key or f"florin-refund-{payment.payment_id}"
        )
        if not (told_line(made) if wait else told(made)):
            console.print(made.refund_id)
            note(f"The refund is {words.refund_status(made.status)}.")
        if wait:
            raise SystemExit(int(_followed(client, payment.payment_id)))


def _question(payment: merchant_pb2.PaymentDetail) -> str:
    if not payment.HasField("info"):
        return "Ask for its refund?"
    amount = shown(payment.info.option_amount)
    return f"Pay {amount} back to {payment.buyer.account_caip10}?"


def _followed(client: Client, payment_id: str) -> Exit:
    last = None
    for update in client.merchant.watch_refund(payment_id):
        last = update.refund.status
        if not told_line(update):
            line = f"{words.refund_status(last)}  {shown(update.refund.amount)}"
            console.print(f"{line}  {update.refund.tx_id}".rstrip(), markup=False)
    return Exit.DONE if last == refund_pb2.REFUND_STATUS_SUCCEEDED else Exit.UNPAID
