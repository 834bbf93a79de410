"""Links from a payment's page: its transaction in a block explorer, and its receipt."""

from __future__ import annotations

from urllib.parse import quote

from florin.v1 import merchant_pb2

from florin_server.features.receipts.service.receipt import get_page_path
from florin_server.web.console.site import ConsoleRequest


def find_explorer_url(console_request: ConsoleRequest, payment: merchant_pb2.PaymentDetail) -> str:
    """Return the page of the transaction that paid, in the configured explorer; empty without."""
    if not payment.HasField("info"):
        return ""
    chain_id = payment.info.option_amount.unit.partition("/")[2].rpartition("/")[0]
    template = console_request.console.app.settings.checkout.explorers.get(chain_id, "")
    return template.replace("{tx}", quote(payment.info.tx_id, "")) if template else ""


def find_receipt_url(payment: merchant_pb2.PaymentDetail) -> str:
    """Return the receipt's page for the account that paid; empty without one."""
    if not payment.HasField("info") or not payment.HasField("buyer"):
        return ""
    base = payment.gateway_url.removesuffix(f"/{payment.payment_id}")
    account = quote(payment.buyer.account_caip10, "")
    return f"{base}{get_page_path(payment.payment_id)}?account={account}"
