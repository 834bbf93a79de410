"""`florin trigger`: a test payment, brought to an outcome."""

from __future__ import annotations

import asyncio

from florin.v1 import account_pb2
from florin_client import FlorinError

from florin_server.cli.console import console, fail
from florin_server.cli.operation import misused
from florin_server.cli.webhooks.server import Server

_OUTCOMES = {
    "created": None,
    "succeeded": account_pb2.SIMULATED_OUTCOME_SUCCEEDED,
    "failed": account_pb2.SIMULATED_OUTCOME_FAILED,
    "expired": account_pb2.SIMULATED_OUTCOME_EXPIRED,
    "cancelled": account_pb2.SIMULATED_OUTCOME_CANCELLED,
    "processing": account_pb2.SIMULATED_OUTCOME_STALL,
}
_PRICE = ("iso4217/USD", 1250)


def run(server: Server, outcome: str) -> None:
    """Makes a payment, gives it the outcome, and prints its id."""
    if outcome not in _OUTCOMES:
        misused(f"there is no outcome {outcome}; there are {', '.join(_OUTCOMES)}")
    try:
        console.print(asyncio.run(_trigger(server, outcome)), markup=False)
    except FlorinError as error:
        fail("Not done", error.message)


async def _trigger(server: Server, outcome: str) -> str:
    async with server.client() as client:
        made = await client.merchant.create_payment(amount=_PRICE, reference_id="florin trigger")
        wanted = _OUTCOMES[outcome]
        if wanted is not None:
            await client.admin.simulate_payment(made.payment_id, outcome=wanted)
        return made.payment_id
