"""Checks that the books are exact."""

from __future__ import annotations

from florin.v1 import ledger_pb2
from florin_server.money.ledger.service import books
from florin_server.money.ledger.service.books import ReconciliationStatus
from florin_server.money.ledger.store import ledger

from tests.support.installation import open_operator
from tests.support.payout_merchant import (
    CHAIN,
    ETHER,
)
from tests.support.service_harness import ServiceHarness
from tests.support.solana import INSTANT_SOLANA
from tests.support.until import wait_until

SETTINGS = {
    "rates": {ETHER: {"GBP": "2500.00"}},
    "fee_fixed": 7,
    "fee_basis_points": 100,
    "solana": INSTANT_SOLANA,
}


async def list_verdicts(desk: ServiceHarness) -> set[ReconciliationStatus]:
    check = await books.check(desk.service.app)
    assert list(check.problems) == []
    assert check.reconciliation.read_failures == {}
    return {line.status for line in check.reconciliation.lines}


async def wait_exact(desk: ServiceHarness) -> None:
    """Return once every wallet has the booked amount, to the unit."""
    await wait_until(lambda: list_verdicts(desk), {ReconciliationStatus.EXACT})


async def book_all(desk: ServiceHarness) -> None:
    """Book all unbooked money, so that later tests start with exact books."""
    reconciliation = await books.reconcile(desk.service.app)
    async with open_operator(desk.service) as operator:
        for line in reconciliation.lines:
            if line.status is ReconciliationStatus.UNBOOKED:
                account, asset = line.wallet
                request = ledger_pb2.BookDifferenceRequest(account=account, asset=asset, note="-")
                await operator.call("BookDifference", request)
    await wait_exact(desk)


async def get_balance(desk: ServiceHarness, account: str, asset: str) -> int:
    return await desk.service.app.store.read(ledger.get_balance(account, asset))


def get_treasury(desk: ServiceHarness) -> str:
    return desk.service.app.rails[CHAIN].treasury
