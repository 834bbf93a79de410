"""`florin customers`: what is kept about an account that pays."""

from __future__ import annotations

import json
from typing import Any

from florin.v1 import customer_pb2, payment_pb2
from florin_gateway.jsonshape import timestamp_text

from florin_server.cli.console import console, told
from florin_server.cli.operation import ask

_SOURCES = {
    customer_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED: None,
    customer_pb2.CUSTOMER_DATA_SOURCE_FORM: "form",
    customer_pb2.CUSTOMER_DATA_SOURCE_WALLET: "wallet",
}


def export(given: dict[str, Any], account: str) -> None:
    """Prints everything that is kept, as JSON."""
    kept = ask(given, "ExportCustomer", customer_pb2.ExportCustomerRequest(account=account))
    found = {
        "account": kept.account,
        "payments": [_payment(one) for one in kept.payments],
        "collectedData": [_data(one) for one in kept.collected_data],
    }
    if not told(found):
        console.print(json.dumps(found, indent=2, ensure_ascii=False))


def _payment(one: customer_pb2.CustomerPayment) -> dict[str, Any]:
    """A payment, in the words of the REST API."""
    status = payment_pb2.PaymentStatus.Name(one.status)
    return {
        "paymentId": one.payment_id,
        "status": status.removeprefix("PAYMENT_STATUS_").lower(),
        "createdAt": timestamp_text(one.created_at),
        "payer": one.payer,
        "walletName": one.wallet_name or None,
        "txId": one.tx_id or None,
    }


def _data(one: customer_pb2.CustomerData) -> dict[str, Any]:
    """What the customer told; null where the key to read it with is lost."""
    return {
        "paymentId": one.payment_id,
        "collectedAt": timestamp_text(one.collected_at),
        "keptUntil": timestamp_text(one.kept_until),
        "source": _SOURCES[one.source],
        "app": one.app or None,
        "proven": one.proven,
        "data": json.loads(one.data_json) if one.data_json else None,
    }


def erase(given: dict[str, Any], account: str) -> None:
    """Deletes what is kept, as far as the books allow, and says what they need."""
    done = ask(given, "EraseCustomer", customer_pb2.EraseCustomerRequest(account=account))
    if told(done):
        return
    console.print(
        f"Erased: {done.offers_erased} offers, {done.wallet_names_erased} wallet names, "
        f"{done.collected_data_erased} sets of data about the buyer."
    )
    console.print(f"Kept, because money moved: {done.payments_kept} payments.")
