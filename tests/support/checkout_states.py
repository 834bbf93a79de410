"""Every state of a payment page, and how a test reaches it."""

from __future__ import annotations

from tests.support.service_harness import ORDER, ServiceHarness

URLS = {"successUrl": "https://shop.example/ok?a=1", "errorUrl": "https://shop.example/no"}
# each with the heading that a buyer sees
STATES = {
    "requires_action": "Choose how to pay",
    "processing": "Confirming your payment",
    "succeeded": "Paid",
    "failed": "Payment failed",
    "expired": "Payment expired",
    "cancelled": "Payment canceled",
    "refunded": "Refunded",
    "unknown": "Payment not found",
}
_OUTCOMES = {"processing": "stall", "refunded": "succeeded"}


async def reach_state(desk: ServiceHarness, state: str, **order: object) -> str:
    """Return the path of a page that shows a state."""
    if state == "unknown":
        return "/pay_unknown"
    payment_id: str = (await desk.rest.create({**ORDER, **order}))["paymentId"]
    if state != "requires_action":
        await desk.rest.simulate(payment_id, _OUTCOMES.get(state, state))
    if state == "refunded":
        await desk.rest.refund(payment_id)
    return f"/{payment_id}"
