"""Programs that pay by x402: they sign a transfer and repeat their request until it is answered.

Some repeat a signature, try the signature of another payment, or sign several at once; others let a
server settle through the facilitator. No signature is charged twice, and no payment either.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import aiohttp

from tests.chaos.chaos_service import ChaosEnvironment
from tests.chaos.fast_clock import QuickClock
from tests.chaos.plan import BuyerBehavior
from tests.chaos.service_client import POLL_S
from tests.support.x402 import X402Buyer, make_requirements

if TYPE_CHECKING:
    from tests.chaos.payment_run import PaymentRun, PaymentRunner

# the server whose paid answers the facilitator settles
SHOP = "0x" + "5c" * 20
Json = dict[str, Any]
_AT_ONCE = 4
_VALID_S = 300
# requests of a program until it gives up
_TRIES = 400
_PENDING = "settlement_pending"


@dataclass(frozen=True)
class X402Answer:
    """An answer, with the header that has the transaction."""

    status: int
    body: Json
    response: str | None

    @property
    def offer(self) -> Json:
        """Return the first way to pay."""
        offer: Json = self.body["accepts"][0]
        return offer


class X402Buyers:
    """The programs of one run."""

    def __init__(
        self, environment: ChaosEnvironment, runner: PaymentRunner, clock: QuickClock
    ) -> None:
        self._environment = environment
        self._runner = runner
        self._clock = clock
        self._service_client = runner.service_client
        self._signed: list[tuple[str, Json]] = []  # of all payments
        self._ways: dict[BuyerBehavior, Callable[[PaymentRun], Awaitable[None]]] = {
            BuyerBehavior.HONEST: self._pay,
            BuyerBehavior.REPEATS: self._repeat,
            BuyerBehavior.BORROWER: self._borrow,
            BuyerBehavior.RIVALS: self._sign_several,
            BuyerBehavior.SILENT: self._sign_and_leave,
            BuyerBehavior.GONE: self._read_and_leave,
        }

    async def act(self, payment_run: PaymentRun) -> None:
        """Pay as the order's buyer does."""
        await self._ways[payment_run.order.behavior](payment_run)

    # ---- the behaviors

    async def _pay(self, payment_run: PaymentRun, signed: Json | None = None) -> X402Answer:
        """Repeat the request, with a new signature whenever one is required."""
        for _ in range(_TRIES):
            answer = await self._request(payment_run, signed)
            if answer.status == 402:
                if signed is not None:
                    payment_run.refused = str(answer.body.get("error"))
                signed = self._sign(payment_run, answer.offer)
            elif answer.status != 202:
                return answer
            await asyncio.sleep(POLL_S)
        return answer

    async def _repeat(self, payment_run: PaymentRun) -> None:
        """Send one signature many times at once, and again after the payment."""
        offer = await self._read_offer(payment_run)
        if offer is None:
            return
        signed = self._sign(payment_run, offer)
        answers = await asyncio.gather(
            *(self._request(payment_run, signed) for _ in range(_AT_ONCE))
        )
        self._check_statuses(payment_run, answers)
        first = await self._pay(payment_run, signed)
        again = await self._request(payment_run, signed)
        if first.status == 200 and (again.status, again.response) != (200, first.response):
            self._service_client.bad.append(f"{payment_run} was answered {first}, and then {again}")

    async def _borrow(self, payment_run: PaymentRun) -> None:
        """Send the signature of another payment, as it is or with our own terms."""
        offer = await self._read_offer(payment_run)
        if offer is None:
            return
        signatures = [signed for payment_id, signed in self._signed]
        if not signatures:
            signatures = [self._sign(payment_run, {**offer, "payTo": SHOP})]
        borrowed = copy.deepcopy(signatures[payment_run.order.n % len(signatures)])
        if payment_run.order.variant % 2:
            borrowed["accepted"] = offer
        answer = await self._request(payment_run, borrowed)
        if answer.status in {200, 202}:
            self._service_client.bad.append(f"{payment_run} was paid by another's signature")
        await self._pay(payment_run)

    async def _sign_several(self, payment_run: PaymentRun) -> None:
        """Send different signatures at once; one of them pays."""
        offer = await self._read_offer(payment_run)
        if offer is None:
            return
        several = [self._sign(payment_run, offer) for _ in range(_AT_ONCE)]
        answers = await asyncio.gather(*(self._request(payment_run, each) for each in several))
        self._check_statuses(payment_run, answers)
        await self._pay(payment_run, several[0])

    async def _sign_and_leave(self, payment_run: PaymentRun) -> None:
        """Send a signature until it is accepted, and never ask what came of it."""
        signed = None
        for _ in range(_TRIES):
            answer = await self._request(payment_run, signed)
            if answer.status != 402:
                return
            signed = self._sign(payment_run, answer.offer)

    async def _read_and_leave(self, payment_run: PaymentRun) -> None:
        await self._read_offer(payment_run)

    async def facilitate(self, payment_run: PaymentRun) -> str:
        """Settle a transfer of another server through the facilitator; return how it ends."""
        requirements = make_requirements(SHOP, payment_run.order.cents * 10_000)
        requirements["maxTimeoutSeconds"] = _VALID_S
        signed = self._sign(payment_run, requirements)
        request = {
            "x402Version": 2,
            "paymentPayload": signed,
            "paymentRequirements": requirements,
        }
        result: Json = {"success": False, "errorReason": _PENDING}
        for _ in range(_TRIES):
            result = await self._settle(request)
            if result["success"] or result["errorReason"] != _PENDING:
                break
            await asyncio.sleep(POLL_S)
        again = await self._settle(request)
        if result["success"] and (again["success"], again["transaction"]) != (
            True,
            result["transaction"],
        ):
            self._service_client.bad.append(f"{payment_run} was settled {result}, then {again}")
        payment_run.refused = "" if result["success"] else str(result["errorReason"])
        return "facilitated" if result["success"] else "not facilitated"

    # ---- requests

    def _check_statuses(self, payment_run: PaymentRun, answers: list[X402Answer]) -> None:
        """Check that no answer requires another signature while one is being sent."""
        # a node that did not answer can have kept one from being sent before another was
        unavailable = "network_unavailable"
        statuses = {item.status for item in answers if item.body.get("error") != unavailable}
        if 402 in statuses and statuses & {200, 202}:
            self._service_client.bad.append(f"{payment_run} was answered {answers}")

    async def _read_offer(self, payment_run: PaymentRun) -> Json | None:
        answer = await self._request(payment_run, None)
        return answer.offer if answer.status == 402 else None

    def _sign(self, payment_run: PaymentRun, offer: Json) -> Json:
        wallet = self._runner.wallets.get_wallet(payment_run.order)
        now_s = self._clock.now_us() // 1_000_000
        end_s = now_s + int(offer["maxTimeoutSeconds"])
        signed = X402Buyer(wallet.secret).sign(offer, now_s, validBefore=str(end_s))
        if offer["payTo"].lower() != SHOP:
            self._signed.append((payment_run.payment_id, signed))
        return signed

    async def _request(self, payment_run: PaymentRun, signed: Json | None) -> X402Answer:
        """Return the answer of the payment's link, repeated until there is one."""
        headers = {"Accept": "application/json"}
        if signed is not None:
            encoded = base64.b64encode(json.dumps(signed).encode()).decode()
            headers["PAYMENT-SIGNATURE"] = encoded
        path = f"/x402/{payment_run.payment_id}"
        return await self._ask(payment_run, "GET", path, headers, None)

    async def _settle(self, request: Json) -> Json:
        key = self._environment.read_facts("credentials")["FACILITATOR_KEY"]
        answer = await self._ask(
            None, "POST", "/x402/facilitator/settle", {"Api-Key": key}, request
        )
        return answer.body

    async def _ask(
        self, payment_run: PaymentRun | None, method: str, path: str, headers: Json, body: Any
    ) -> X402Answer:
        service_client = self._service_client
        if payment_run is not None:
            headers["X-Forwarded-For"] = service_client.caller(payment_run.order.n).wallet[
                "X-Forwarded-For"
            ]
        while True:
            try:
                async with service_client.session.request(
                    method, service_client.api.base + path, json=body, headers=headers
                ) as answer:
                    if answer.status < 500 and answer.status != 429:
                        response = answer.headers.get("PAYMENT-RESPONSE")
                        return X402Answer(answer.status, await answer.json(), response)
                    if answer.status == 500:
                        service_client.bad.append(f"{path}: {await answer.text()}")
            except (aiohttp.ClientError, ConnectionError, TimeoutError):
                service_client.lost += 1
                service_client.api.base = self._environment.read_facts("shop")["url"]
            await asyncio.sleep(POLL_S)
