"""The ledger page of the operator console: its rows do not grow with the buyers."""

from __future__ import annotations

import pytest
from florin.v1 import ledger_pb2
from florin_server.domain.ledger import accounts
from florin_server.web.console.fields import FormValues
from florin_server.web.console.operator.books import (
    ACCOUNTS_SHOWN,
    list_accounts,
    summarize_balances,
)
from florin_server.web.console.refusals import ConsoleError

USD, ETH = "eip155:1/erc20:0xa", "eip155:1/slip44:60"


def balance(account: str, amount: int, asset: str = USD) -> ledger_pb2.LedgerBalance:
    return ledger_pb2.LedgerBalance(account=account, asset=asset, amount=str(amount))


def books(buyers: int) -> list[ledger_pb2.LedgerBalance]:
    return [
        *(
            balance(accounts.outside_party(f"eip155:1:0x{n:04x}"), -(2**80) - n)
            for n in range(buyers)
        ),
        balance(accounts.outside_party("eip155:1:0x0000"), -3, ETH),
        balance(accounts.merchant("mer_1"), -5),
        balance(accounts.merchant("mer_2"), -6),
        balance(accounts.wallet("eip155:1:0xtreasury"), 9),
        balance(accounts.OPENING, -1),
        balance(accounts.FEE, -2),
    ]


def form(**values: str) -> FormValues:
    return FormValues({name: [value] for name, value in values.items()})


def test_buyer_balances_share_a_single_row_per_asset():
    few, many = summarize_balances(books(2)), summarize_balances(books(500))
    assert len(few) == len(many) == 6
    shown = {(line.name, line.asset): (line.amount, line.accounts) for line in many}
    total = -500 * 2**80 - sum(range(500))
    assert shown["external", USD] == (str(total), 500)
    assert shown["external", ETH] == ("-3", 1)
    assert shown["merchant", USD] == ("-11", 2)
    # an account that exists once keeps its own row
    assert shown[accounts.OPENING, USD] == ("-1", None)
    assert shown[accounts.FEE, USD] == ("-2", None)


def test_every_account_is_listed_page_by_page():
    balances = books(ACCOUNTS_SHOWN + 1)
    first = list_accounts(balances, form(kind="external", asset=USD))
    last = list_accounts(balances, form(kind="external", asset=USD, page="2"))
    result = ACCOUNTS_SHOWN + 1
    assert (first.total_count, len(first.lines), len(last.lines)) == (result, ACCOUNTS_SHOWN, 1)
    assert "page=2" in first.after
    assert (first.before, last.after) == ("", "")
    (line,) = list_accounts(balances, form(kind="external", account="0X000A")).lines
    assert line.name == "external:eip155:1:0x000a"


@pytest.mark.parametrize(
    "wrong",
    [{"kind": "income"}, {"kind": "x"}, *({"page": item} for item in ("0", "-1", "x", "²"))],
)
def test_a_list_that_is_not_there_is_refused(wrong):
    with pytest.raises(ConsoleError):
        list_accounts(books(1), form(**{"kind": "external", **wrong}))
