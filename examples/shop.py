"""A shop's back end: accepts orders, creates their payments, and ships paid orders.

`POST /orders` {"article": "tea"} answers with an order id and its payment link, `POST /florin`
receives webhooks. A webhook is only a trigger: the shop acts on the payment that it then reads.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
import sys
from collections.abc import AsyncIterator

from aiohttp import web
from florin.v1.merchant_pb2 import PaymentDetail
from florin.v1.payment_pb2 import PAYMENT_STATUS_SUCCEEDED
from florin_client import AsyncClient, FlorinError, NotFoundError, webhooks

CENTS = {"tea": 450, "coffee": 1250}
TABLES = """
CREATE TABLE IF NOT EXISTS orders (id TEXT PRIMARY KEY, article TEXT NOT NULL,
  cents INTEGER NOT NULL, payment TEXT UNIQUE, shipped INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS seen (webhook TEXT PRIMARY KEY);
"""


class Shop:
    """Orders and received webhooks, in a file: they survive a restart."""

    def __init__(self, file: str, secret: str) -> None:
        self.store = sqlite3.connect(file)
        self.store.executescript(TABLES)
        self.secret = secret

    async def connected(self, _: web.Application) -> AsyncIterator[None]:
        """Provide one client for all calls, while the shop is open."""
        async with AsyncClient(
            os.environ["FLORIN_GRPC_TARGET"],
            plaintext=True,  # for a Florin on this machine; omit it elsewhere, to use TLS
            api_key=os.environ["FLORIN_PARTNER_KEY"],
            merchant_id=os.environ["FLORIN_MERCHANT_ID"],
        ) as client:
            self.florin = client.merchant
            yield

    async def order(self, request: web.Request) -> web.Response:
        """Create an order and its payment; the price is the shop's, whatever the buyer sends."""
        try:
            article = (await request.json())["article"]
            cents = CENTS[article]
        except (ValueError, KeyError, TypeError):
            return web.Response(status=400, text=f"articles: {', '.join(CENTS)}")
        order_id = f"shop-{secrets.token_hex(8)}"
        with self.store:
            order = (order_id, article, cents)
            self.store.execute("INSERT INTO orders (id, article, cents) VALUES (?, ?, ?)", order)
        try:
            # a repeated request with this key creates no second payment
            payment = await self.florin.create_payment(
                amount=("iso4217/USD", cents), reference_id=order_id, idempotency_key=order_id
            )
        except FlorinError as error:
            print(f"{order_id} cannot be paid: {error}", file=sys.stderr)
            return web.Response(status=503, text="payments are unavailable, try again later")
        with self.store:
            named = (payment.payment_id, order_id)
            self.store.execute("UPDATE orders SET payment = ? WHERE id = ?", named)
        return web.json_response({"order": order_id, "pay": payment.gateway_url}, status=201)

    async def webhook(self, request: web.Request) -> web.Response:
        """Handle a webhook: answer 2xx only for completed work; Florin retries the rest."""
        try:
            event = webhooks.verify(await request.read(), request.headers, self.secret)
        except webhooks.WebhookError as error:
            return web.Response(status=400, text=str(error))
        seen = (event["id"],)
        if self.store.execute("SELECT 1 FROM seen WHERE webhook = ?", seen).fetchone():
            return web.Response(status=204)
        if event["type"].startswith("payment."):
            try:
                payment = await self.florin.get_payment(event["data"]["payment_id"])
            except NotFoundError:
                return web.Response(status=204)  # another merchant's
            except FlorinError as error:
                return web.Response(status=503, text=str(error))
            succeeded = payment.status == PAYMENT_STATUS_SUCCEEDED
            if event["type"] == "payment.succeeded" and not succeeded:
                return web.Response(status=503, text="the payment has a different status")
            if succeeded:
                self.ship(payment)
        with self.store:
            self.store.execute("INSERT OR IGNORE INTO seen VALUES (?)", seen)
        return web.Response(status=204)

    def ship(self, payment: PaymentDetail) -> None:
        """Ship the order of a succeeded payment, once, if the payment matches the order exactly."""
        paid = (payment.payment_id, payment.reference_id, payment.amount.unit, payment.amount.value)
        with self.store:
            done = self.store.execute(
                "UPDATE orders SET shipped = 1 WHERE payment = ? AND id = ? "
                "AND 'iso4217/USD' = ? AND cents = ? AND NOT shipped RETURNING id, article",
                paid,
            ).fetchall()
        for order_id, article in done:
            print(f"ships {article} for {order_id}", flush=True)


def main() -> None:
    """Serve on the port in SHOP_PORT."""
    shop = Shop(os.environ.get("SHOP_FILE", "shop.db"), os.environ["WEBHOOK_SECRET"])
    app = web.Application()
    app.cleanup_ctx.append(shop.connected)
    app.router.add_post("/orders", shop.order)
    app.router.add_post("/florin", shop.webhook)
    web.run_app(app, host="127.0.0.1", port=int(os.environ.get("SHOP_PORT", "3000")))


if __name__ == "__main__":
    main()
