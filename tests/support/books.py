"""Books that have to be exact, and what is in them."""

from __future__ import annotations

from florin.v1 import ledger_pb2
from florin_server.flows.ledger import books
from florin_server.flows.ledger.books import Verdict
from florin_server.store.ledger import ledger

from tests.support.desk import Desk
from tests.support.installation import operator_of
from tests.support.payout_shop import (
    CHAIN,
    ETHER,
)
from tests.support.solana import AT_ONCE
from tests.support.until import until

SETTINGS = {
    "rates": {ETHER: {"GBP": "2500.00"}},
    "fee_fixed": 7,
    "fee_basis_points": 100,
    "solana": AT_ONCE,
}


async def verdicts(desk: Desk) -> set[Verdict]:
    found = await books.check(desk.service.app)
    assert list(found.problems) == []
    assert found.comparison.unread == {}
    return {line.verdict for line in found.comparison.lines}


async def exact(desk: Desk) -> None:
    """Returns once every wallet holds what is booked, to the unit."""
    await until(lambda: verdicts(desk), {Verdict.EXACT})


async def booked(desk: Desk) -> None:
    """Books what is unbooked, so that nothing is left of it for whoever comes next."""
    found = await books.compare(desk.service.app)
    async with operator_of(desk.service) as operator:
        for line in found.lines:
            if line.verdict is Verdict.UNBOOKED:
                account, asset = line.place
                request = ledger_pb2.BookDifferenceRequest(account=account, asset=asset, note="-")
                await operator.ask("BookDifference", request)
    await exact(desk)


async def balance(desk: Desk, account: str, asset: str) -> int:
    return await desk.service.app.store.read(ledger.balance(account, asset))


def treasury_of(desk: Desk) -> str:
    return desk.service.app.rails[CHAIN].treasury
