"""Refusals on merchant paths that the two wire profiles tell with different codes.

The deployed profile has five codes of its own; the other profile tells the same cases with the
documented codes, at the same HTTP status.
"""

from __future__ import annotations

from florin_server.domain.errors import Code, FlorinError


def merchant_unknown(*, wcp_profile: bool) -> FlorinError:
    """No such merchant in the path."""
    code = Code.NOT_FOUND if wcp_profile else Code.MERCHANT_NOT_FOUND
    return FlorinError(code, "Merchant not found")


def settlement_unknown(*, wcp_profile: bool) -> FlorinError:
    """No such settlement of the merchant."""
    code = Code.NOT_FOUND if wcp_profile else Code.INVALID_PARAMS
    return FlorinError(code, "Settlement not found", like=Code.NOT_FOUND)


def refunded_payment_unknown(*, wcp_profile: bool) -> FlorinError:
    """No such payment to be refunded."""
    code = Code.NOT_FOUND if wcp_profile else Code.PAYMENT_NOT_FOUND
    return FlorinError(code, "Payment not found")


def idempotency_key_missing(*, wcp_profile: bool) -> FlorinError:
    """The call must come with an Idempotency-Key."""
    code = Code.MISSING_IDEMPOTENCY_KEY if wcp_profile else Code.INVALID_PARAMS
    return FlorinError(code, "Idempotency-Key is required")


def settlement_asset_taken(*, wcp_profile: bool) -> FlorinError:
    """The merchant has a settlement for this asset."""
    code = Code.SETTLEMENT_ASSET_CONFLICT if wcp_profile else Code.INVALID_STATE
    return FlorinError(
        code,
        "Asset already has a settlement",
        details={"reason": "settlement_asset_conflict"},
        like=Code.SETTLEMENT_ASSET_CONFLICT,
    )


def stopping(version: int | None) -> FlorinError:
    """A stream that ends before what it follows is final, because this process stops.

    Another process, or the next one, continues it after the version; None where there is none.
    """
    return FlorinError(
        Code.INTERNAL_ERROR,
        "The server is stopping: watch again after the last version",
        details={} if version is None else {"afterVersion": str(version)},
        # others answer already, where there are several
        retry_after_s=0,
        unavailable=True,
    )


def upgrade_unfinished() -> FlorinError:
    """Processes of an older release are alive, and would not understand what is asked for."""
    return FlorinError(
        Code.INTERNAL_ERROR,
        "An upgrade of the service is not finished: try again in some minutes",
        retry_after_s=60,
        unavailable=True,
    )


def dependency_down(*, wcp_profile: bool) -> FlorinError:
    """Something behind us does not answer; the same call may succeed in a moment."""
    if wcp_profile:
        return FlorinError(Code.BAD_GATEWAY, retry_after_s=1)
    return FlorinError(Code.INTERNAL_ERROR, unavailable=True, retry_after_s=1)
