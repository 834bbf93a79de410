"""`florin payouts`: what leaves the treasuries: refunds, and what merchants are owed."""

from __future__ import annotations

from typing import Any

from florin.v1 import payout_pb2

from florin_server.cli.console import console, note, table, told
from florin_server.cli.operation import ask, minute, misused

_COLUMNS = ("Payout id", "Kind", "Status", "Since", "Minor units", "Asset", "To", "Problem or tx")


def show(given: dict[str, Any], *, all_: bool) -> None:
    """Prints payouts."""
    found = ask(given, "ListPayouts", payout_pb2.ListPayoutsRequest(all=all_))
    if not told(found):
        table(_COLUMNS, map(_row, found.payouts))


def create(given: dict[str, Any], merchant_id: str, asset: str, amount: str) -> None:
    """Begins the payout of what a merchant is owed, and prints its id."""
    if amount and not (amount.isascii() and amount.isdecimal() and amount[0] != "0"):
        misused("the amount is a number of minor units")
    request = payout_pb2.CreatePayoutRequest(merchant_id=merchant_id, asset=asset, amount=amount)
    made = ask(given, "CreatePayout", request)
    if told(made):
        return
    console.print(made.payout_id)
    note(f"{made.amount} minor units go to {made.account}.")


def refuse(given: dict[str, Any], payout_id: str) -> None:
    """Calls a waiting payout off for good."""
    refused = ask(given, "RefusePayout", payout_pb2.RefusePayoutRequest(payout_id=payout_id))
    if not told(refused):
        console.print(f"{refused.payout_id} is refused.")


def resolve(given: dict[str, Any], payout_id: str, *, paid: bool) -> None:
    """Ends a payout whose transaction does not prove it, or has it paid by another one."""
    outcome = payout_pb2.PAYOUT_OUTCOME_PAID if paid else payout_pb2.PAYOUT_OUTCOME_NOT_PAID
    request = payout_pb2.ResolvePayoutRequest(payout_id=payout_id, outcome=outcome)
    resolved = ask(given, "ResolvePayout", request, running_only=True)
    if told(resolved):
        return
    what = "is done" if paid else "waits to be paid by another transaction"
    console.print(f"{resolved.payout_id} {what}.")


def _row(one: payout_pb2.Payout) -> tuple[str, ...]:
    return (
        one.payout_id,
        payout_pb2.PayoutKind.Name(one.kind).removeprefix("PAYOUT_KIND_").lower(),
        payout_pb2.PayoutStatus.Name(one.status).removeprefix("PAYOUT_STATUS_").lower(),
        minute(one, "created_at"),
        one.amount,
        one.asset,
        one.account,
        one.problem or one.tx_id or "-",
    )
