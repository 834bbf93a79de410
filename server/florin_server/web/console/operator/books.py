"""The ledger: balances, and wallets compared with the chains."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlencode

from florin.v1 import ledger_pb2
from grpc_rest_gateway.plain import PlainResponse

from florin_server.domain.ledger.accounts import SINGLE_ACCOUNTS, LedgerAccountKind, parse_kind
from florin_server.web.console.confirmation import ActionConfirmation
from florin_server.web.console.fields import FormValues, group_fields
from florin_server.web.console.refusals import ConsoleError
from florin_server.web.console.site import ConsoleRequest

PATH = "/console/books"
# the most balances in one answer of the API
PAGE = 1000
# rows of a page of accounts
ACCOUNTS_SHOWN = 50
# kinds with an account for each buyer or merchant, shown as one row for each asset
_GROUPED_KINDS = (
    LedgerAccountKind.EXTERNAL,
    LedgerAccountKind.MERCHANT,
    LedgerAccountKind.HELD,
    LedgerAccountKind.STRAY,
)


@dataclass(frozen=True, slots=True)
class BalanceLine:
    """The balance of an account, or of all accounts of a kind, in one asset.

    `accounts` counts those of a kind; None for one account. `link` lists them.
    """

    name: str
    asset: str
    amount: str
    accounts: int | None = None
    link: str = ""


@dataclass(frozen=True, slots=True)
class LedgerAccountList:
    """A page of the accounts of one kind, by an asset or a part of their name.

    `total_count` counts those of all pages; `before` and `after` link to the neighboring pages.
    """

    kind: str
    search: str
    asset: str
    total_count: int
    lines: list[BalanceLine]
    before: str = ""
    after: str = ""


# in the order of the page; "books." and the kind is the key of the heading
GROUPS = (
    LedgerAccountKind.WALLET,
    LedgerAccountKind.MERCHANT,
    LedgerAccountKind.HELD,
    LedgerAccountKind.STRAY,
    LedgerAccountKind.INCOME,
    LedgerAccountKind.EXPENSE,
    LedgerAccountKind.EXTERNAL,
)


@dataclass(frozen=True, slots=True)
class LedgerGroup:
    """The balances of one kind of account; `totals` are of assets that several lines have."""

    kind: LedgerAccountKind
    lines: list[BalanceLine]
    totals: list[BalanceLine]


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the balances of all accounts; on request, verify them against every chain."""
    checked = None
    if console_request.query.get("check") == "1":
        checked = await console_request.call(
            "OperatorService.CheckLedger", ledger_pb2.CheckLedgerRequest()
        )
    balances = await all_balances(console_request)
    query = group_fields(console_request.request.query)
    return console_request.render_page(
        "operator/books",
        console_request.texts.plain("nav.books"),
        groups=group_lines(summarize_balances(balances)),
        listed=list_accounts(balances, query) if query.text("kind") else None,
        kinds=_GROUPED_KINDS,
        checked=checked,
    )


async def all_balances(
    console_request: ConsoleRequest,
    kind: ledger_pb2.AccountKind.ValueType = ledger_pb2.ACCOUNT_KIND_UNSPECIFIED,
) -> list[ledger_pb2.LedgerBalance]:
    """Return the balances of all accounts, or of those of a kind, from every page of the list."""
    balances: list[ledger_pb2.LedgerBalance] = []
    request = ledger_pb2.ListBalancesRequest(limit=PAGE, kind=kind)
    while True:
        page = await console_request.call("OperatorService.ListBalances", request)
        balances += page.balances
        if not page.next_cursor:
            return balances
        request.cursor = page.next_cursor


def summarize_balances(balances: Iterable[ledger_pb2.LedgerBalance]) -> list[BalanceLine]:
    """Return the balances with one row per asset for buyers, merchants and held payers.

    Sums are of one asset each.
    """
    lines: list[BalanceLine] = []
    sums: dict[tuple[LedgerAccountKind, str], tuple[int, int]] = {}
    for ledger_balance in balances:
        kind = parse_kind(ledger_balance.account)
        if kind in _GROUPED_KINDS and ledger_balance.account not in SINGLE_ACCOUNTS:
            count, total = sums.get((kind, ledger_balance.asset), (0, 0))
            sums[kind, ledger_balance.asset] = count + 1, total + int(ledger_balance.amount)
        else:
            lines.append(
                BalanceLine(ledger_balance.account, ledger_balance.asset, ledger_balance.amount)
            )
    for (kind, asset), (count, total) in sorted(sums.items()):
        link = _build_link(kind=kind, asset=asset)
        lines.append(BalanceLine(kind, asset, str(total), count, link))
    return sorted(lines, key=lambda line: (line.name, line.asset))


