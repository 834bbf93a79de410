"""The check of a receipt against a chain that the caller names, step by step."""

from __future__ import annotations

from florin_server.domain.caip import parse_account, parse_asset
from florin_server.domain.payments.option_names import (
    build_option_id_parts,
    derive_option_id,
    derive_reference,
)
from florin_server.domain.receipts.receipt import Receipt
from florin_server.domain.receipts.verdict import CheckOutcome, CheckResult, ReceiptCheck
from florin_server.rails.types import FORWARD_METHOD


def build_passed(check: ReceiptCheck, detail: str) -> CheckResult:
    """Return a check that passed."""
    return CheckResult(check, CheckOutcome.PASSED, detail)


def build_failed(check: ReceiptCheck, detail: str) -> CheckResult:
    """Return a check that failed."""
    return CheckResult(check, CheckOutcome.FAILED, detail)


def build_unknown(check: ReceiptCheck, detail: str) -> CheckResult:
    """Return a check without a result yet, or on this node."""
    return CheckResult(check, CheckOutcome.UNKNOWN, detail)


def build_result(
    check: ReceiptCheck, is_passed: bool, passed_detail: str, failed_detail: str
) -> CheckResult:
    """Return a check that passed or failed, with the matching text."""
    return build_passed(check, passed_detail) if is_passed else build_failed(check, failed_detail)


def require_single_chain(receipt: Receipt) -> None:
    """Raise ValueError if asset or accounts are on other chains, or the fee has no receiver."""
    named = [parse_account(account).chain for account in (receipt.payer, receipt.recipient)]
    named.append(parse_asset(receipt.paid.asset).chain)
    if receipt.fee_to is not None:
        named.append(parse_account(receipt.fee_to).chain)
    if {str(chain) for chain in named} != {receipt.transaction.chain}:
        raise ValueError("the receipt names several chains")
    value, fee = int(receipt.paid.value), int(receipt.paid.fee)
    if fee > value or bool(fee) is (receipt.fee_to is None):
        raise ValueError("the fee has no receiver, or exceeds the payment")


def compute_reference(receipt: Receipt) -> bytes | None:
    """Return the reference that the chain must report; None for an option of another payment.

    The option's id is recomputed from the receipt, so that one transfer cannot prove two payments.
    """
    way = receipt.option
    if way.steps is not None:
        # an address of its own follows from the id
        is_address = way.method == FORWARD_METHOD
        made_of = build_option_id_parts(
            receipt.sub,
            f"{receipt.transaction.chain}:{way.contract}" if is_address else receipt.payer,
            receipt.paid.asset,
            int(receipt.paid.value),
            () if way.contract is None else (way.contract,),
            receipt.recipient,
            receipt.fee_to,
            int(receipt.paid.fee),
            settled=receipt.settled,
            steps=way.steps,
        )
        if derive_option_id(made_of) != way.id:
            return None
    return derive_reference(bytes.fromhex(way.salt), way.id)


def check_reference(receipt: Receipt, observed: str, expected: str | None) -> CheckResult:
    """Check that the reference that a chain reports belongs to the payment."""
    if expected is None:
        return build_failed(ReceiptCheck.PAYMENT, "the paid option does not belong to this payment")
    if not observed == expected == receipt.option.reference:
        return build_failed(ReceiptCheck.PAYMENT, f"the chain reports another payment, {observed}")
    if receipt.option.steps is None:
        observed = f"only the issuer says that reference {expected} stands for this payment alone"
        return build_unknown(ReceiptCheck.PAYMENT, observed)
    return build_passed(
        ReceiptCheck.PAYMENT, f"reference {expected} stands for {receipt.sub} alone"
    )
