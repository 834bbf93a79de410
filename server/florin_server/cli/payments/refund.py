"""`florin payments refund`: a payment is paid back to the account that paid it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from florin.v1 import merchant_pb2, refund_pb2

from florin_server.cli.console import console, is_json, note, told, told_line
from florin_server.cli.exits import Exit
from florin_server.cli.operation import misused
from florin_server.cli.payments import words
from florin_server.cli.payments.amounts import read, shown
from florin_server.cli.server import At, as_merchant

if TYPE_CHECKING:
    from florin_client import Client


@dataclass(frozen=True, slots=True)
class Part:
    """The options of the command; without an amount all goes back."""

    amount: str | None
    reason: str | None


def run(at: At, payment_id: str, part: Part, *, yes: bool, wait: bool, key: str | None) -> None:
    """Shows what goes where, asks, and asks for the refund; with `wait` it follows it."""
    with as_merchant(at) as client:
        payment = client.merchant.get_payment(payment_id)
        amount = None if part.amount is None else _parse_amount(part.amount, payment)
        if not is_json():
            words.show(payment)
            console.print()
        if not words.agreed(_question(payment, part.amount), yes=yes):
            note("Nothing is paid back.")
            raise SystemExit(int(Exit.REFUSED))
        # whoever repeats the command repeats the call; another part is another call
        usual = f"florin-refund-{payment.payment_id}"
        if amount is not None:
            usual += f"-{len(payment.refunds)}"
        made = client.merchant.create_refund(
            payment.payment_id, amount=amount, reason=part.reason, idempotency_key=key or usual
        )
        if not (told_line(made) if wait else told(made)):
            console.print(made.refund_id)
            note(f"The refund is {words.refund_status(made.status)}.")
        if wait:
            raise SystemExit(int(_followed(client, payment.payment_id, made.refund_id)))


def _parse_amount(text: str, payment: merchant_pb2.PaymentDetail) -> tuple[str, int]:
    """Return unit and minor units; ends the program for what is no amount of the payment."""
    display, parts = payment.info.option_amount.display, text.split()
    try:
        if payment.HasField("info") and parts[1:] == [display.asset_symbol]:
            found = re.fullmatch(rf"(\d{{1,60}})(?:\.(\d{{1,{display.decimals or 1}}}))?", parts[0])
            if found is None:
                form = f"digits, at most {display.decimals} behind the point"
                raise ValueError(
                    f"{parts[0][:80]!r} {display.asset_symbol} is not an amount: {form}"
                )
            digits = (found[2] or "").ljust(display.decimals, "0")
            return payment.info.option_amount.unit, int(found[1] + digits)
        return read(parts)
    except ValueError as error:
        misused(f"--amount: {error}")


def _question(payment: merchant_pb2.PaymentDetail, part: str | None) -> str:
    if not payment.HasField("info"):
        return "Ask for its refund?"
    amount = part or shown(payment.info.option_amount)
    return f"Pay {amount} back to {payment.buyer.account_caip10}?"


def _followed(client: Client, payment_id: str, refund_id: str) -> Exit:
    last = None
    for update in client.merchant.watch_refund(payment_id, refund_id=refund_id):
        last = update.refund.status
        if not told_line(update):
            line = f"{words.refund_status(last)}  {shown(update.refund.amount)}"
            console.print(f"{line}  {update.refund.tx_id}".rstrip())
    return Exit.DONE if last == refund_pb2.REFUND_STATUS_SUCCEEDED else Exit.UNPAID
