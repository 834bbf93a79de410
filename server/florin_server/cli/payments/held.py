"""`florin payments`: what blocked payers paid, held until the operator gives a verdict."""

from __future__ import annotations

from typing import Any

from florin.v1 import held_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute

_COLUMNS = (
    "Held id",
    "Payment id",
    "State",
    "Since",
    "Minor units",
    "Held",
    "Asset",
    "Payer",
    "Why or note",
)
_SAYS = {
    held_pb2.HELD_PAYMENT_STATE_RELEASED: "is released: its payment succeeded.",
    held_pb2.HELD_PAYMENT_STATE_RETURNED: "is returned.",
    held_pb2.HELD_PAYMENT_STATE_KEPT: "is kept.",
}


def show(given: dict[str, Any], *, all_: bool) -> None:
    """Prints held payments."""
    found = ask(given, "ListHeldPayments", held_pb2.ListHeldPaymentsRequest(all=all_))
    if not told(found):
        table(_COLUMNS, map(_row, found.held_payments))


def resolve(
    given: dict[str, Any], held_id: str, verdict: str, words: str, *, even_if_blocked: bool = False
) -> None:
    """Gives a verdict: release, return or keep."""
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=held_id,
        verdict=held_pb2.HeldPaymentVerdict.Value(f"HELD_PAYMENT_VERDICT_{verdict.upper()}"),
        note=words,
        even_if_blocked=even_if_blocked,
    )
    done = ask(given, "ResolveHeldPayment", request, running_only=True)
    if told(done):
        return
    console.print(f"{done.held_id} {_SAYS[done.state]}")
    if done.payout_id:
        note(f"Payout {done.payout_id} takes {done.held_amount} minor units to {done.payer}.")
    elif done.state == held_pb2.HELD_PAYMENT_STATE_RETURNED:
        note("Nothing of it is here: the merchant's own destination has it.")


def _row(one: held_pb2.HeldPayment) -> tuple[str, ...]:
    state = held_pb2.HeldPaymentState.Name(one.state).removeprefix("HELD_PAYMENT_STATE_").lower()
    return (
        one.held_id,
        one.payment_id,
        f"{state}, late" if one.late else state,
        minute(one, "held_at"),
        one.amount,
        one.held_amount,
        one.asset,
        one.payer,
        one.note or one.reason,
    )
