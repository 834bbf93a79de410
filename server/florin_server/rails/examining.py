"""What a chain that somebody names has of a receipt, told check by check."""

from __future__ import annotations

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
        return passed(Check.PAYMENT, f"reference {wanted}, whose making only the issuer knows")
    return passed(Check.PAYMENT, f"reference {wanted} stands for {said.sub}, and for no other one")
