"""The operator's calls about the books."""

from __future__ import annotations

from typing import Any

from florin.v1 import ledger_pb2

from florin_server.api.context import ApiContext
from florin_server.api.server.timestamps import to_timestamp
from florin_server.domain.ledger.accounts import LedgerAccountKind
from florin_server.money.ledger.service import books
from florin_server.money.ledger.service.books import ReconciliationLine, ReconciliationStatus
from florin_server.money.ledger.store.books import LedgerEntry

_VERDICT_NUMBERS = {
    verdict: ledger_pb2.BalanceVerdict.Value(f"BALANCE_VERDICT_{verdict.upper()}")
    for verdict in ReconciliationStatus
}
_KIND = {
    ledger_pb2.AccountKind.Value(f"ACCOUNT_KIND_{kind.upper()}"): kind for kind in LedgerAccountKind
}


class LedgerCalls:
    """Ledger calls: check, correct, list."""

    _app: ApiContext

    async def CheckLedger(
        self, request: ledger_pb2.CheckLedgerRequest, context: Any
    ) -> ledger_pb2.CheckLedgerResponse:
        """Check the ledger, and compare it with the chains."""
        check = await books.check(self._app)
        unread = check.reconciliation.read_failures.items()
        return ledger_pb2.CheckLedgerResponse(
            problems=check.problems,
            wallets=[_to_wallet_balance(line) for line in check.reconciliation.lines],
            unread=[
                ledger_pb2.UnreadChain(
                    chain_id=chain_id, problem=why, resting=chain_id not in self._app.rails
                )
                for chain_id, why in unread
            ],
        )

    async def BookDifference(
        self, request: ledger_pb2.BookDifferenceRequest, context: Any
    ) -> ledger_pb2.BookDifferenceResponse:
        """Book the difference of a wallet as a deposit, or as a withdrawal."""
        merchant_id = request.merchant_id if request.HasField("merchant_id") else None
        line = await books.record_adjustment(
            self._app, request.account, request.asset, request.note, merchant_id
        )
        return ledger_pb2.BookDifferenceResponse(amount=str(line.difference))

    async def ListBalances(
        self, request: ledger_pb2.ListBalancesRequest, context: Any
    ) -> ledger_pb2.ListBalancesResponse:
        """Return a page of account balances."""
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
        """List the ledger entries of a payment."""
        entries = await books.list_entries(self._app, request.payment_id)
        return ledger_pb2.ListEntriesResponse(entries=[_to_entry(entry) for entry in entries])


def _to_wallet_balance(line: ReconciliationLine) -> ledger_pb2.WalletBalance:
    account, asset = line.wallet
    return ledger_pb2.WalletBalance(
        account=account,
        asset=asset,
        booked=str(line.booked_balance),
        held=None if line.chain_balance is None else str(line.chain_balance),
        coming=str(line.incoming),
        going=str(line.outgoing),
        verdict=_VERDICT_NUMBERS[line.status],
    )


def _to_entry(entry: LedgerEntry) -> ledger_pb2.LedgerEntry:
    return ledger_pb2.LedgerEntry(
        journal=entry.key,
        booked_at=to_timestamp(entry.at_us),
        tx_id=entry.tx_hash or "",
        debit=entry.posting.debit,
        credit=entry.posting.credit,
        asset=entry.posting.asset,
        amount=str(entry.posting.amount),
    )
