"""`florin payments held`, `release`, `return` and `keep`: held money of blocked payers."""

from __future__ import annotations

from typing import Any

from florin.v1 import held_pb2

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.operation import call_operator, format_minute

_COLUMNS = (
    "Held id",
    "Payment id",
    "State",
    "Since",
    "Minor units",
    "Held",
    "Asset",
    "Payer",
    "Reason or note",
)
_VERDICT_TEXTS = {
    held_pb2.HELD_PAYMENT_STATE_RELEASED: "is released: its payment succeeded.",
    held_pb2.HELD_PAYMENT_STATE_RETURNED: "is returned.",
    held_pb2.HELD_PAYMENT_STATE_KEPT: "is kept.",
}


def list_held(overrides: dict[str, Any], *, all_: bool) -> None:
    """Print open held payments, or all of them."""
    result = call_operator(
        overrides, "ListHeldPayments", held_pb2.ListHeldPaymentsRequest(all=all_)
    )
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.held_payments))


def resolve_held(
    overrides: dict[str, Any],
    held_id: str,
    verdict: str,
    operator_note: str,
    *,
    ignores_block: bool = False,
) -> None:
    """Resolve a held payment with a verdict: release, return or keep."""
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=held_id,
        verdict=held_pb2.HeldPaymentVerdict.Value(f"HELD_PAYMENT_VERDICT_{verdict.upper()}"),
        note=operator_note,
        even_if_blocked=ignores_block,
    )
    done = call_operator(overrides, "ResolveHeldPayment", request, running_only=True)
    if print_json(done):
        return
    console.print(f"{done.held_id} {_VERDICT_TEXTS[done.state]}")
    if done.payout_id:
        print_hint(f"Payout {done.payout_id} sends {done.held_amount} minor units to {done.payer}.")
    elif done.state == held_pb2.HELD_PAYMENT_STATE_RETURNED:
        print_hint("Florin holds none of this money: it went to the merchant's destination.")


def _to_row(item: held_pb2.HeldPayment) -> tuple[str, ...]:
    state = held_pb2.HeldPaymentState.Name(item.state).removeprefix("HELD_PAYMENT_STATE_").lower()
    return (
        item.held_id,
        item.payment_id,
        f"{state}, late" if item.late else state,
        format_minute(item, "held_at"),
        item.amount,
        item.held_amount,
        item.asset,
        item.payer,
        item.note or item.reason,
    )
