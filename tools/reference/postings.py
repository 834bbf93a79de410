"""`postings.md`: the accounts of the books, and what is booked when, as the code books it.

The constructors of the domain are called with examples, so that the tables cannot say anything else
than what would be booked.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.ledger.postings import Received
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import Posting

from tools.reference.markdown import code, page, sentence, table

VALUE, FEE, COST, RENT = 1000, 10, 5, 7

_ABOUT = f"""\
The books are double entry and append-only. A journal is booked once for its key, in the same
transaction of the store as what it is about, and each of its postings moves an amount from the
account on the credit side to the account on the debit side, in minor units of one asset (CAIP-19).
A balance is debits less credits: above zero is what we hold or have spent, below zero what we owe
or have earned. All balances of an asset add up to zero.

`florin ledger balances` shows the accounts, `florin ledger entries PAYMENT_ID` what was booked for
a payment, `florin ledger check` proves the books and compares them with the chains.

The examples below are of a payment of {VALUE} minor units, of which {FEE} are the fee."""
_JOURNALS = """\
What is in `<…>` is an id, an account (CAIP-10) or an asset. If a journal was reversed and is booked
again, a number follows its key: `#2`, `#3` and so on."""

# examples are told in these words
BUYER, SHOP, TREASURY, RELAYER = "<buyer>", "<merchant's account>", "<treasury>", "<relayer>"
MERCHANT, SENDER, ASSET, COIN = "<merchant id>", "<sender>", "<asset>", "<coin>"

Cases = Sequence[tuple[str, Sequence[Posting]]]

_TO_SHOP = Received(
    asset=ASSET,
    payer=BUYER,
    value=VALUE,
    fee=FEE,
    dest=SHOP,
    fee_to=TREASURY,
    to_merchant=True,
    booked=False,
    owed=False,
)
_TO_US = replace(_TO_SHOP, dest=TREASURY, to_merchant=False, booked=True, owed=True)
_TO_RELAYER = replace(_TO_SHOP, dest=RELAYER, booked=True)


def document() -> str:
    """The document."""
    return page(
        "Ledger postings",
        _ABOUT,
        "## Accounts",
        table(("Account", "What it holds"), _accounts()),
        f"## Journals\n\n{_JOURNALS}",
        table(("Key", "When"), [(code(key), sentence(when)) for key, when, _ in entries()]),
        "## Postings",
        *(_section(key, cases) for key, _, cases in entries() if cases),
    )


def entries() -> list[tuple[str, str, Cases]]:
    """Every journal: key, when it is booked, and what by case."""
    return [
        (journals.settle("<payment id>"), _doc(journals.settle), _settled()),
        (journals.held("<payment id>"), _doc(journals.held), _by_place(postings.held)),
        (
            journals.late("<payment id>", "<event>"),
            _doc(journals.late),
            [*_by_place(lambda one: postings.late(one, MERCHANT)), _late_and_blocked()],
        ),
        *((journals.payout(kind, "<payout id>"), when, _paid_out(kind)) for kind, when in _PAYOUTS),
        (journals.gas("<our transaction's id>"), _doc(journals.gas), _spent()),
        (journals.opening("<account>", ASSET), _doc(journals.opening), _opened()),
        (journals.operator("<booking id>"), _doc(journals.operator), _by_operator()),
        (journals.reversal("<key>"), _doc(journals.reversal), []),
    ]


_PAYOUTS = (
    (PayoutKind.REFUND, "a refund left a treasury, at final depth"),
    (PayoutKind.RETURN, "money that paid for nothing, or was held, went back, at final depth"),
    (PayoutKind.BALANCE, "a merchant was paid what it is owed, at final depth"),
)


def _accounts() -> list[tuple[str, str]]:
    made = (
        (accounts.wallet("<CAIP-10>"), _doc(accounts.wallet)),
        (accounts.merchant(MERCHANT), _doc(accounts.merchant)),
        (accounts.held("<CAIP-10>"), _doc(accounts.held)),
        (accounts.external("<CAIP-10>"), _doc(accounts.external)),
    )
    return [(code(name), sentence(what)) for name, what in (*made, *accounts.SINGLE.items())]


def _settled() -> Cases:
    return [
        ("the merchant has a destination of its own", postings.settled(_TO_SHOP, MERCHANT)),
        ("the treasury receives for the merchant", postings.settled(_TO_US, MERCHANT)),
        ("the operator released what was held by us", postings.released(_held(), MERCHANT)),
    ]


def _by_place(book: Callable[[Received], Sequence[Posting]]) -> Cases:
    return [
        ("it went to the merchant's own destination", book(_TO_SHOP)),
        ("it came to the treasury", book(_TO_US)),
        ("the merchant's destination is a relayer of ours", book(_TO_RELAYER)),
    ]


def _late_and_blocked() -> tuple[str, Sequence[Posting]]:
    return "it came to the treasury, from a blocked payer", postings.held(_TO_US)


def _held() -> HeldMoney:
    return HeldMoney(
        id="",
        payment_id="",
        chain_id="",
        asset=ASSET,
        payer=BUYER,
        value=VALUE,
        held=VALUE,
        fee=FEE,
        settled_value=None,
        tx_hash="",
        event="",
        late=False,
        why="",
        since_us=0,
    )


def _paid_out(kind: PayoutKind) -> Cases:
    one = Payout(
        id="",
        kind=kind,
        merchant_id=MERCHANT,
        payment_id=None,
        live=False,
        chain_id="",
        asset=ASSET,
        value=VALUE,
        account=BUYER,
        created_at_us=0,
    )
    cases = [("", [postings.paid_out(one, TREASURY)])]
    if kind is PayoutKind.RETURN:
        cases = [
            ("the money came late", [postings.paid_out(one, TREASURY)]),
            ("it was held", [postings.paid_out(replace(one, held_id="<held>"), TREASURY)]),
        ]
    return cases


def _spent() -> Cases:
    return [
        (
            f"it cost {COST} in fees, and left {RENT} in accounts that it opened",
            postings.spent(SENDER, COIN, COST, RENT),
        ),
        (
            f"it cost {COST} in fees, and {RENT} came back from an account that it closed",
            postings.spent(SENDER, COIN, COST, -RENT),
        ),
    ]


def _opened() -> Cases:
    return [("", postings.opened("<account>", ASSET, VALUE))]


def _by_operator() -> Cases:
    return [
        ("something was put in", postings.by_operator("<account>", ASSET, VALUE)),
        ("something was taken out", postings.by_operator("<account>", ASSET, -VALUE)),
    ]


def _section(key: str, cases: Cases) -> str:
    rows: list[list[str]] = []
    for case, booked in cases:
        for n, one in enumerate(booked):
            what = sentence(case) if n == 0 else ""
            rows.append([what, code(one.debit), code(one.credit), str(one.amount), code(one.asset)])
    header = ["Case", "Debit", "Credit", "Amount", "Asset"]
    if not any(case for case, _ in cases):
        header, rows = header[1:], [row[1:] for row in rows]
    return f"### `{key}`\n\n{table(header, rows)}"


def _doc(one: Callable[..., str]) -> str:
    return re.sub(r"\s+", " ", one.__doc__ or "")
