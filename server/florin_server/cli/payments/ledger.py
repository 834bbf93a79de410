"""`florin ledger`: the books, proven and compared with what the wallets hold on the chains."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from florin.v1 import ledger_pb2
from rich.markup import escape

from florin_server.boot.home import Home, Refused
from florin_server.boot.operator.client import operator
from florin_server.boot.operator.error import OperatorError
from florin_server.cli.console import console, fail, note, plain, table, told, working
from florin_server.cli.exits import Exit
from florin_server.cli.operation import ask, ask_in_turn, minute, refused
from florin_server.cli.settings import settings_of
from florin_server.config import Settings

_WALLETS = ("Books and chain", "Booked", "On chain", "Difference", "Asset", "Wallet")
_BALANCES = ("Balance", "Asset", "Account")
# as many as the service answers at once
PAGE = 1000
_ENTRIES = ("Booked", "Minor units", "Asset", "From", "To", "Journal")
_WORDS = {
    ledger_pb2.BALANCE_VERDICT_EXACT: "exact",
    ledger_pb2.BALANCE_VERDICT_UNDER_WAY: "under way",
    ledger_pb2.BALANCE_VERDICT_UNBOOKED: "unbooked",
    ledger_pb2.BALANCE_VERDICT_MISSING: "MISSING",
    ledger_pb2.BALANCE_VERDICT_NOT_BEGUN: "not begun",
    ledger_pb2.BALANCE_VERDICT_NOT_READ: "not read",
}


def check(given: dict[str, Any]) -> None:
    """Prints how the books compare; exits with 1 unless they are whole and no money is missing."""
    try:
        settings = settings_of(given)
        with working("Comparing the books with the chains"):
            found = asyncio.run(asked(settings))
    except OperatorError as error:
        refused(error)
    except (Refused, OSError) as error:
        fail("Not done", error)
    unread = [f"{one.chain_id} did not tell" for one in found.unread if not one.resting]
    wrong = [*found.problems, *missing(found), *unread]
    if not told({**plain(found), "wrong": wrong}):
        _show(found, wrong)
    if wrong:
        raise SystemExit(int(Exit.REFUSED))


def _show(found: ledger_pb2.CheckLedgerResponse, wrong: list[str]) -> None:
    table(_WALLETS, map(_wallet, found.wallets))
    for one in found.unread:
        note(f"{one.chain_id} was not compared: {one.problem}")
    for problem in wrong:
        console.print("[red]\u2717[/]", escape(problem), markup=True)
    if not wrong:
        console.print("[green]\u2713[/] the books are whole", markup=True)


async def asked(settings: Settings) -> ledger_pb2.CheckLedgerResponse:
    """How the books stand, as the service tells it, or the store and the chains without it."""
    home = Home(settings.home)
    async with operator(home, lambda: settings, chains=True, reads=True) as service:
        found: ledger_pb2.CheckLedgerResponse = await service.ask(
            "CheckLedger", ledger_pb2.CheckLedgerRequest()
        )
    return found


def missing(found: ledger_pb2.CheckLedgerResponse) -> Iterator[str]:
    """What wallets lack, in sentences."""
    for one in found.wallets:
        if one.verdict == ledger_pb2.BALANCE_VERDICT_MISSING:
            yield (
                f"{one.account} holds {one.held} minor units of {one.asset}; {one.booked} are "
                "booked"
            )


def book(given: dict[str, Any], account: str, asset: str, words: str) -> None:
    """Books the difference of a wallet, and prints it."""
    request = ledger_pb2.BookDifferenceRequest(account=account, asset=asset, note=words)
    done = ask(given, "BookDifference", request, running_only=True)
    if not told(done):
        console.print(done.amount)


def balances(given: dict[str, Any]) -> None:
    """Prints the balances of all accounts."""
    rows = ask_in_turn(given, list_balances)
    if not told({"balances": rows}):
        table(_BALANCES, [(balance.amount, balance.asset, balance.account) for balance in rows])


async def list_balances(service: Any) -> list[ledger_pb2.LedgerBalance]:
    """Return the balances of all pages."""
    balances_: list[ledger_pb2.LedgerBalance] = []
    request = ledger_pb2.ListBalancesRequest(limit=PAGE)
    while True:
        page = await service.ask("ListBalances", request)
        balances_ += page.balances
        if not page.next_cursor:
            return balances_
        request.cursor = page.next_cursor


def entries(given: dict[str, Any], payment_id: str) -> None:
    """Prints what was booked for a payment."""
    found = ask(given, "ListEntries", ledger_pb2.ListEntriesRequest(payment_id=payment_id))
    if not told(found):
        table(_ENTRIES, map(_entry, found.entries))


def _wallet(one: ledger_pb2.WalletBalance) -> tuple[str, ...]:
    read = one.HasField("held")
    difference = f"{int(one.held) - int(one.booked):+d}" if read else "-"
    held = one.held if read else "-"
    return (_WORDS[one.verdict], one.booked, held, difference, one.asset, one.account)


def _entry(one: ledger_pb2.LedgerEntry) -> tuple[str, ...]:
    at = minute(one, "booked_at")
    return (at, one.amount, one.asset, one.credit, one.debit, one.journal)
