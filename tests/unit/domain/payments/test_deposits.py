"""Test the rules about deposits: what is missing, and who gets what back."""

from __future__ import annotations

from florin_server.domain.payments.deposits import (
    Deposit,
    DepositStack,
    DepositTotals,
    compute_totals,
    explain_unknown,
    is_worth_moving,
    list_senders,
)
from hypothesis import given
from hypothesis import strategies as st

A, B, C = ("0x" + letter * 40 for letter in "abc")


def make_deposit(sender, value, number=1):
    return Deposit("0x" + "d0" * 20, "asset", value, sender, number, "0x", "0x")


def sweep(stack, value):
    return [(share.sender, share.value) for share in stack.sweep(value)]


def make_stack(*parts):
    stack = DepositStack()
    for sender, value in parts:
        stack.add(make_deposit(sender, value))
    return stack


def test_deposits_add_up_and_blocked_money_does_not_count():
    deposits = [make_deposit(A, 40), make_deposit(B, 1), make_deposit(A, 30)]
    assert compute_totals(100, deposits) == DepositTotals(71, 29, 0)
    assert compute_totals(100, deposits, {B}) == DepositTotals(70, 30, 0, blocked=1)
    assert compute_totals(70, deposits, {B}) == DepositTotals(70, 0, 0, blocked=1)
    assert compute_totals(60, deposits) == DepositTotals(71, 0, 11)
    assert compute_totals(5, []) == DepositTotals(0, 5, 0)


def test_senders_are_listed_once_and_unknown_ones_left_out():
    deposits = [make_deposit(B, 1), make_deposit("", 1), make_deposit(A, 1), make_deposit(B, 1)]
    assert list_senders(deposits) == (B, A)


def test_records_explain_money_without_a_sender():
    recorded = [make_deposit(A, 60, 3), make_deposit(B, 30, 4), make_deposit(C, 9, 8)]
    shown = [make_deposit("", 95, 7), make_deposit(C, 9, 8)]
    named = explain_unknown(shown, recorded)
    assert [(deposit.sender, deposit.value) for deposit in named] == [
        (A, 60),
        (B, 30),
        ("", 5),
        (C, 9),
    ]
    assert explain_unknown(shown, []) == shown
    # from a contract, in an earlier block than the node still shows
    from_contract = make_deposit("", 95, 5)
    assert explain_unknown([make_deposit("", 95, 7)], [from_contract]) == [from_contract]


def test_payment_takes_blocked_money_last():
    stack = make_stack((A, 50), (B, 100))
    stack.pay(100, {A})
    assert sweep(stack, 50) == [(A, 50)]
    stack = make_stack((A, 50), (B, 100))
    stack.pay(120, {A})
    assert sweep(stack, 30) == [(A, 30)]


def test_payment_takes_the_oldest_money_and_the_last_sender_gets_the_excess():
    stack = make_stack((A, 60), (B, 60), (C, 5))
    stack.pay(100)
    assert sweep(stack, 25) == [(C, 5), (B, 20)]
    assert sweep(stack, 0) == []


def test_sender_of_several_deposits_gets_one_return():
    stack = make_stack((A, 10), (B, 5), (A, 20))
    assert sweep(stack, 35) == [(A, 30), (B, 5)]


def test_money_that_no_deposit_explains_has_an_unknown_sender():
    assert sweep(make_stack((A, 10)), 12) == [(A, 10), ("", 2)]
    assert sweep(make_stack(("", 3)), 5) == [("", 5)]


def test_what_a_token_kept_is_missing_from_the_oldest_deposit():
    stack = make_stack((A, 100), (B, 100))
    assert sweep(stack, 190) == [(B, 100), (A, 90)]
    # nothing is left, whatever the deposits said
    assert sweep(stack, 1) == [("", 1)]


@given(
    parts=st.lists(st.tuples(st.sampled_from(["", A, B, C]), st.integers(1, 50)), max_size=12),
    paid=st.integers(0, 300),
    swept=st.integers(0, 700),
)
def test_shares_always_add_up_to_what_was_swept(parts, paid, swept):
    stack = make_stack(*parts)
    stack.pay(paid)
    shares = stack.sweep(swept)
    assert sum(share.value for share in shares) == swept
    assert all(share.value > 0 for share in shares)
    assert len({share.sender for share in shares}) == len(shares)
    for share in shares:
        if share.sender:
            assert share.value <= sum(value for sender, value in parts if sender == share.sender)


def test_money_below_the_factor_times_its_gas_is_not_worth_moving():
    assert is_worth_moving(30, 10, 3)
    assert not is_worth_moving(29, 10, 3)
    assert not is_worth_moving(0, 0, 3)


def test_share_names_the_deposits_that_it_came_with():
    deposits = [make_deposit(A, 10, 1), make_deposit(B, 5, 2), make_deposit(A, 20, 3)]
    stack = DepositStack()
    for deposit in deposits:
        stack.add(deposit)
    stack.pay(10)
    by_sender = {share.sender: share.deposits for share in stack.sweep(25)}
    assert by_sender == {A: (deposits[2],), B: (deposits[1],)}
