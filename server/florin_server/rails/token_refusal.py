"""The error for a token that does not move a payment's money, regardless of the signer."""

from __future__ import annotations

from enum import StrEnum

from florin_server.domain.errors import ApiError, ErrorCode

REASON = "token_refused"


class RefusedParty(StrEnum):
    """The party that a token blocks."""

    EVERYBODY = "everybody"  # it is paused
    PAYER = "payer"
    RECEIVER = "receiver"  # the merchant's own account
    # the treasury, which gets fees and receives for merchants without a destination
    OPERATOR = "operator"


_MESSAGES = {
    RefusedParty.EVERYBODY: "The token is paused",
    RefusedParty.PAYER: "The token does not let the account pay",
    RefusedParty.RECEIVER: "The token does not let the merchant's account receive",
    RefusedParty.OPERATOR: "The token does not let the operator's account receive",
}


def build_token_refusal(party: RefusedParty, reason: str = "") -> ApiError:
    """Build the refusal of a valid wallet output; `reason` is the token's own reason.

    Strangers choose that reason: the caller has made it safe to show.
    """
    details = {"reason": REASON, "refused": str(party)} | ({"revert": reason} if reason else {})
    return ApiError(ErrorCode.INVALID_PARAMS, _MESSAGES[party], details=details)
