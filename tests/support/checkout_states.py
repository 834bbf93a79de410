"""Every state that the page of a payment can be in, as a test gets there."""

from __future__ import annotations

from tests.support.desk import ORDER, Desk

URLS = {"successUrl": "https://shop.example/ok?a=1", "errorUrl": "https://shop.example/no"}
# each with the heading by which a buyer knows it
STATES = {
    "requires_action": "Waiting for your payment",
    "processing": "Your payment is on its way",
    "succeeded": "Paid",
    "failed": "Payment failed",
    "expired": "The time to pay is over",
    "cancelled": "Called off",
    "refunded": "Refunded",
    "unknown": "Payment not found",
}
_OUTCOMES = {"processing": "stall", "refunded": "succeeded"}


async def reached(desk: Desk, state: str, **order: object) -> str:
    """The path of a page that shows a state."""
    if state == "unknown":
        return "/pay_unknown"
    payment_id: str = (await desk.rest.create({**ORDER, **order}))["paymentId"]
    if state != "requires_action":
        await desk.rest.simulate(payment_id, _OUTCOMES.get(state, state))
    if state == "refunded":
        await desk.rest.refund(payment_id)
    return f"/{payment_id}"
