"""`florin payments held`, `release`, `return` and `keep`: held money of blocked payers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from florin.v1 import address_pb2, held_pb2

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
_CLAIM_COLUMNS = ("Held id", "Claim id", "Since", "Account", "Message")
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
    if print_json(result):
        return
    print_table(_COLUMNS, map(_to_row, result.held_payments))
    if claims := list(_list_open_claims(result.held_payments)):
        print_table(_CLAIM_COLUMNS, claims)
        print_hint("Anyone with the payment's link can claim: ask the merchant before you return.")


def resolve_held(
    overrides: dict[str, Any],
    held_id: str,
    verdict: str,
    operator_note: str,
    *,
    ignores_block: bool = False,
    return_to: str | None = None,
) -> None:
    """Resolve a held payment with a verdict: release, return or keep."""
    request = held_pb2.ResolveHeldPaymentRequest(
        held_id=held_id,
        verdict=held_pb2.HeldPaymentVerdict.Value(f"HELD_PAYMENT_VERDICT_{verdict.upper()}"),
        note=operator_note,
        even_if_blocked=ignores_block,
        return_to=return_to,
    )
    done = call_operator(overrides, "ResolveHeldPayment", request, running_only=True)
    if print_json(done):
        return
    console.print(f"{done.held_id} {_VERDICT_TEXTS[done.state]}")
    if done.payout_id:
        receiver = return_to or done.payer
        print_hint(f"Payout {done.payout_id} sends {done.held_amount} minor units to {receiver}.")
    elif done.state == held_pb2.HELD_PAYMENT_STATE_RETURNED:
        print_hint("Florin holds none of this money: it went to the merchant's destination.")


def recover(overrides: dict[str, Any], payment_id: str, chain_id: str, asset: str) -> None:
    """Send home what is left of an asset at the addresses of a payment."""
    request = address_pb2.RecoverAddressRequest(
        payment_id=payment_id, chain_id=chain_id, asset=asset
    )
    result = call_operator(overrides, "RecoverAddress", request, running_only=True)
    if print_json(result):
        return
    for address in result.addresses:
        console.print(address)
    print_hint("Florin moves what is there, and returns it or holds it: `florin payments held`.")


def _list_open_claims(items: Iterable[held_pb2.HeldPayment]) -> Iterator[tuple[str, ...]]:
    for item in items:
        for claim in item.claims:
            if claim.state == held_pb2.DEPOSIT_CLAIM_STATE_OPEN:
                yield (
                    item.held_id,
                    claim.claim_id,
                    format_minute(claim, "created_at"),
                    claim.account,
                    claim.message,
                )


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
