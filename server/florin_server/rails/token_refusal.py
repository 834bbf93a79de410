"""A token that does not move a payment's money, whoever signed: how it is told."""

from __future__ import annotations

from enum import StrEnum

from florin_server.domain.errors import Code, FlorinError

REASON = "token_refused"


class Refused(StrEnum):
    """What a token does not want."""

    EVERYBODY = "everybody"  # it is paused
    PAYER = "payer"
    RECEIVER = "receiver"  # the merchant's own account
    OPERATOR = "operator"  # the treasury, which gets fees and receives for merchants without one


_TOLD = {
    Refused.EVERYBODY: "The token is paused",
    Refused.PAYER: "The token does not let the account pay",
    Refused.RECEIVER: "The token does not let the merchant's account receive",
    Refused.OPERATOR: "The token does not let the operator's account receive",
}


def token_refused(what: Refused, said: str = "") -> FlorinError:
    """The refusal of a wallet's output that is no fault of the wallet; `said` is the token's own.

    The caller has made that safe to be shown: strangers choose it.
    """
    details = {"reason": REASON, "refused": str(what)} | ({"revert": said} if said else {})
    return FlorinError(Code.INVALID_PARAMS, _TOLD[what], details=details)
