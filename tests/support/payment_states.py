"""Payments in every state that a payment can be in."""

from __future__ import annotations

from tests.support.service_harness import START_S, PaymentOffer, ServiceHarness

CHECKOUT = {"successUrl": "https://shop.example/ok?a=1#b", "errorUrl": "https://shop.example/no"}
STATES = (
    "requires_action",
    "processing",
    "succeeded",
    "failed_mismatch",
    "failed_lapsed",
    "expired",
    "cancelled_by_user",
    "cancelled_by_merchant",
)


async def create_payment_per_state(desk: ServiceHarness) -> dict[str, PaymentOffer]:
    """Create one payment in each state; the chain is stopped afterwards."""
    fault = {"kind": "answer", "method": "eth_sendRawTransaction", "effect": "drop", "times": 99}
    await desk.chain.ask("florin_fault", fault)
    lapsed = await desk.offer(expiresAt=desk.now + 1, referenceId=None)
    assert (await desk.confirm(lapsed))["status"] == "processing"
    expired = await desk.offer(expiresAt=desk.now + 1)
    assert (await desk.wait_lapsed(lapsed.payment_id, 400))["status"] == "failed"
    await desk.chain.ask("florin_fault", {"kind": "clear"})
    # the duration differs between runs
    desk.clock.advance(START_S + 1000 - desk.clock.now_us() / 1_000_000)

    succeeded = await desk.offer(checkout=CHECKOUT)
    await desk.confirm(succeeded)
    desk.clock.advance(0.25)
    assert (await desk.wait_final(succeeded.payment_id))["status"] == "succeeded"
    failed = await desk.offer()
    mismatched = PaymentOffer(
        failed.payment_id, failed.option_id, ["0x" + "11" * 32], failed.wallet, failed.option
    )
    assert (await desk.confirm(mismatched))["status"] == "failed"
    by_user, by_merchant = await desk.offer(), await desk.offer()
    await desk.rest.cancel(by_user.payment_id)
    await desk.rest.merchant_cancel(by_merchant.payment_id)
    requires_action, processing = await desk.offer(), await desk.offer()
    await desk.chain.ask("florin_fault", {"kind": "mining", "paused": True})
    assert (await desk.confirm(processing))["status"] == "processing"
    return {
        "requires_action": requires_action,
        "processing": processing,
        "succeeded": succeeded,
        "failed_mismatch": mismatched,
        "failed_lapsed": lapsed,
        "expired": expired,
        "cancelled_by_user": by_user,
        "cancelled_by_merchant": by_merchant,
    }
