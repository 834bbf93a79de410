"""`florin customers`: the data that Florin stores about a payer's account."""

from __future__ import annotations

import json
from typing import Any

from florin.v1 import customer_pb2, held_pb2, payment_pb2
from grpc_rest_gateway.jsonshape import format_timestamp

from florin_server.cli.console import console, print_json
from florin_server.cli.operation import call_operator

_SOURCES = {
    customer_pb2.CUSTOMER_DATA_SOURCE_UNSPECIFIED: None,
    customer_pb2.CUSTOMER_DATA_SOURCE_FORM: "form",
    customer_pb2.CUSTOMER_DATA_SOURCE_WALLET: "wallet",
}


def export_customer(overrides: dict[str, Any], account: str) -> None:
    """Print all stored data of an account, as JSON."""
    customer_data = call_operator(
        overrides, "ExportCustomer", customer_pb2.ExportCustomerRequest(account=account)
    )
    document = {
        "account": customer_data.account,
        "payments": [_to_payment_json(payment) for payment in customer_data.payments],
        "collectedData": [_to_data_json(collected) for collected in customer_data.collected_data],
        "depositClaims": [_to_claim_json(claim) for claim in customer_data.deposit_claims],
    }
    if not print_json(document):
        console.print(json.dumps(document, indent=2, ensure_ascii=False))


def _to_payment_json(customer_payment: customer_pb2.CustomerPayment) -> dict[str, Any]:
    """Return a payment with the member names of the REST API."""
    status = payment_pb2.PaymentStatus.Name(customer_payment.status)
    return {
        "paymentId": customer_payment.payment_id,
        "status": status.removeprefix("PAYMENT_STATUS_").lower(),
        "createdAt": format_timestamp(customer_payment.created_at),
        "payer": customer_payment.payer,
        "walletName": customer_payment.wallet_name or None,
        "txId": customer_payment.tx_id or None,
    }


def _to_data_json(customer: customer_pb2.CustomerData) -> dict[str, Any]:
    """Return collected data of the buyer; `data` is null if its decryption key is lost."""
    return {
        "paymentId": customer.payment_id,
        "collectedAt": format_timestamp(customer.collected_at),
        "keptUntil": format_timestamp(customer.kept_until),
        "source": _SOURCES[customer.source],
        "app": customer.app or None,
        "proven": customer.proven,
        "data": json.loads(customer.data_json) if customer.data_json else None,
    }


def _to_claim_json(customer_claim: customer_pb2.CustomerDepositClaim) -> dict[str, Any]:
    """Return a claim for money at a payment's address."""
    claim = customer_claim.claim
    state = held_pb2.DepositClaimState.Name(claim.state)
    is_decided = claim.HasField("decided_at")
    return {
        "paymentId": customer_claim.payment_id,
        "claimId": claim.claim_id,
        "asset": claim.asset,
        "amount": claim.amount,
        "message": claim.message or None,
        "state": state.removeprefix("DEPOSIT_CLAIM_STATE_").lower(),
        "createdAt": format_timestamp(claim.created_at),
        "decidedAt": format_timestamp(claim.decided_at) if is_decided else None,
    }


def erase_customer(overrides: dict[str, Any], account: str) -> None:
    """Erase the stored data except the records of moved money, and print what stayed."""
    done = call_operator(
        overrides, "EraseCustomer", customer_pb2.EraseCustomerRequest(account=account)
    )
    if print_json(done):
        return
    console.print(
        f"Erased: {done.offers_erased} offers, {done.wallet_names_erased} wallet names, "
        f"{done.collected_data_erased} sets of data about the buyer, "
        f"{done.deposit_claims_erased} claims."
    )
    console.print(f"Kept: {done.payments_kept} payments, because their money moved.")
