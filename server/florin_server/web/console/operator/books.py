"""The books: balances, and wallets compared with the chains."""

from __future__ import annotations

from florin.v1 import ledger_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.web.console.site import Visit

PATH = "/console/books"


async def show(visit: Visit) -> PlainAnswer:
    """Balances of all accounts; proven and compared with every chain if that is asked for."""
    checked = None
    if visit.query.get("check") == "1":
        checked = await visit.ask("OperatorService.CheckLedger", ledger_pb2.CheckLedgerRequest())
    found = await visit.ask("OperatorService.ListBalances", ledger_pb2.ListBalancesRequest())
    return visit.page("operator/books", "Books", balances=found.balances, checked=checked)


async def book(visit: Visit) -> PlainAnswer:
    """Books the difference of a wallet as the operator's own doing."""
    form = visit.form
    request = ledger_pb2.BookDifferenceRequest(
        account=form.text("account"), asset=form.text("asset"), note=form.text("note")
    )
    await visit.ask("OperatorService.BookDifference", request)
    return visit.see(PATH)
