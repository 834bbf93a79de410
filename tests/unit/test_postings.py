"""What the books are made of: names of accounts, keys of journals, and what is booked when."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.ledger.postings import Received
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import Posting

MERCHANT, WALLET, HELD = "merchant:m", "wallet:w", "held:buyer"
PAYOUT = Payout("pout_1", PayoutKind.BALANCE, "m", None, True, "c", "a", 7, "bob", 1)
HELD_MONEY = HeldMoney(
    "held_1", "pay_1", "c", "a", "buyer", 100, 60, 3, 40, "0x1", "0x1:2", False, "a list", 1
)
# to the merchant's own destination, to a treasury that owes it, and to a relayer that the merchant
# named
DIRECT = Received("a", "buyer", 100, 3, "dest", "fees", True, False, False)
OWED = replace(DIRECT, to_merchant=False, booked=True, owed=True)
RELAYER = replace(DIRECT, booked=True)


def test_what_is_stored_keeps_its_name():
    """The books outlive releases, so that no name may change."""
    assert accounts.wallet("a:1:w") == "wallet:a:1:w"
    assert accounts.merchant("mrch_1") == "merchant:mrch_1"
    assert accounts.held("a:1:w") == "held:a:1:w"
    assert accounts.external("a:1:w") == "external:a:1:w"
    assert list(accounts.SINGLE) == [
        "income:fee",
        "expense:gas",
        "expense:rent",
        "external:opening",
        "external:operator",
    ]
    assert journals.settle("pay_1") == "settle:pay_1"
    assert journals.held("pay_1") == "held:pay_1"
    assert journals.late("pay_1", "0x1:0x2") == "late:pay_1:0x1:0x2"
    assert journals.gas("tx_1") == "gas:tx_1"
    assert journals.opening("a:1:w", "a:1/erc20:t") == "opening:wallet:a:1:w:a:1/erc20:t"
    assert journals.operator("book_1") == "operator:book_1"
    assert journals.reversal("gas:tx_1") == "reverse:gas:tx_1"
    assert journals.reversal_kind(journals.Kind.GAS) == "reverse_gas"
    assert [journals.nth("gas:tx_1", n) for n in (1, 2, 11)] == [
        "gas:tx_1",
        "gas:tx_1#2",
        "gas:tx_1#11",
    ]


@pytest.mark.parametrize(
    ("kind", "journal"),
    [
        (PayoutKind.REFUND, journals.Kind.REFUND),
        (PayoutKind.RETURN, journals.Kind.RETURN),
        (PayoutKind.BALANCE, journals.Kind.PAYOUT),
    ],
)
def test_a_payouts_journal_is_of_its_kind(kind, journal):
    assert journals.payout_kind(kind) is journal
    assert journals.prefix(journal) == f"{journal.value}:"
    assert journals.payout(kind, "pout_1") == f"{journal.value}:pout_1"


@pytest.mark.parametrize("kind", accounts.Kind)
def test_the_kind_of_an_account_begins_its_name(kind):
    assert accounts.prefix(kind) == f"{kind.value}:"
    assert accounts.kind_of(f"{accounts.prefix(kind)}a:1:w") is kind


@pytest.mark.parametrize("name", ["purse:w", "wallets:w", "", ":wallet"])
def test_an_account_of_no_kind_is_refused(name):
    with pytest.raises(ValueError, match=f"^unknown kind of account: {name}$"):
        accounts.kind_of(name)


def test_a_payment_gives_the_merchant_its_share_and_earns_the_fee():
    fee = Posting("wallet:fees", accounts.FEE, "a", 3)
    assert postings.settled(DIRECT, "m") == (
        Posting("external:dest", "external:buyer", "a", 97),
        fee,
    )
    assert postings.settled(OWED, "m") == (Posting("wallet:dest", MERCHANT, "a", 97), fee)
    assert postings.settled(RELAYER, "m") == (
        Posting("wallet:dest", "external:buyer", "a", 97),
        fee,
    )


def test_late_money_earns_nothing_and_what_we_hold_of_it_is_owed():
    assert postings.late(DIRECT, "m") == (
        Posting("wallet:fees", MERCHANT, "a", 3),
        Posting("external:dest", "external:buyer", "a", 97),
    )
    assert postings.late(OWED, "m") == (
        Posting("wallet:fees", MERCHANT, "a", 3),
        Posting("wallet:dest", MERCHANT, "a", 97),
    )
    assert postings.late(RELAYER, "m") == (
        Posting("wallet:fees", MERCHANT, "a", 3),
        Posting("wallet:dest", "external:buyer", "a", 97),
    )


def test_what_a_blocked_payer_paid_is_held_for_nobody():
    assert postings.held(DIRECT) == (
        Posting("wallet:fees", HELD, "a", 3),
        Posting("external:dest", "external:buyer", "a", 97),
    )
    assert postings.held(OWED) == (
        Posting("wallet:fees", HELD, "a", 3),
        Posting("wallet:dest", HELD, "a", 97),
    )


def test_held_money_that_is_released_is_the_merchants_but_for_the_fee():
    assert HELD_MONEY.account == HELD
    assert postings.released(HELD_MONEY, "m") == (
        Posting(HELD, MERCHANT, "a", 57),
        Posting(HELD, accounts.FEE, "a", 3),
    )
    nothing = replace(HELD_MONEY, held=0, fee=0)
    assert postings.released(nothing, "m") == ()


@pytest.mark.parametrize("one", [DIRECT, OWED, RELAYER])
def test_nothing_is_not_booked(one):
    for fee, legs in ((0, 1), (100, 1), (99, 2)):
        part = replace(one, fee=fee)
        for booked in (
            postings.settled(part, "m"),
            postings.late(part, "m"),
            postings.held(part),
        ):
            assert (len(booked), sum(leg.amount for leg in booked)) == (legs, 100)


def test_a_payout_leaves_the_treasury_at_the_cost_of_whoever_was_owed_it():
    assert postings.paid_out(PAYOUT, "w") == Posting(MERCHANT, WALLET, "a", 7)
    back = replace(PAYOUT, kind=PayoutKind.RETURN, held_id="held_1", account="buyer")
    assert postings.paid_out(back, "w") == Posting(HELD, WALLET, "a", 7)


@pytest.mark.parametrize(
    ("gas", "rent", "legs"),
    [
        (5, 0, (Posting("expense:gas", WALLET, "coin", 5),)),
        (
            5,
            7,
            (
                Posting("expense:gas", WALLET, "coin", 5),
                Posting("expense:rent", WALLET, "coin", 7),
            ),
        ),
        # an account that was opened before is closed
        (
            5,
            -7,
            (
                Posting("expense:gas", WALLET, "coin", 5),
                Posting(WALLET, "expense:rent", "coin", 7),
            ),
        ),
        (0, 0, ()),
    ],
)
def test_a_transaction_costs_whoever_pays_for_it(gas, rent, legs):
    assert postings.spent("w", "coin", gas, rent) == legs


def test_a_wallets_books_begin_with_what_it_holds():
    assert postings.opened("w", "a", 9) == (Posting(WALLET, "external:opening", "a", 9),)
    assert postings.opened("w", "a", 0) == ()


def test_the_operator_puts_in_and_takes_out():
    assert postings.by_operator("w", "a", 9) == (Posting(WALLET, "external:operator", "a", 9),)
    assert postings.by_operator("w", "a", -9) == (Posting("external:operator", WALLET, "a", 9),)
    assert postings.by_operator("w", "a", 0) == ()


def test_a_reversal_is_the_other_way_round():
    legs = [Posting("x", "y", "a", 1), Posting("z", "y", "b", 2)]
    assert postings.reversed_(legs) == (Posting("y", "x", "a", 1), Posting("y", "z", "b", 2))
