"""Test account names, journal keys, and the bookings of each event."""

from __future__ import annotations

from dataclasses import replace

import pytest
from florin_server.domain.ledger import accounts, journals, postings
from florin_server.domain.ledger.postings import PaymentProceeds
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.domain.settlement.chain_txs import LedgerPosting

MERCHANT, WALLET, HELD = "merchant:m", "wallet:w", "held:buyer"
PAYOUT = Payout("pout_1", PayoutKind.BALANCE, "m", None, True, "c", "a", 7, "bob", 1)
HELD_MONEY = HeldMoney(
    "held_1", "pay_1", "c", "a", "buyer", 100, 60, 3, 40, "0x1", "0x1:2", False, "a list", 1
)
# to the merchant's own destination, to a treasury that owes it, and to a relayer that the merchant
# named
DIRECT = PaymentProceeds("a", "buyer", 100, 3, "dest", "fees", True, False, False)
OWED = replace(DIRECT, is_merchant_account=False, is_own_wallet=True, is_owed=True)
RELAYER = replace(DIRECT, is_own_wallet=True)


def test_ledger_account_names_are_stable():
    """The books outlive releases, so no name may change."""
    assert accounts.wallet("a:1:w") == "wallet:a:1:w"
    assert accounts.merchant("mrch_1") == "merchant:mrch_1"
    assert accounts.held_money("a:1:w") == "held:a:1:w"
    assert accounts.outside_party("a:1:w") == "external:a:1:w"
    assert list(accounts.SINGLE_ACCOUNTS) == [
        "income:fee",
        "expense:gas",
        "expense:rent",
        "external:opening",
        "external:operator",
    ]
    assert journals.settle_key("pay_1") == "settle:pay_1"
    assert journals.held_key("pay_1") == "held:pay_1"
    assert journals.late_key("pay_1", "0x1:0x2") == "late:pay_1:0x1:0x2"
    assert journals.gas_key("tx_1") == "gas:tx_1"
    assert journals.opening_key("a:1:w", "a:1/erc20:t") == "opening:wallet:a:1:w:a:1/erc20:t"
    assert journals.operator_key("book_1") == "operator:book_1"
    assert journals.reversal_key("gas:tx_1") == "reverse:gas:tx_1"
    assert journals.format_reversal_kind(journals.JournalKind.GAS) == "reverse_gas"
    assert [journals.nth_key("gas:tx_1", n) for n in (1, 2, 11)] == [
        "gas:tx_1",
        "gas:tx_1#2",
        "gas:tx_1#11",
    ]


@pytest.mark.parametrize(
    ("kind", "journal"),
    [
        (PayoutKind.REFUND, journals.JournalKind.REFUND),
        (PayoutKind.RETURN, journals.JournalKind.RETURN),
        (PayoutKind.BALANCE, journals.JournalKind.PAYOUT),
    ],
)
def test_a_payouts_journal_is_of_its_kind(kind, journal):
    assert journals.get_payout_kind(kind) is journal
    assert journals.key_prefix(journal) == f"{journal.value}:"
    assert journals.payout_key(kind, "pout_1") == f"{journal.value}:pout_1"


@pytest.mark.parametrize("kind", accounts.LedgerAccountKind)
def test_the_kind_of_an_account_begins_its_name(kind):
    assert accounts.kind_prefix(kind) == f"{kind.value}:"
    assert accounts.parse_kind(f"{accounts.kind_prefix(kind)}a:1:w") is kind


@pytest.mark.parametrize("name", ["purse:w", "wallets:w", "", ":wallet"])
def test_an_account_of_no_kind_is_refused(name):
    with pytest.raises(ValueError, match=f"^unknown kind of account: {name}$"):
        accounts.parse_kind(name)


def test_a_payment_gives_the_merchant_its_share_and_earns_the_fee():
    fee = LedgerPosting("wallet:fees", accounts.FEE, "a", 3)
    assert postings.build_settlement_postings(DIRECT, "m") == (
        LedgerPosting("external:dest", "external:buyer", "a", 97),
        fee,
    )
    assert postings.build_settlement_postings(OWED, "m") == (
        LedgerPosting("wallet:dest", MERCHANT, "a", 97),
        fee,
    )
    assert postings.build_settlement_postings(RELAYER, "m") == (
        LedgerPosting("wallet:dest", "external:buyer", "a", 97),
        fee,
    )


def test_a_fee_that_the_merchant_owes_is_earned_and_reverses():
    owing = replace(DIRECT, fee=0, owed_fee=3)
    owed = LedgerPosting(MERCHANT, accounts.FEE, "a", 3)
    settled = postings.build_settlement_postings(owing, "m")
    assert settled == (LedgerPosting("external:dest", "external:buyer", "a", 100), owed)
    assert [postings.is_owed_fee(posting) for posting in settled] == [False, True]
    assert [postings.is_owed_fee(item) for item in postings.reverse_postings(settled)] == [
        False,
        True,
    ]
    fee = LedgerPosting("wallet:fees", accounts.FEE, "a", 3)
    assert not postings.is_owed_fee(fee)
    # what comes late is returned whole, and no fee of it is owed
    assert owed not in postings.build_late_postings(owing, "m")


