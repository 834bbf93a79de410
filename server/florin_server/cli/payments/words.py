"""Payments and refunds in the words of commands."""

from __future__ import annotations

from collections.abc import Iterator

from florin.v1 import merchant_pb2, payment_pb2, refund_pb2

from florin_server.cli.console import console, is_seen
from florin_server.cli.operation import minute, misused
from florin_server.cli.payments.amounts import shown
from florin_server.cli.prompt import Prompt

SUCCEEDED = payment_pb2.PAYMENT_STATUS_SUCCEEDED


def status(value: payment_pb2.PaymentStatus.ValueType) -> str:
    """A payment's status."""
    return payment_pb2.PaymentStatus.Name(value).removeprefix("PAYMENT_STATUS_").lower()


def refund_status(value: refund_pb2.RefundStatus.ValueType) -> str:
    """A refund's status."""
    return refund_pb2.RefundStatus.Name(value).removeprefix("REFUND_STATUS_").lower()


def show(payment: merchant_pb2.PaymentDetail) -> None:
    """Prints a payment, a fact a line."""
    facts = dict(_facts(payment))
    width = max(map(len, facts))
    for what, fact in facts.items():
        console.print(f"{what:<{width}}  {fact}")


def agreed(question: str, *, yes: bool) -> bool:
    """True if somebody says yes, or has said so; ends the program where nobody can be asked."""
    if yes:
        return True
    if not is_seen():
        misused("nobody can be asked here: say --yes if it is meant")
    return Prompt(quiet=False).sure(question, usual=False)


def _facts(payment: merchant_pb2.PaymentDetail) -> Iterator[tuple[str, str]]:
    yield "Payment", payment.payment_id
    yield "Status", _status(payment)
    yield "Amount", f"{shown(payment.amount)}{'' if payment.live else ', test data'}"
    yield "Merchant", f"{payment.merchant.name} ({payment.merchant.id})"
    yield "Reference", payment.reference_id or "-"
    yield "Made", minute(payment, "created_at")
    if not payment.is_final:
        yield "Link", payment.gateway_url
    if payment.HasField("buyer"):
        name = payment.buyer.account_provider_name
        yield "Payer", f"{payment.buyer.account_caip10}{f' ({name})' if name else ''}"
    if payment.HasField("info"):
        yield "Paid", shown(payment.info.option_amount)
        yield "Transaction", payment.info.tx_id
    several = len(payment.refunds) > 1
    for number, refund in enumerate(payment.refunds, 1):
        reason = f" ({refund.reason})" if refund.reason else ""
        name = f" {number}" if several else ""
        yield f"Refund{name}", f"{refund_status(refund.status)}, {shown(refund.amount)}{reason}"
        if refund.tx_id:
            yield f"Refunded{name} by", refund.tx_id
    if payment.HasField("refunded") and int(payment.refunded.refundable.value):
        yield "Left to refund", shown(payment.refunded.refundable)


def _status(payment: merchant_pb2.PaymentDetail) -> str:
    why = payment.failure_reason if payment.HasField("failure_reason") else ""
    return f"{status(payment.status)}{f': {why}' if why else ''} (version {payment.version})"
