"""A merchant with a back end that receives events of its payments."""

from __future__ import annotations

from typing import Any

from tests.support.http_stub import make_stub_response
from tests.support.receiver import OK, WebhookReceiver
from tests.support.service_harness import ORDER, PartnerTenant, ServiceHarness
from tests.support.until import wait_until

PATH = "/v1/webhook-endpoints"


class WebhookMerchant:
    """Calls of a tenant about its endpoints and payments; `receiver` is its back end."""

    def __init__(
        self, desk: ServiceHarness, tenant: PartnerTenant, receiver: WebhookReceiver
    ) -> None:
        self.service, self.tenant, self.receiver = desk, tenant, receiver
        self.key = {"Api-Key": tenant.headers["Api-Key"]}

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.service.rest.call(method, PATH + path, self.key, body)

    async def endpoint(self, path: str = "/hooks", **more: Any) -> Any:
        body = {"url": self.receiver.url(path), **more}
        created = await self.call("POST", "", body)
        self.receiver.secret = self.receiver.secret or created["secret"]
        return created

    async def pay(self, *outcomes: str) -> str:
        created = await self.service.rest.call("POST", "/v1/payments", self.tenant.headers, ORDER)
        for outcome in outcomes:
            await self.simulate(created["paymentId"], outcome)
        return str(created["paymentId"])

    async def simulate(self, payment_id: str, outcome: str) -> None:
        path = f"/v1/sandbox/payments/{payment_id}/simulate"
        await self.service.rest.call("POST", path, self.tenant.headers, {"outcome": outcome})

    async def refund(self, payment_id: str) -> Any:
        headers, body = self.tenant.headers, {"paymentId": payment_id}
        return await self.service.rest.call("POST", "/v1/refunds", headers, body)

    async def detail(self, payment_id: str) -> Any:
        return await self.service.rest.call(
            "GET", f"/v1/payments/{payment_id}", self.tenant.headers
        )

    async def attempts(self, endpoint_id: str) -> Any:
        return (await self.call("GET", f"/{endpoint_id}/attempts"))["attempts"]

    async def wait_failed(self, endpoint_id: str, count: int = 1) -> Any:
        """Return the attempts once so many failed."""

        async def find_failed() -> Any:
            failed = [
                attempt for attempt in await self.attempts(endpoint_id) if not attempt["succeeded"]
            ]
            return failed if len(failed) >= count else None

        return await wait_until(find_failed)

    async def put_off(self) -> str:
        """Return a payment whose endpoint asked for a retry in a minute, and is free by now."""
        created = await self.endpoint()
        self.receiver.handler = make_stub_response(429, retry_after="60")
        payment_id = await self.pay()
        await self.wait_failed(created["endpoint"]["id"])
        self.receiver.handler = OK
        self.receiver.server.requests.clear()
        return payment_id