def group_lines(lines: Iterable[BalanceLine]) -> list[LedgerGroup]:
    """Return the lines by kind of account; a kind with several lines of an asset has its total."""
    by_kind: dict[LedgerAccountKind, list[BalanceLine]] = {}
    for line in lines:
        kind = LedgerAccountKind(line.name) if line.link else parse_kind(line.name)
        by_kind.setdefault(kind, []).append(line)
    return [
        LedgerGroup(kind, by_kind[kind], _sum_lines(by_kind[kind]))
        for kind in GROUPS
        if kind in by_kind
    ]


def _sum_lines(lines: Iterable[BalanceLine]) -> list[BalanceLine]:
    amounts: dict[str, list[int]] = {}
    for line in lines:
        amounts.setdefault(line.asset, []).append(int(line.amount))
    return [
        BalanceLine("", asset, str(sum(values)))
        for asset, values in sorted(amounts.items())
        if len(values) > 1
    ]


def list_accounts(
    balances: Iterable[ledger_pb2.LedgerBalance], query: FormValues
) -> LedgerAccountList:
    """Return a page of the accounts of a kind; ConsoleError for an unknown kind or page."""
    kind, search, asset = (query.text(name) for name in ("kind", "account", "asset"))
    page = query.text("page") or "1"
    if kind not in _GROUPED_KINDS:
        raise ConsoleError(400, "fault.unknown_choice", field="kind")
    if not (page.isascii() and page.isdecimal() and int(page[:9]) > 0):
        raise ConsoleError(400, "fault.page_number")
    lines = [
        BalanceLine(ledger_balance.account, ledger_balance.asset, ledger_balance.amount)
        for ledger_balance in balances
        if parse_kind(ledger_balance.account) == kind
        and ledger_balance.account not in SINGLE_ACCOUNTS
        and search.lower() in ledger_balance.account.lower()
        and asset in {"", ledger_balance.asset}
    ]
    number = int(page[:9])
    start = (number - 1) * ACCOUNTS_SHOWN
    filters = {"kind": kind, "account": search, "asset": asset}
    return LedgerAccountList(
        kind=kind,
        search=search,
        asset=asset,
        total_count=len(lines),
        lines=lines[start : start + ACCOUNTS_SHOWN],
        before=_build_link(**filters, page=str(number - 1)) if number > 1 else "",
        after=_build_link(**filters, page=str(number + 1))
        if start + ACCOUNTS_SHOWN < len(lines)
        else "",
    )


def _build_link(**query: str) -> str:
    return f"{PATH}?{urlencode({name: value for name, value in query.items() if value})}"


async def confirm_difference(console_request: ConsoleRequest) -> ActionConfirmation:
    """Ask before a difference is booked."""
    form, texts = console_request.form, console_request.texts
    return ActionConfirmation(
        title=texts.plain("books.deposit.ask"),
        button=texts.plain("books.deposit.button"),
        back=f"{PATH}?check=1",
        facts=(
            (texts.plain("account"), form.text("account")),
            (texts.plain("asset"), console_request.formatter.asset_name(form.text("asset"))),
            (texts.plain("note"), form.text("note") or texts.plain("none")),
        ),
        warning=texts.plain("books.deposit.warning"),
    )


async def book_difference(console_request: ConsoleRequest) -> PlainResponse:
    """Book the difference of a wallet as the operator's own deposit."""
    form = console_request.form
    request = ledger_pb2.BookDifferenceRequest(
        account=form.text("account"), asset=form.text("asset"), note=form.text("note")
    )
    await console_request.call("OperatorService.BookDifference", request)
    return console_request.redirect_to(PATH)
