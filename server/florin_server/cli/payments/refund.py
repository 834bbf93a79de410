"""`florin payments refund`: refund a payment to the account that paid it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from florin.v1 import merchant_pb2, refund_pb2

from florin_server.cli.console import (
    console,
    is_json_output,
    print_hint,
    print_json,
    print_json_line,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import usage_error
from florin_server.cli.payments import formatting
from florin_server.cli.payments.amounts import format_amount, parse_amount
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

if TYPE_CHECKING:
    from florin_client import Client


@dataclass(frozen=True, slots=True)
class RefundOptions:
    """The options of the command; without an amount, everything is refunded."""

    amount: str | None
    reason: str | None


def refund_payment(
    connection: ConnectionOptions,
    payment_id: str,
    options: RefundOptions,
    *,
    yes: bool,
    wait: bool,
    key: str | None,
) -> None:
    """Show the refund, ask, and create it; with `wait`, follow it and exit with its outcome."""
    with connect_as_merchant(connection) as client:
        payment = client.merchant.get_payment(payment_id)
        amount = None if options.amount is None else _parse_amount(options.amount, payment)
        if not is_json_output():
            formatting.print_payment(payment)
            console.print()
        if not formatting.confirm(_format_question(payment, options.amount), yes=yes):
            print_hint("No refund was created.")
            raise SystemExit(int(ExitStatus.REFUSED))
        # a repeated command repeats the call; each partial refund is a call of its own
        usual = f"florin-refund-{payment.payment_id}"
        if amount is not None:
            usual += f"-{len(payment.refunds)}"
        response = client.merchant.create_refund(
            payment.payment_id, amount=amount, reason=options.reason, idempotency_key=key or usual
        )
        if not (print_json_line(response) if wait else print_json(response)):
            console.print(response.refund_id)
            print_hint(f"The refund is {formatting.format_refund_status(response.status)}.")
        if wait:
            raise SystemExit(int(_follow_refund(client, payment.payment_id, response.refund_id)))


def _parse_amount(text: str, payment: merchant_pb2.PaymentDetail) -> tuple[str, int]:
    """Return unit and minor units; end the program if the text is not an amount of the payment."""
    display, parts = payment.info.option_amount.display, text.split()
    try:
        if payment.HasField("info") and parts[1:] == [display.asset_symbol]:
            match = re.fullmatch(rf"(\d{{1,60}})(?:\.(\d{{1,{display.decimals or 1}}}))?", parts[0])
            if match is None:
                form = f"digits, with at most {display.decimals} decimals"
                raise ValueError(
                    f"{parts[0][:80]!r} {display.asset_symbol} is not an amount; write {form}"
                )
            digits = (match[2] or "").ljust(display.decimals, "0")
            return payment.info.option_amount.unit, int(match[1] + digits)
        return parse_amount(parts)
    except ValueError as error:
        usage_error(f"--amount: {error}")


def _format_question(payment: merchant_pb2.PaymentDetail, partial_amount: str | None) -> str:
    if not payment.HasField("info"):
        return "Refund this payment?"
    amount = partial_amount or format_amount(payment.info.option_amount)
    return f"Refund {amount} to {payment.buyer.account_caip10}?"


def _follow_refund(client: Client, payment_id: str, refund_id: str) -> ExitStatus:
    last = None
    for update in client.merchant.watch_refund(payment_id, refund_id=refund_id):
        last = update.refund.status
        if not print_json_line(update):
            line = f"{formatting.format_refund_status(last)}  {format_amount(update.refund.amount)}"
            console.print(f"{line}  {update.refund.tx_id}".rstrip())
    return ExitStatus.DONE if last == refund_pb2.REFUND_STATUS_SUCCEEDED else ExitStatus.UNPAID
