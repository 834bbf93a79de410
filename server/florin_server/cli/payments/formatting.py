"""Format payments and refunds for commands."""

from __future__ import annotations

from collections.abc import Iterator

from florin.v1 import merchant_pb2, payment_pb2, refund_pb2

from florin_server.cli.console import console, is_interactive
from florin_server.cli.operation import format_minute, usage_error
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.prompt import OperatorPrompt

SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED


def format_status(value: payment_pb2.PaymentStatus.ValueType) -> str:
    """Return the name of a payment's status."""
    return payment_pb2.PaymentStatus.Name(value).removeprefix("PAYMENT_STATUS_").lower()


def format_refund_status(value: refund_pb2.RefundStatus.ValueType) -> str:
    """Return the name of a refund's status."""
    return refund_pb2.RefundStatus.Name(value).removeprefix("REFUND_STATUS_").lower()


def print_payment(payment: merchant_pb2.PaymentDetail) -> None:
    """Print a payment, one fact per line."""
    facts = dict(_list_facts(payment))
    width = max(map(len, facts))
    for what, fact in facts.items():
        console.print(f"{what:<{width}}  {fact}")


def confirm(question: str, *, yes: bool) -> bool:
    """Return True if the user agrees, now or with --yes; end the program without a terminal."""
    if yes:
        return True
    if not is_interactive():
        usage_error("there is no terminal to ask on: use --yes to confirm")
    return OperatorPrompt(is_quiet=False).ask_yes_no(question, default=False)


def _list_facts(payment: merchant_pb2.PaymentDetail) -> Iterator[tuple[str, str]]:
    yield "Payment", payment.payment_id
    yield "Status", _format_payment_status(payment)
    yield "Amount", f"{format_amount(payment.amount)}{'' if payment.live else ', test data'}"
    yield "Merchant", f"{payment.merchant.name} ({payment.merchant.id})"
    yield "Reference", payment.reference_id or "-"
    yield "Created", format_minute(payment, "created_at")
    if not payment.is_final:
        yield "Link", payment.gateway_url
    if payment.HasField("buyer"):
        name = payment.buyer.account_provider_name
        yield "Payer", f"{payment.buyer.account_caip10}{f' ({name})' if name else ''}"
    if payment.HasField("info"):
        yield "Paid", format_amount(payment.info.option_amount)
        yield "Transaction", payment.info.tx_id
    several = len(payment.refunds) > 1
    for number, refund in enumerate(payment.refunds, 1):
        reason = f" ({refund.reason})" if refund.reason else ""
        name = f" {number}" if several else ""
        yield (
            f"Refund{name}",
            f"{format_refund_status(refund.status)}, {format_amount(refund.amount)}{reason}",
        )
        if refund.tx_id:
            yield f"Refunded{name} by", refund.tx_id
    if payment.HasField("refunded") and int(payment.refunded.refundable.value):
        yield "Left to refund", format_amount(payment.refunded.refundable)


def _format_payment_status(payment: merchant_pb2.PaymentDetail) -> str:
    why = payment.failure_reason if payment.HasField("failure_reason") else ""
    return f"{format_status(payment.status)}{f': {why}' if why else ''} (version {payment.version})"