def test_what_a_merchant_pays_frees_it_of_debt():
    expected = (LedgerPosting("wallet:w", MERCHANT, "a", 9),)
    assert postings.build_merchant_deposit_postings("w", "a", 9, "m") == expected
    assert postings.build_merchant_deposit_postings("w", "a", 0, "m") == ()


def test_late_money_earns_no_fee_and_held_part_is_owed():
    assert postings.build_late_postings(DIRECT, "m") == (
        LedgerPosting("wallet:fees", MERCHANT, "a", 3),
        LedgerPosting("external:dest", "external:buyer", "a", 97),
    )
    assert postings.build_late_postings(OWED, "m") == (
        LedgerPosting("wallet:fees", MERCHANT, "a", 3),
        LedgerPosting("wallet:dest", MERCHANT, "a", 97),
    )
    assert postings.build_late_postings(RELAYER, "m") == (
        LedgerPosting("wallet:fees", MERCHANT, "a", 3),
        LedgerPosting("wallet:dest", "external:buyer", "a", 97),
    )


def test_money_of_a_blocked_payer_is_booked_as_held():
    assert postings.build_held_postings(DIRECT) == (
        LedgerPosting("wallet:fees", HELD, "a", 3),
        LedgerPosting("external:dest", "external:buyer", "a", 97),
    )
    assert postings.build_held_postings(OWED) == (
        LedgerPosting("wallet:fees", HELD, "a", 3),
        LedgerPosting("wallet:dest", HELD, "a", 97),
    )


def test_held_money_that_is_released_is_the_merchants_but_for_the_fee():
    assert HELD_MONEY.account == HELD
    assert postings.build_release_postings(HELD_MONEY, "m") == (
        LedgerPosting(HELD, MERCHANT, "a", 57),
        LedgerPosting(HELD, accounts.FEE, "a", 3),
    )
    nothing = replace(HELD_MONEY, held=0, fee=0)
    assert postings.build_release_postings(nothing, "m") == ()
    # the merchant got it whole, and owes the fee
    assert postings.build_release_postings(nothing, "m", 7) == (
        LedgerPosting(MERCHANT, accounts.FEE, "a", 7),
    )


@pytest.mark.parametrize("proceeds", [DIRECT, OWED, RELAYER])
def test_nothing_is_not_booked(proceeds):
    for fee, legs in ((0, 1), (100, 1), (99, 2)):
        part = replace(proceeds, fee=fee)
        for booked in (
            postings.build_settlement_postings(part, "m"),
            postings.build_late_postings(part, "m"),
            postings.build_held_postings(part),
        ):
            assert (len(booked), sum(leg.amount for leg in booked)) == (legs, 100)


def test_payout_is_booked_against_the_account_it_was_owed_to():
    assert postings.build_payout_posting(PAYOUT, "w") == LedgerPosting(MERCHANT, WALLET, "a", 7)
    back = replace(PAYOUT, kind=PayoutKind.RETURN, held_id="held_1", account="buyer")
    assert postings.build_payout_posting(back, "w") == LedgerPosting(HELD, WALLET, "a", 7)


@pytest.mark.parametrize(
    ("gas", "rent", "legs"),
    [
        (5, 0, (LedgerPosting("expense:gas", WALLET, "coin", 5),)),
        (
            5,
            7,
            (
                LedgerPosting("expense:gas", WALLET, "coin", 5),
                LedgerPosting("expense:rent", WALLET, "coin", 7),
            ),
        ),
        # a previously opened account is closed
        (
            5,
            -7,
            (
                LedgerPosting("expense:gas", WALLET, "coin", 5),
                LedgerPosting(WALLET, "expense:rent", "coin", 7),
            ),
        ),
        (0, 0, ()),
    ],
)
def test_gas_and_rent_are_booked_to_their_expense_accounts(gas, rent, legs):
    assert postings.build_gas_postings("w", "coin", gas, rent) == legs


def test_opening_books_the_wallet_holdings():
    assert postings.build_opening_postings("w", "a", 9) == (
        LedgerPosting(WALLET, "external:opening", "a", 9),
    )
    assert postings.build_opening_postings("w", "a", 0) == ()


def test_the_operator_puts_in_and_takes_out():
    assert postings.build_operator_postings("w", "a", 9) == (
        LedgerPosting(WALLET, "external:operator", "a", 9),
    )
    assert postings.build_operator_postings("w", "a", -9) == (
        LedgerPosting("external:operator", WALLET, "a", 9),
    )
    assert postings.build_operator_postings("w", "a", 0) == ()


def test_a_reversal_is_the_other_way_round():
    legs = [LedgerPosting("x", "y", "a", 1), LedgerPosting("z", "y", "b", 2)]
    assert postings.reverse_postings(legs) == (
        LedgerPosting("y", "x", "a", 1),
        LedgerPosting("y", "z", "b", 2),
    )


def test_journals_without_transfers_are_of_payments_alone():
    assert journals.may_be_empty("settle")
    assert journals.may_be_empty("reverse_late")
    assert not journals.may_be_empty("payout")
    assert not journals.may_be_empty("gas")
