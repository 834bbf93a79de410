"""The operator's calls about the books."""

from __future__ import annotations

from typing import Any

from florin.v1 import ledger_pb2

from florin_server.domain.ledger.accounts import Kind
from florin_server.flows.app import App
from florin_server.flows.ledger import books
from florin_server.flows.ledger.books import Line, Verdict
from florin_server.rpc.server.timestamps import timestamp
from florin_server.store.ledger.books import Entry

_VERDICT = {
    verdict: ledger_pb2.BalanceVerdict.Value(f"BALANCE_VERDICT_{verdict.upper()}")
    for verdict in Verdict
}
_KIND = {ledger_pb2.AccountKind.Value(f"ACCOUNT_KIND_{kind.upper()}"): kind for kind in Kind}


class LedgerCalls:
    """The books: proven, compared, corrected, listed."""

    _app: App

    async def CheckLedger(
        self, request: ledger_pb2.CheckLedgerRequest, context: Any
    ) -> ledger_pb2.CheckLedgerResponse:
        """Proves the books, and compares them with the chains."""
        found = await books.check(self._app)
        unread = found.comparison.unread.items()
        return ledger_pb2.CheckLedgerResponse(
            problems=found.problems,
            wallets=[_wallet(one) for one in found.comparison.lines],
            unread=[
                ledger_pb2.UnreadChain(
                    chain_id=one, problem=why, resting=one not in self._app.rails
                )
                for one, why in unread
            ],
        )

    async def BookDifference(
        self, request: ledger_pb2.BookDifferenceRequest, context: Any
    ) -> ledger_pb2.BookDifferenceResponse:
        """Books the difference of a wallet as the operator's own doing."""
        line = await books.book(self._app, request.account, request.asset, request.note)
        return ledger_pb2.BookDifferenceResponse(amount=str(line.difference))

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, context: Any
    ) -> ledger_pb2.ListBalancesResponse:
        """Return a page of the balances of accounts."""
        page = await books.list_balances(
            self._app,
            _KIND.get(request.kind),
            request.cursor,
            request.limit if request.HasField("limit") else None,
        )
        return ledger_pb2.ListBalancesResponse(
            balances=[
                ledger_pb2.LedgerBalance(account=account, asset=asset, amount=str(amount))
                for account, asset, amount in page.balances
            ],
            next_cursor=page.next_cursor,
        )

    async def ListEntries(
        self, request: ledger_pb2.ListEntriesRequest, context: Any
    ) -> ledger_pb2.ListEntriesResponse:
        """Lists what was booked for a payment."""
        found = await books.entries(self._app, request.payment_id)
        return ledger_pb2.ListEntriesResponse(entries=[_entry(one) for one in found])


def _wallet(line: Line) -> ledger_pb2.WalletBalance:
    account, asset = line.place
    return ledger_pb2.WalletBalance(
        account=account,
        asset=asset,
        booked=str(line.booked),
        held=None if line.held is None else str(line.held),
        coming=str(line.coming),
        going=str(line.going),
        verdict=_VERDICT[line.verdict],
    )


def _entry(one: Entry) -> ledger_pb2.LedgerEntry:
    return ledger_pb2.LedgerEntry(
        journal=one.key,
        booked_at=timestamp(one.at_us),
        tx_id=one.tx_hash or "",
        debit=one.posting.debit,
        credit=one.posting.credit,
        asset=one.posting.asset,
        amount=str(one.posting.amount),
    )
