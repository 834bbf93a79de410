"""How long clients wait before they request the status of a payment again."""

from __future__ import annotations

from florin_server.domain.payments.payment import PaymentStatus

# the documented intervals: slow while a buyer decides, slower while a chain confirms
BUYER_POLL_MS = 1000
_CHAIN_MS_MAX = 2000
# four polls a second use a fifth of one device's rate limit, and are faster than any finality
_CHAIN_MS_MIN = 250


def compute_poll_ms(status: PaymentStatus, settle_s: float | None) -> int | None:
    """Return the suggested wait before the next poll, in ms; None if nothing will change.

    `settle_s` is the time that the payment usually takes on its chain once it is confirmed; None if
    unknown. Clients poll twice within it, so that they learn of the end soon, and never less often
    than documented.
    """
    if status.is_final:
        return None
    if status is not PaymentStatus.PROCESSING:
        return BUYER_POLL_MS
    if settle_s is None:
        return _CHAIN_MS_MAX
    return min(_CHAIN_MS_MAX, max(_CHAIN_MS_MIN, round(settle_s * 500)))
