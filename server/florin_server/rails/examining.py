"""What a chain that somebody names has of a receipt, told check by check."""

from __future__ import annotations

from florin_server.domain.caip import parse_account, parse_asset
from florin_server.domain.payments.option_names import option_id, parts, reference
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import Check, Outcome, Result


def passed(check: Check, told: str) -> Result:
    """A check that passed."""
    return Result(check, Outcome.PASSED, told)


def failed(check: Check, told: str) -> Result:
    """A check that failed."""
    return Result(check, Outcome.FAILED, told)


def unknown(check: Check, told: str) -> Result:
    """A check that says nothing yet, or not on this node."""
    return Result(check, Outcome.UNKNOWN, told)


def either(check: Check, holds: bool, good: str, bad: str) -> Result:
    """A check that passed or failed, each with its words."""
    return passed(check, good) if holds else failed(check, bad)


def require_of_one_chain(said: Receipt) -> None:
    """ValueError if asset or accounts are of another chain, or nobody got the fee."""
    named = [parse_account(one).chain for one in (said.payer, said.recipient)]
    named.append(parse_asset(said.paid.asset).chain)
    if said.fee_to is not None:
        named.append(parse_account(said.fee_to).chain)
    if {str(one) for one in named} != {said.transaction.chain}:
        raise ValueError("it is of several chains")
    value, fee = int(said.paid.value), int(said.paid.fee)
    if fee > value or bool(fee) is (said.fee_to is None):
        raise ValueError("the fee is nobody's, or more than was paid")


def reference_of(said: Receipt) -> bytes | None:
    """The reference that a chain has to tell for the payment; None if its option is another's.

    The option's id is made again of what the receipt says: one transfer cannot be told of two
    payments.
    """
    way = said.option
    if way.steps is not None:
        made_of = parts(
            said.sub,
            said.payer,
            said.paid.asset,
            int(said.paid.value),
            () if way.contract is None else (way.contract,),
            said.recipient,
            said.fee_to,
            int(said.paid.fee),
            settled=said.settled,
            steps=way.steps,
        )
        if option_id(made_of) != way.id:
            return None
    return reference(bytes.fromhex(way.salt), way.id)


def of_payment(said: Receipt, told: str, wanted: str | None) -> Result:
    """Whether the reference that a chain tells stands for the payment."""
    if wanted is None:
        return failed(Check.PAYMENT, "the option that was paid is not one of this payment")
    if not told == wanted == said.option.reference:
        return failed(Check.PAYMENT, f"the chain tells of another payment, {told}")
    if said.option.steps is None:
        told = f"only the issuer says that reference {wanted} stands for this payment alone"
        return unknown(Check.PAYMENT, told)
    return passed(Check.PAYMENT, f"reference {wanted} stands for {said.sub}, and for no other one")
