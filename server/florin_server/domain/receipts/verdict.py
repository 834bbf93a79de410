"""What is checked of a receipt, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Check(StrEnum):
    """One thing that has to be true of a receipt, by the name that the command tells."""

    FORM = "form"  # it is a receipt, written in the one way that there is
    KEY = "key"  # its key is known to whoever checks
    SIGNATURE = "signature"  # that key signed exactly this
    CONTENT = "content"  # what was signed says all that a receipt says
    ISSUER = "issuer"  # it is the installation's that is asked about
    CHAIN = "chain"  # the node serves the chain that it names
    TRANSACTION = "transaction"  # that is in the chain that the node knows, and worked
    BLOCK = "block"  # it stands in the block that the receipt names
    FINALITY = "finality"  # enough blocks, or votes, stand on that block
    CONTRACT = "contract"  # the settlement contract is the one that Florin brings
    PAYMENT = "payment"  # the chain tells the reference that stands for this payment
    PAYER = "payer"  # it names this payer
    RECIPIENT = "recipient"  # it names these receivers
    AMOUNT = "amount"  # it names this asset, value and fee
    TRANSFER = "transfer"  # the asset itself tells that so much moved


# those that are about the statement, and not about the chain
GENUINE = frozenset({Check.FORM, Check.KEY, Check.SIGNATURE, Check.CONTENT, Check.ISSUER})


class Outcome(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    UNKNOWN = "unknown"  # it may pass later, or on another node


@dataclass(frozen=True, slots=True)
class Result:
    """A check that was made; `told` is what was found, in a sentence without its full stop."""

    check: Check
    outcome: Outcome
    told: str


class NotGenuine(Exception):  # noqa: N818  (what was found, not a mistake)
    """The receipt is not what an installation signed; the text says why."""

    def __init__(self, check: Check, why: str) -> None:
        self.check = check
        super().__init__(why)

    @property
    def result(self) -> Result:
        """The check that failed."""
        return Result(self.check, Outcome.FAILED, str(self))
