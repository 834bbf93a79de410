"""`florin ledger`: check the ledger, and compare it with the balances on the chains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from florin.v1 import ledger_pb2
from rich.markup import escape

from florin_server.app.home import SetupError, StateFolder
from florin_server.app.operator.client import open_operator
from florin_server.app.operator.error import OperatorError
from florin_server.cli.console import (
    console,
    fail,
    print_hint,
    print_json,
    print_table,
    show_progress,
    to_json_value,
)
from florin_server.cli.exits import ExitStatus
from florin_server.cli.operation import (
    call_operator,
    fail_with_operator_error,
    format_minute,
    run_with_operator,
)
from florin_server.cli.settings import get_settings
from florin_server.settings import Settings

_WALLET_COLUMNS = ("Result", "Booked", "On chain", "Difference", "Asset", "Wallet")
_BALANCE_COLUMNS = ("Balance", "Asset", "Account")
# the most that the service returns at once
PAGE = 1000
_ENTRY_COLUMNS = ("Booked", "Minor units", "Asset", "From", "To", "Journal")
_VERDICT_TEXTS = {
    ledger_pb2.BALANCE_VERDICT_EXACT: "exact",
    ledger_pb2.BALANCE_VERDICT_UNDER_WAY: "in progress",
    ledger_pb2.BALANCE_VERDICT_UNBOOKED: "unbooked",
    ledger_pb2.BALANCE_VERDICT_MISSING: "MISSING",
    ledger_pb2.BALANCE_VERDICT_NOT_BEGUN: "not started",
    ledger_pb2.BALANCE_VERDICT_NOT_READ: "not read",
}


def check_ledger(overrides: dict[str, Any]) -> None:
    """Print the comparison; exit with 1 unless the ledger balances and no money is missing."""
    try:
        settings = get_settings(overrides)
        with show_progress("Comparing the ledger with the chains"):
            response = asyncio.run(run_check(settings))
    except OperatorError as error:
        fail_with_operator_error(error)
    except (SetupError, OSError) as error:
        fail("Not done", error)
    unread = [
        f"{unread_chain.chain_id}: the balances could not be read"
        for unread_chain in response.unread
        if not unread_chain.resting
    ]
    wrong = [*response.problems, *list_missing(response), *unread]
    if not print_json({**to_json_value(response), "wrong": wrong}):
        _print_check(response, wrong)
    if wrong:
        raise SystemExit(int(ExitStatus.REFUSED))


def _print_check(response: ledger_pb2.CheckLedgerResponse, problems: list[str]) -> None:
    print_table(_WALLET_COLUMNS, map(_to_wallet_row, response.wallets))
    for unread_chain in response.unread:
        print_hint(f"{unread_chain.chain_id} was not compared: {unread_chain.problem}")
    for problem in problems:
        console.print("[red]\u2717[/]", escape(problem), markup=True)
    if not problems:
        console.print("[green]\u2713[/] the ledger balances", markup=True)


async def run_check(settings: Settings) -> ledger_pb2.CheckLedgerResponse:
    """Return the check of the ledger: from the service, or from store and chains without it."""
    home = StateFolder(settings.home)
    async with open_operator(home, lambda: settings, with_chains=True, read_only=True) as service:
        response: ledger_pb2.CheckLedgerResponse = await service.call(
            "CheckLedger", ledger_pb2.CheckLedgerRequest()
        )
    return response


def list_missing(response: ledger_pb2.CheckLedgerResponse) -> Iterator[str]:
    """Yield a sentence for each wallet that holds less than the ledger says."""
    for balance in response.wallets:
        if balance.verdict == ledger_pb2.BALANCE_VERDICT_MISSING:
            yield (
                f"{balance.account} has {balance.held} minor units of {balance.asset}, but the "
                f"ledger has "
                f"{balance.booked}"
            )


def book_adjustment(
    overrides: dict[str, Any],
    account: str,
    asset: str,
    operator_note: str,
    merchant_id: str | None,
) -> None:
    """Book the difference of a wallet, and print it; with `merchant_id` that merchant paid it."""
    request = ledger_pb2.BookDifferenceRequest(
        account=account, asset=asset, note=operator_note, merchant_id=merchant_id
    )
    done = call_operator(overrides, "BookDifference", request, running_only=True)
    if not print_json(done):
        console.print(done.amount)


def balances(values: dict[str, Any]) -> None:
    """Print the balances of all accounts."""
    rows = run_with_operator(values, list_balances)
    if not print_json({"balances": rows}):
        print_table(
            _BALANCE_COLUMNS, [(balance.amount, balance.asset, balance.account) for balance in rows]
        )


async def list_balances(service: Any) -> list[ledger_pb2.LedgerBalance]:
    """Return the balances of all pages."""
    balances_: list[ledger_pb2.LedgerBalance] = []
    request = ledger_pb2.ListBalancesRequest(limit=PAGE)
    while True:
        page = await service.call("ListBalances", request)
        balances_ += page.balances
        if not page.next_cursor:
            return balances_
        request.cursor = page.next_cursor


def list_entries(overrides: dict[str, Any], payment_id: str) -> None:
    """Print the book entries of a payment."""
    result = call_operator(
        overrides, "ListEntries", ledger_pb2.ListEntriesRequest(payment_id=payment_id)
    )
    if not print_json(result):
        print_table(_ENTRY_COLUMNS, map(_to_entry_row, result.entries))


def _to_wallet_row(balance: ledger_pb2.WalletBalance) -> tuple[str, ...]:
    read = balance.HasField("held")
    difference = f"{int(balance.held) - int(balance.booked):+d}" if read else "-"
    held = balance.held if read else "-"
    return (
        _VERDICT_TEXTS[balance.verdict],
        balance.booked,
        held,
        difference,
        balance.asset,
        balance.account,
    )


def _to_entry_row(entry: ledger_pb2.LedgerEntry) -> tuple[str, ...]:
    at = format_minute(entry, "booked_at")
    return (at, entry.amount, entry.asset, entry.credit, entry.debit, entry.journal)
