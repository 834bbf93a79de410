"""`florin payouts`: what leaves the treasuries: refunds, and what merchants are owed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from florin.v1 import payout_pb2
from florin.v1.money_pb2 import Amount, AmountDisplay

from florin_server.cli.console import console, note, table, told
from florin_server.cli.exits import Exit
from florin_server.cli.operation import ask, minute, misused
from florin_server.cli.payments.amounts import shown
from florin_server.cli.payments.words import agreed

_COLUMNS = ("Payout id", "Kind", "Status", "Since", "Minor units", "Asset", "To", "Problem or tx")


def show(given: dict[str, Any], *, all_: bool) -> None:
    """Prints payouts."""
    found = ask(given, "ListPayouts", payout_pb2.ListPayoutsRequest(all=all_))
    if not told(found):
        table(_COLUMNS, map(_row, found.payouts))


def create(given: dict[str, Any], merchant_id: str, asset: str, amount: str, *, yes: bool) -> None:
    """Show what a payout sends, ask, begin it, and print its id."""
    number, _, symbol = amount.strip().partition(" ")
    minor = "" if symbol else number
    if minor and not (minor.isascii() and minor.isdecimal() and minor[0] != "0"):
        misused("the amount is a number of minor units, or digits and a symbol")
    request = payout_pb2.PreviewPayoutRequest(merchant_id=merchant_id, asset=asset, amount=minor)
    preview = ask(given, "PreviewPayout", request)
    if symbol:
        request.amount = _to_minor(number, symbol.strip(), preview)
        preview = ask(given, "PreviewPayout", request)
    for line in _describe(preview):
        note(line)
    if not agreed("Send it?", yes=yes):
        note("Nothing is sent.")
        raise SystemExit(int(Exit.REFUSED))
    # what was shown, whatever has changed since
    made = ask(
        given,
        "CreatePayout",
        payout_pb2.CreatePayoutRequest(
            merchant_id=merchant_id, asset=asset, amount=preview.amount, account=preview.account
        ),
    )
    if told(made):
        return
    console.print(made.payout_id)
    note(f"{made.amount} minor units go to {made.account}.")


def _describe(preview: payout_pb2.PayoutPreview) -> Iterator[str]:
    mode = "" if preview.live else ", test data"
    yield f"Merchant     {preview.merchant_name} ({preview.merchant_id}){mode}"
    yield f"Sends        {_amount(preview, preview.amount)} ({preview.asset})"
    if preview.amount != preview.owed:
        yield f"Owed         {_amount(preview, preview.owed)}"
    yield f"Receiver     {preview.account}"
    fee = preview.fee_payer or "the treasury's side, known while Florin runs"
    yield f"Network fee  on top, paid by {fee}"
    if preview.problem:
        yield f"Waits        {preview.problem}"


def _amount(preview: payout_pb2.PayoutPreview, minor: str) -> str:
    if not preview.symbol:
        return f"{minor} minor units"
    display = AmountDisplay(asset_symbol=preview.symbol, decimals=preview.decimals)
    return shown(Amount(unit=f"caip19/{preview.asset}", value=minor, display=display))


def _to_minor(number: str, symbol: str, preview: payout_pb2.PayoutPreview) -> str:
    """Return the minor units of an amount; ends the program for what is none of the asset."""
    if symbol != preview.symbol:
        known = preview.symbol or "not known here: give minor units"
        misused(f"the asset's symbol is {known}")
    form = rf"(\d{{1,60}})(?:\.(\d{{1,{preview.decimals or 1}}}))?"
    found = re.fullmatch(form, number, re.ASCII)
    if found is None or (found[2] and not preview.decimals):
        digits = f"digits, at most {preview.decimals} behind the point"
        misused(f"{number[:80]!r} is not an amount: {digits}")
    minor = int(found[1] + (found[2] or "").ljust(preview.decimals, "0"))
    if not minor:
        misused("the amount is zero")
    return str(minor)


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
