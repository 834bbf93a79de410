"""Values that let generated requests pass the first checks: credentials, ids, outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tests.support.payment_states import create_payment_per_state
from tests.support.service_harness import ORDER, ServiceHarness
from tests.support.wallet import EvmTestWallet

KEPT_MAX = 200
OPEN_PAYMENTS = 6
MERCHANTS = 4
ENDPOINTS = 5
NOTES = 3
PAID = 12
DOLLAR = "eip155:8453/erc20:0x833589fCD6eDb6E08f4c7C32D4f71b54bdA02913"
ETHER = "eip155:1/slip44:60"
THERE = "0x" + "11" * 20


# payment, option and outputs
Offered: TypeAlias = tuple[str, str, list[Any]]


@dataclass
class Pool:
    """Grows with the ids in answers."""

    base: str
    merchant_id: str
    # by name of the security scheme: headers with valid credentials
    credentials: dict[str, list[dict[str, str]]]
    payments: list[str] = field(default_factory=list)
    # those that can be refunded once
    paid: list[str] = field(default_factory=list)
    merchants: list[str] = field(default_factory=list)
    settlements: list[tuple[str, str]] = field(default_factory=list)
    endpoints: list[str] = field(default_factory=list)
    # payment and note
    notes: list[tuple[str, str]] = field(default_factory=list)
    options: list[Offered] = field(default_factory=list)
    accounts: list[str] = field(default_factory=list)
    cursors: list[str] = field(default_factory=list)

    def learn(self, operation: str, body: Any) -> None:
        """Keep ids of created objects."""
        match operation, body:
            case "createPayment", {"paymentId": str(created_id)}:
                self._keep(self.payments, created_id)
            case "createMerchant", {"merchant": {"id": str(created_id)}}:
                self._keep(self.merchants, created_id)
            case _, {"nextCursor": str(cursor)} | {"next_cursor": str(cursor)}:
                self._keep(self.cursors, cursor)

    def _keep(self, values: list[Any], value: Any) -> None:
        if len(values) < KEPT_MAX:
            values.append(value)


async def filled(desk: ServiceHarness) -> Pool:
    """Return a pool with payments in every state, settlements, and every kind of key."""
    partner = desk.env["FLORIN_PARTNER_KEY"]
    _, wallet_key = await desk.key(None)
    app = {"App-Id": desk.env["FLORIN_APP_ID"], "Client-Id": desk.env["FLORIN_CLIENT_ID"]}
    pool = Pool(
        base=desk.rest.base,
        merchant_id=desk.env["FLORIN_MERCHANT_ID"],
        credentials={
            "AppId": [app],
            "ApiKey": [{"Api-Key": partner}],
            "WalletKey": [{"Api-Key": wallet_key}],
            "XApiKey": [{"X-Api-Key": partner}],
        },
    )
    # before the chain is stopped
    offers = [await desk.offer() for _ in range(OPEN_PAYMENTS)]
    offers += (await create_payment_per_state(desk)).values()
    for offer in offers:
        pool.payments.append(offer.payment_id)
        pool.options.append((offer.payment_id, offer.option_id, offer.outputs))
        pool.accounts.append(offer.wallet.account)
    pool.accounts.append(EvmTestWallet().account)
    headers = {"Api-Key": partner}
    for _ in range(PAID):
        payment_id = (await desk.rest.create(ORDER))["paymentId"]
        place = f"/v1/sandbox/payments/{payment_id}/simulate"
        await desk.rest.call("POST", place, headers, {"outcome": "succeeded"})
        pool.paid.append(payment_id)
    for number in range(MERCHANTS):
        merchant = {"merchantName": f"Shop {number}", "merchantEmail": "owner@shop.example"}
        once = {**headers, "Idempotency-Key": f"merchant {number}"}
        created = await desk.rest.call("POST", "/v1/merchants", once, merchant)
        place = f"/v1/merchants/{created['merchant']['id']}"
        pool.merchants.append(created["merchant"]["id"])
        expected = {"settlements": [{"asset": DOLLAR, "destination": f"eip155:8453:{THERE}"}]}
        once["Idempotency-Key"] = f"settlement {number}"
        settled = await desk.rest.call("POST", f"{place}/settlements/crypto", once, expected)
        pool.settlements.append((created["merchant"]["id"], settled["settlements"][0]["id"]))
    for number in range(ENDPOINTS):
        url = {"url": f"https://shop.example/{number}"} if number else {}
        result = await desk.rest.call("POST", "/v1/webhook-endpoints", headers, url)
        pool.endpoints.append(result["endpoint"]["id"])
    for payment_id in pool.paid[:NOTES]:
        place = f"/v1/payments/{payment_id}/notes"
        result = await desk.rest.call("POST", place, headers, {"text": "Left at the door"})
        pool.notes.append((payment_id, result["id"]))
    return pool
