"""`florin trigger`: create a test payment with a chosen outcome."""

from __future__ import annotations

from florin.v1 import account_pb2

from florin_server.cli.console import console, print_json
from florin_server.cli.operation import usage_error
from florin_server.cli.server import ConnectionOptions, connect_as_merchant

_REFUNDED = "refunded"
_OUTCOMES = {
    "created": None,
    "succeeded": account_pb2.SIMULATED_OUTCOME_SUCCEEDED,
    "failed": account_pb2.SIMULATED_OUTCOME_FAILED,
    "expired": account_pb2.SIMULATED_OUTCOME_EXPIRED,
    "cancelled": account_pb2.SIMULATED_OUTCOME_CANCELLED,
    "processing": account_pb2.SIMULATED_OUTCOME_STALL,
    _REFUNDED: account_pb2.SIMULATED_OUTCOME_SUCCEEDED,
}
_PRICE = ("iso4217/USD", 1250)


def trigger_outcome(connection: ConnectionOptions, outcome: str) -> None:
    """Create a payment, give it the outcome, and print its id."""
    if outcome not in _OUTCOMES:
        usage_error(f"unknown outcome {outcome[:80]!r}: use {', '.join(_OUTCOMES)}")
    with connect_as_merchant(connection) as client:
        response = client.merchant.create_payment(amount=_PRICE, reference_id="florin trigger")
        value_type = _OUTCOMES[outcome]
        if value_type is not None:
            client.admin.simulate_payment(response.payment_id, outcome=value_type)
        if outcome == _REFUNDED:
            client.merchant.create_refund(response.payment_id)
    if not print_json(response):
        console.print(response.payment_id)
