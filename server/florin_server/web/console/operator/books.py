"""The books: balances, and wallets compared with the chains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from florin.v1 import ledger_pb2
from florin_gateway.plain import PlainAnswer

from florin_server.domain.errors import invalid
from florin_server.domain.ledger.accounts import SINGLE, Kind, kind_of
from florin_server.web.console.fields import Form, grouped
from florin_server.web.console.site import Visit

PATH = "/console/books"
# balances in one answer of the service: as many as it gives
PAGE = 1000
# rows of a page of accounts
ACCOUNTS_SHOWN = 50
# kinds that grow with the number of buyers and merchants: one row for each asset
_MANY = (Kind.EXTERNAL, Kind.MERCHANT, Kind.HELD)


@dataclass(frozen=True, slots=True)
class BalanceLine:
    """A row of the books: an account, or all accounts of a kind, in one asset.

    `accounts` counts those of a kind; None for one account. `link` lists them.
    """

    name: str
    asset: str
    amount: str
    accounts: int | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class AccountList:
    """A page of the accounts of one kind, by an asset or a part of their name.

    `found` counts those of all pages; `before` and `after` are links to the neighbouring pages.
    """

    kind: str
    search: str
    asset: str
    found: int
    lines: list[BalanceLine]
    before: str = ""
    after: str = ""


async def show(visit: Visit) -> PlainAnswer:
    """Balances of all accounts; proven and compared with every chain if that is asked for."""
    checked = None
    if visit.query.get("check") == "1":
        checked = await visit.ask("OperatorService.CheckLedger", ledger_pb2.CheckLedgerRequest())
    balances = await all_balances(visit)
    query = grouped(visit.request.query)
    return visit.page(
        "operator/books",
        "Books",
        lines=summarize(balances),
        listed=list_accounts(balances, query) if query.text("kind") else None,
        kinds=_MANY,
        checked=checked,
    )


async def all_balances(
    visit: Visit, kind: ledger_pb2.AccountKind.ValueType = ledger_pb2.ACCOUNT_KIND_UNSPECIFIED
) -> list[ledger_pb2.LedgerBalance]:
    """Return the balances of all accounts, or of those of a kind, from every page of the list."""
    balances: list[ledger_pb2.LedgerBalance] = []
    request = ledger_pb2.ListBalancesRequest(limit=PAGE, kind=kind)
    while True:
        page = await visit.ask("OperatorService.ListBalances", request)
        balances += page.balances
        if not page.next_cursor:
            return balances
        request.cursor = page.next_cursor


def summarize(balances: Iterable[ledger_pb2.LedgerBalance]) -> list[BalanceLine]:
    """Return the balances with one row per asset for buyers, merchants and held payers.

    Sums are of one asset each.
    """
    lines: list[BalanceLine] = []
    sums: dict[tuple[Kind, str], tuple[int, int]] = {}
    for one in balances:
        kind = kind_of(one.account)
        if kind in _MANY and one.account not in SINGLE:
            count, total = sums.get((kind, one.asset), (0, 0))
            sums[kind, one.asset] = count + 1, total + int(one.amount)
        else:
            lines.append(BalanceLine(one.account, one.asset, one.amount))
    for (kind, asset), (count, total) in sorted(sums.items()):
        link = _link(kind=kind, asset=asset)
        lines.append(BalanceLine(kind, asset, str(total), count, link))
    return sorted(lines, key=lambda line: (line.name, line.asset))


def list_accounts(balances: Iterable[ledger_pb2.LedgerBalance], query: Form) -> AccountList:
    """Return a page of the accounts of a kind. FlorinError for a kind or page that is not there."""
    kind, search, asset = (query.text(name) for name in ("kind", "account", "asset"))
    page = query.text("page") or "1"
    if kind not in _MANY:
        raise invalid("kind", "is unknown")
    if not (page.isascii() and page.isdecimal() and int(page[:9]) > 0):
        raise invalid("page", "is no number of a page")
    found = [
        BalanceLine(one.account, one.asset, one.amount)
        for one in balances
        if kind_of(one.account) == kind
        and one.account not in SINGLE
        and search.lower() in one.account.lower()
        and asset in {"", one.asset}
    ]
    number = int(page[:9])
    start = (number - 1) * ACCOUNTS_SHOWN
    given = {"kind": kind, "account": search, "asset": asset}
    return AccountList(
        kind=kind,
        search=search,
        asset=asset,
        found=len(found),
        lines=found[start : start + ACCOUNTS_SHOWN],
        before=_link(**given, page=str(number - 1)) if number > 1 else "",
        after=_link(**given, page=str(number + 1)) if start + ACCOUNTS_SHOWN < len(found) else "",
    )


def _link(**query: str) -> str:
    return f"{PATH}?{urlencode({name: value for name, value in query.items() if value})}"


async def book(visit: Visit) -> PlainAnswer:
    """Books the difference of a wallet as the operator's own doing."""
    form = visit.form
    request = ledger_pb2.BookDifferenceRequest(
        account=form.text("account"), asset=form.text("asset"), note=form.text("note")
    )
    await visit.ask("OperatorService.BookDifference", request)
    return visit.see(PATH)
