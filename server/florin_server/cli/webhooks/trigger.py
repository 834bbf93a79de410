"""`florin trigger`: a test payment, brought to an outcome."""

from __future__ import annotations

from florin.v1 import account_pb2

from florin_server.cli.console import console, told
from florin_server.cli.operation import misused
from florin_server.cli.server import At, as_merchant

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


def run(at: At, outcome: str) -> None:
    """Makes a payment, gives it the outcome, and prints its id."""
    if outcome not in _OUTCOMES:
        misused(f"there is no outcome {outcome}; there are {', '.join(_OUTCOMES)}")
    with as_merchant(at) as client:
        made = client.merchant.create_payment(amount=_PRICE, reference_id="florin trigger")
        wanted = _OUTCOMES[outcome]
        if wanted is not None:
            client.admin.simulate_payment(made.payment_id, outcome=wanted)
        if outcome == _REFUNDED:
            client.merchant.create_refund(made.payment_id)
    if not told(made):
        console.print(made.payment_id)
