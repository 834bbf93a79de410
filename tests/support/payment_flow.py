"""The simplest payment, followed to its end."""

from __future__ import annotations

ORDER = {"amount": {"unit": "iso4217/USD", "value": "1250"}, "referenceId": "order-1001"}
PRICE = 12_500_000  # 12.50 in a token of six decimals


async def follow_payment(api, payment_id, after=None):
    return [state async for state in api.watch(payment_id, after)]
