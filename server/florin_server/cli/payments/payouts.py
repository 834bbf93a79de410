"""`florin payouts`: payouts from the treasuries, for refunds and for money owed to merchants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from florin.v1 import payout_pb2
from florin.v1.money_pb2 import Amount, AmountDisplay

from florin_server.cli.console import (
    console,
    print_hint,
    print_json,
    print_table,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import call_operator, format_minute, usage_error
from florin_server.cli.payments.amounts import format_amount
from florin_server.cli.payments.formatting import confirm

_COLUMNS = ("Payout id", "Kind", "Status", "Since", "Minor units", "Asset", "To", "Problem or tx")


def list_payouts(overrides: dict[str, Any], *, all_: bool) -> None:
    """Print open payouts, or all of them."""
    result = call_operator(overrides, "ListPayouts", payout_pb2.ListPayoutsRequest(all=all_))
    if not print_json(result):
        print_table(_COLUMNS, map(_to_row, result.payouts))


def create_payout(
    overrides: dict[str, Any], merchant_id: str, asset: str, amount: str, *, yes: bool
) -> None:
    """Show a payout, ask, create it, and print its id."""
    number, _, symbol = amount.strip().partition(" ")
    minor = "" if symbol else number
    if minor and not (minor.isascii() and minor.isdecimal() and minor[0] != "0"):
        usage_error(
            f"{amount[:80]!r} is not an amount; write minor units, or digits and a symbol such as "
            "5.00 USDC"
        )
    request = payout_pb2.PreviewPayoutRequest(merchant_id=merchant_id, asset=asset, amount=minor)
    preview = call_operator(overrides, "PreviewPayout", request)
    if symbol:
        request.amount = _to_minor(number, symbol.strip(), preview)
        preview = call_operator(overrides, "PreviewPayout", request)
    for line in _describe(preview):
        print_hint(line)
    if not confirm("Send it?", yes=yes):
        print_hint("No payout was created.")
        raise SystemExit(int(ExitStatus.REFUSED))
    # exactly what was shown, even if the preview has changed since
    created = call_operator(
        overrides,
        "CreatePayout",
        payout_pb2.CreatePayoutRequest(
            merchant_id=merchant_id, asset=asset, amount=preview.amount, account=preview.account
        ),
    )
    if print_json(created):
        return
    console.print(created.payout_id)
    print_hint(f"Florin sends {created.amount} minor units to {created.account}.")


def _describe(preview: payout_pb2.PayoutPreview) -> Iterator[str]:
    mode = "" if preview.live else ", test data"
    yield f"Merchant     {preview.merchant_name} ({preview.merchant_id}){mode}"
    yield f"Sends        {_format_amount(preview, preview.amount)} ({preview.asset})"
    if preview.amount != preview.owed:
        yield f"Owed         {_format_amount(preview, preview.owed)}"
    yield f"Receiver     {preview.account}"
    fee = preview.fee_payer or "an account of Florin (known only while Florin runs)"
    yield f"Network fee  on top, paid by {fee}"
    if preview.problem:
        yield f"Waits        {preview.problem}"


def _format_amount(preview: payout_pb2.PayoutPreview, minor: str) -> str:
    if not preview.symbol:
        return f"{minor} minor units"
    display = AmountDisplay(asset_symbol=preview.symbol, decimals=preview.decimals)
    return format_amount(Amount(unit=f"caip19/{preview.asset}", value=minor, display=display))


def _to_minor(number: str, symbol: str, preview: payout_pb2.PayoutPreview) -> str:
    """Return an amount in minor units; end the program if it is not an amount of the asset."""
    if symbol != preview.symbol:
        expected_symbol = preview.symbol or "not known here: write minor units"
        usage_error(f"{symbol[:80]!r} is not the asset: its symbol is {expected_symbol}")
    form = rf"(\d{{1,60}})(?:\.(\d{{1,{preview.decimals or 1}}}))?"
    match = re.fullmatch(form, number, re.ASCII)
    if match is None or (match[2] and not preview.decimals):
        digits = f"digits, with at most {preview.decimals} decimals"
        usage_error(f"{number[:80]!r} is not an amount; write {digits}")
    minor = int(match[1] + (match[2] or "").ljust(preview.decimals, "0"))
    if not minor:
        usage_error("the amount is zero; write a larger one")
    return str(minor)


def refuse_payout(overrides: dict[str, Any], payout_id: str) -> None:
    """Cancel a payout that is not sent yet; this cannot be undone."""
    refused = call_operator(
        overrides, "RefusePayout", payout_pb2.RefusePayoutRequest(payout_id=payout_id)
    )
    if not print_json(refused):
        console.print(f"{refused.payout_id} is refused.")


def resolve_payout(overrides: dict[str, Any], payout_id: str, *, is_paid: bool) -> None:
    """Finish a payout whose transaction proves no payment, or let Florin pay it again."""
    outcome = payout_pb2.PAYOUT_OUTCOME_PAID if is_paid else payout_pb2.PAYOUT_OUTCOME_NOT_PAID
    request = payout_pb2.ResolvePayoutRequest(payout_id=payout_id, outcome=outcome)
    resolved = call_operator(overrides, "ResolvePayout", request, running_only=True)
    if print_json(resolved):
        return
    what = "is done" if is_paid else "will be paid by another transaction"
    console.print(f"{resolved.payout_id} {what}.")


def _to_row(payout: payout_pb2.Payout) -> tuple[str, ...]:
    return (
        payout.payout_id,
        payout_pb2.PayoutKind.Name(payout.kind).removeprefix("PAYOUT_KIND_").lower(),
        payout_pb2.PayoutStatus.Name(payout.status).removeprefix("PAYOUT_STATUS_").lower(),
        format_minute(payout, "created_at"),
        payout.amount,
        payout.asset,
        payout.account,
        payout.problem or payout.tx_id or "-",
    )
