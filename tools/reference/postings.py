"""`postings.md`: the accounts of the ledger and its postings, from the code that makes them.

The module calls the constructors of the domain with examples, so that the tables always match the
real postings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

VALUE, FEE, COST, RENT = 1000, 10, 5, 7

_ABOUT = f"""\
The ledger is double entry and append-only. A journal is booked once for its key, in the database
transaction of the event that it records. Each posting moves an amount from the account on the
credit side to the account on the debit side, in minor units of one asset (CAIP-19). A balance is
debits less credits: positive for what the installation has or has spent, negative for what it owes
or has earned. All balances of an asset add up to zero.

`florin ledger balances` lists the accounts, `florin ledger entries PAYMENT_ID` the entries of a
payment. `florin ledger check` checks the ledger and compares it with the chains.

The examples below use a payment of {VALUE} minor units with a fee of {FEE}."""
_JOURNALS = """\
Texts in `<…>` are an id, an account (CAIP-10) or an asset. If a journal was reversed and is booked
again, its key gets a number: `#2`, `#3` and so on."""

# names in the examples
BUYER, MERCHANT_ACCOUNT, TREASURY, RELAYER = (
    "<buyer>",
    "<merchant's account>",
    "<treasury>",
    "<relayer>",
)
MERCHANT, SENDER, ASSET, COIN = "<merchant id>", "<sender>", "<asset>", "<coin>"

PostingCases = Sequence[tuple[str, Sequence[LedgerPosting]]]

_PAID_TO_MERCHANT = PaymentProceeds(
    asset=ASSET,
    payer=BUYER,
    value=VALUE,
    fee=FEE,
    dest=MERCHANT_ACCOUNT,
    fee_to=TREASURY,
    is_merchant_account=True,
    is_own_wallet=False,
    is_owed=False,
)
_PAID_TO_TREASURY = replace(
    _PAID_TO_MERCHANT, dest=TREASURY, is_merchant_account=False, is_own_wallet=True, is_owed=True
)
_PAID_TO_RELAYER = replace(_PAID_TO_MERCHANT, dest=RELAYER, is_own_wallet=True)


def render_postings() -> str:
    """Return the document."""
    return render_page(
        "Ledger postings",
        _ABOUT,
        "## Accounts",
        render_table(("Account", "Meaning"), _list_accounts()),
        f"## Journals\n\n{_JOURNALS}",
        render_table(
            ("Key", "When"),
            [(format_code(key), format_sentence(when)) for key, when, _ in list_entries()],
        ),
        "## Postings",
        *(_render_section(key, cases) for key, _, cases in list_entries() if cases),
    )


def list_entries() -> list[tuple[str, str, PostingCases]]:
    """List every journal: its key, when it is booked, and its cases."""
    return [
        (
            journals.settle_key("<payment id>"),
            _get_docstring(journals.settle_key),
            _list_settled_cases(),
        ),
        (
            journals.held_key("<payment id>"),
            _get_docstring(journals.held_key),
            _list_cases_by_destination(postings.build_held_postings),
        ),
        (
            journals.late_key("<payment id>", "<event>"),
            _get_docstring(journals.late_key),
            [
                *_list_cases_by_destination(
                    lambda item: postings.build_late_postings(item, MERCHANT)
                ),
                _build_late_blocked_case(),
            ],
        ),
        (
            journals.stray_key("<transaction>", "<address>", ASSET),
            _get_docstring(journals.stray_key),
            _list_stray_cases(),
        ),
        *(
            (journals.payout_key(kind, "<payout id>"), when, _list_paid_out_cases(kind))
            for kind, when in _PAYOUTS
        ),
        (
            journals.gas_key("<our transaction's id>"),
            _get_docstring(journals.gas_key),
            _list_spent_cases(),
        ),
        (
            journals.opening_key("<account>", ASSET),
            _get_docstring(journals.opening_key),
            _list_opened_cases(),
        ),
        (
            journals.operator_key("<booking id>"),
            _get_docstring(journals.operator_key),
            _list_operator_cases(),
        ),
        (journals.reversal_key("<key>"), _get_docstring(journals.reversal_key), []),
    ]


_PAYOUTS = (
    (PayoutKind.REFUND, "the payout of a refund is final"),
    (PayoutKind.RETURN, "the return of late or held money is final"),
    (PayoutKind.BALANCE, "the payout of a merchant's balance is final"),
)


def _list_accounts() -> list[tuple[str, str]]:
    patterns = (
        (accounts.wallet("<CAIP-10>"), _get_docstring(accounts.wallet)),
        (accounts.merchant(MERCHANT), _get_docstring(accounts.merchant)),
        (accounts.held_money("<CAIP-10>"), _get_docstring(accounts.held_money)),
        (accounts.stray_money("<CAIP-10>"), _get_docstring(accounts.stray_money)),
        (accounts.outside_party("<CAIP-10>"), _get_docstring(accounts.outside_party)),
    )
    return [
        (format_code(name), format_sentence(what))
        for name, what in (*patterns, *accounts.SINGLE_ACCOUNTS.items())
    ]


def _list_settled_cases() -> PostingCases:
    return [
        (
            "the merchant has its own destination",
            postings.build_settlement_postings(_PAID_TO_MERCHANT, MERCHANT),
        ),
        (
            "the treasury receives for the merchant",
            postings.build_settlement_postings(_PAID_TO_TREASURY, MERCHANT),
        ),
        (
            "the operator released held money",
            postings.build_release_postings(_build_held_money(), MERCHANT),
        ),
    ]


def _list_cases_by_destination(
    book: Callable[[PaymentProceeds], Sequence[LedgerPosting]],
) -> PostingCases:
    return [
        ("it went to the merchant's own destination", book(_PAID_TO_MERCHANT)),
        ("it went to the treasury", book(_PAID_TO_TREASURY)),
        ("the merchant's destination is a relayer of Florin", book(_PAID_TO_RELAYER)),
    ]


def _build_late_blocked_case() -> tuple[str, Sequence[LedgerPosting]]:
    return "it went to the treasury, from a blocked payer", postings.build_held_postings(
        _PAID_TO_TREASURY
    )


def _list_stray_cases() -> PostingCases:
    return [
        (
            "it went to the treasury",
            postings.build_stray_postings(TREASURY, "<address>", ASSET, VALUE, {}),
        ),
        (
            f"{FEE} of it came from a blocked sender",
            postings.build_stray_postings(TREASURY, "<address>", ASSET, VALUE, {BUYER: FEE}),
        ),
    ]


def _build_held_money() -> HeldMoney:
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


def _list_paid_out_cases(kind: PayoutKind) -> PostingCases:
    payout = Payout(
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
    cases = [("", [postings.build_payout_posting(payout, TREASURY)])]
    if kind is PayoutKind.RETURN:
        cases = [
            ("the money came late", [postings.build_payout_posting(payout, TREASURY)]),
            (
                "it was held",
                [postings.build_payout_posting(replace(payout, held_id="<held>"), TREASURY)],
            ),
            (
                "it came to a payment's own address",
                [
                    postings.build_payout_posting(
                        replace(
                            payout,
                            held_id="<held>",
                            owed_account=accounts.stray_money("<address>"),
                        ),
                        TREASURY,
                    )
                ],
            ),
        ]
    return cases


def _list_spent_cases() -> PostingCases:
    return [
        (
            f"it cost {COST} in fees, and {RENT} in accounts that it opened",
            postings.build_gas_postings(SENDER, COIN, COST, RENT),
        ),
        (
            f"it cost {COST} in fees, and got {RENT} from an account that it closed",
            postings.build_gas_postings(SENDER, COIN, COST, -RENT),
        ),
    ]


def _list_opened_cases() -> PostingCases:
    return [("", postings.build_opening_postings("<account>", ASSET, VALUE))]


def _list_operator_cases() -> PostingCases:
    return [
        ("a deposit", postings.build_operator_postings("<account>", ASSET, VALUE)),
        ("a withdrawal", postings.build_operator_postings("<account>", ASSET, -VALUE)),
    ]


def _render_section(key: str, cases: PostingCases) -> str:
    rows: list[list[str]] = []
    for case, booked in cases:
        for n, posting in enumerate(booked):
            what = format_sentence(case) if n == 0 else ""
            rows.append(
                [
                    what,
                    format_code(posting.debit),
                    format_code(posting.credit),
                    str(posting.amount),
                    format_code(posting.asset),
                ]
            )
    header = ["Case", "Debit", "Credit", "Amount", "Asset"]
    if not any(case for case, _ in cases):
        header, rows = header[1:], [row[1:] for row in rows]
    return f"### `{key}`\n\n{render_table(header, rows)}"


def _get_docstring(name_function: Callable[..., str]) -> str:
    text = re.sub(r"\s+", " ", name_function.__doc__ or "").strip()
    # a function says what it returns, a row of a table what that is
    return format_sentence(re.sub(r"^Return the (account|key) of ", "", text))
