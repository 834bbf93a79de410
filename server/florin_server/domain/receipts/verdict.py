"""The checks of a receipt, and their results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class ReceiptCheck(StrEnum):
    """A property of a receipt to check, by its name in the command's output."""

    FORM = "form"  # it is a receipt, written in the only valid form
    KEY = "key"  # the checker knows its key
    SIGNATURE = "signature"  # that key signed exactly this
    CONTENT = "content"  # its content has all members of a receipt
    ISSUER = "issuer"  # the expected installation issued it
    CHAIN = "chain"  # the node serves the chain of the receipt
    TRANSACTION = "transaction"  # the transaction is on the node's chain, and succeeded
    BLOCK = "block"  # it is in the block that the receipt names
    FINALITY = "finality"  # enough blocks, or votes, confirm that block
    CONTRACT = "contract"  # the settlement contract is the one that ships with Florin
    PAYMENT = "payment"  # the chain has the reference of this payment
    PAYER = "payer"  # it names this payer
    RECIPIENT = "recipient"  # it names these receivers
    AMOUNT = "amount"  # it names this asset, value and fee
    TRANSFER = "transfer"  # the asset itself reports the transfer of this amount


# the checks of the statement, not of the chain
STATEMENT_CHECKS = frozenset(
    {
        ReceiptCheck.FORM,
        ReceiptCheck.KEY,
        ReceiptCheck.SIGNATURE,
        ReceiptCheck.CONTENT,
        ReceiptCheck.ISSUER,
    }
)


class CheckOutcome(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it can pass later, or on another node


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check; `detail` is a sentence without its full stop."""

    check: ReceiptCheck
    outcome: CheckOutcome
    detail: str


class ReceiptNotGenuine(Exception):  # noqa: N818  (what was found, not a mistake)
    """The receipt is not what an installation signed; the text says why."""

    def __init__(self, check: ReceiptCheck, reason: str) -> None:
        self.check = check
        super().__init__(reason)

    @property
    def result(self) -> CheckResult:
        """Return the check that failed."""
        return CheckResult(self.check, CheckOutcome.FAILED, str(self))
