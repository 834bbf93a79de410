"""All readers of a payment; each must agree with the model."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NoReturn

from tests.model.environment import START_US, Stage
from tests.model.lifecycle import EXPIRED, MINOR_UNITS, SECOND_US, Life, Part, Refusal
from tests.support.api import ApiCallError, Json

Outcome = Json | Refusal
STORY_LINES_MAX = 60


class Readers:
    """Readers that compare a stage's service with a model, and report the story of a difference."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.failed = False
        self._turn = 0

    # reports

    def note(self, life: Life, what: str) -> None:
        after_s = (self.stage.now_us - START_US) / SECOND_US
        life.story.append(f"{after_s:16.6f} s  {what}")

    def differ(self, life: Life | None, what: str, result: object, expected: object) -> NoReturn:
        self.failed = True
        lines = [what, f"  actual   {result}", f"  expected {expected}"]
        if life is not None:
            now_s = (life.expires_at * SECOND_US - START_US) / SECOND_US
            lines.append(f"  of {life.id}, {life.status}, version {life.version}")
            lines.append(f"  which expires at {now_s} s")
            lines += [f"  {line}" for line in life.story[-STORY_LINES_MAX:]]
        raise AssertionError("\n".join(lines))

    def same(self, life: Life | None, what: str, result: object, expected: object) -> None:
        if result != expected:
            self.differ(life, what, result, expected)

    async def ask(self, call: Awaitable[Json]) -> Outcome:
        self.stage.calls += 1
        try:
            return await call
        except ApiCallError as refused:
            return refused.http, refused.code

    # checks

    async def check(self, api: str, life: Life) -> None:
        """Check a payment, with the readers in another order each time.

        Use all readers if the stage is thorough or the payment has changed, otherwise two.
        """
        life.clock(self.stage.now_us)
        calls = self.stage.apis[api]
        looks: list[Callable[[], Awaitable[None]]] = [
            lambda: self._status(life, "the wallet's status", calls.status(life.id)),
            lambda: self._status(life, "the merchant's status", calls.merchant_status(life.id)),
            lambda: self._detail(life, calls.detail(life.id)),
            lambda: self._info(life, calls.info(life.id)),
            lambda: self._options(life, calls.options(life.id, [])),
            lambda: self._snapshot(api, life),
        ]
        if api == "rest":
            rest = self.stage.rest
            path = f"/v1/merchant/payment/{life.id}/status"
            looks.append(
                lambda: self._status(life, "the older path", rest.call("GET", path, rest.merchant))
            )
        self._turn += 1
        first = self._turn % len(looks)
        looks = looks[first:] + looks[:first]
        if life.version == life.read_version and not self.stage.thorough:
            looks = looks[:2]
        if api == "rest":
            # the calls are answered in this process, so sequential waits cost nothing
            for look in looks:
                await look()
        else:
            await asyncio.gather(*(look() for look in looks))
        life.read_version = life.version

    async def _status(self, life: Life, what: str, call: Awaitable[Json]) -> None:
        self.status(life, what, await self.ask(call))

    def status(self, life: Life, what: str, result: Any) -> None:
        """Compare a Status; learn the effect from the first that has it."""
        if isinstance(result, tuple):
            self.differ(life, what, result, life.build_status())
        if life.status == "succeeded" and life.info is None:
            life.info = self._effect(life, result["info"])
        self.same(life, what, result, {**life.build_status(), "info": life.info})

    def _effect(self, life: Life, info: Any) -> Json:
        if not info or not info["txId"]:
            self.differ(life, "the effect", info, "a transaction")
        if life.simulated:
            self.same(life, "the transaction", info["txId"], f"test:{life.id}")
        value = info["optionAmount"]["value"]
        self.same(life, "the amount paid", value, str(int(life.value) * MINOR_UNITS))
        effect: Json = info
        return effect

    async def _detail(self, life: Life, call: Awaitable[Json]) -> None:
        result = await self.ask(call)
        if isinstance(result, tuple):
            self.differ(life, "detail", result, 200)
        if life.status == "succeeded" and life.info is None:
            life.info = self._effect(life, result["info"])
        expected = life.detailed()
        self.same(life, "detail", {name: result.get(name) for name in expected}, expected)
        self.same(life, "amount", result["amount"]["value"], life.value)
        self._refunds(life, result)
        self._buyer(life, result)

    def _refunds(self, life: Life, result: Json) -> None:
        """Check that the refunds equal the model's, and do not exceed the payment."""
        parts = [
            Part(
                refund["refundId"],
                int(refund["amount"]["value"]),
                int(refund["paymentAmount"]["value"]),
            )
            for refund in result["refunds"]
        ]
        self.same(life, "the refunds", parts, life.parts)
        newest = result["refunds"][-1] if parts else None
        self.same(life, "the newest refund", result["refund"], newest)
        totals = result.get("refunded")
        if not parts:
            self.same(life, "what is refunded", totals, None)
            return
        self.same(
            life,
            "what is refunded and left",
            {name: int(amount["value"]) for name, amount in totals.items()},
            {
                "amount": sum(part.token for part in parts),
                "paymentAmount": sum(part.fiat for part in parts),
                "refundable": life.token_left,
                "paymentRefundable": life.fiat_left,
            },
        )
        if life.token_left < 0 or sum(part.fiat for part in parts) > int(life.value):
            self.differ(life, "what is refunded", parts, "no more than was paid")

    async def _info(self, life: Life, call: Awaitable[Json]) -> None:
        result = await self.ask(call)
        if isinstance(result, tuple):
            self.differ(life, "info", result, 200)
        self._info_is(life, result)

    def _info_is(self, life: Life, result: Json) -> None:
        expected = {
            "paymentId": life.id,
            "status": life.status,
            "isFinal": life.is_final,
            "expiresAt": life.expires_at,
        }
        self.same(life, "info", {name: result.get(name) for name in expected}, expected)
        self._buyer(life, result)

    def _buyer(self, life: Life, result: Json) -> None:
        buyer = result["buyer"] and result["buyer"]["accountCaip10"]
        self.same(life, "the buyer", buyer, life.buyer)

    async def _options(self, life: Life, call: Awaitable[Json]) -> None:
        """Request options for no account: only the payment's data is left."""
        result = await self.ask(call)
        if life.status == "expired":
            self.same(life, "options", result, EXPIRED)
            return
        if isinstance(result, tuple):
            self.differ(life, "options", result, 200)
        self.same(life, "options", result["options"], [])
        if not life.is_open:
            self._info_is(life, result["info"])
        if life.status == "succeeded" and life.info is None:
            life.info = self._effect(life, result["resultInfo"])
        self.same(life, "the result with the options", result.get("resultInfo"), life.info)

    async def _snapshot(self, api: str, life: Life) -> None:
        """Check a new stream's first event; with `after_version` it has only newer ones."""
        after = (None, life.version - 1, life.version)[self._turn % 3]
        if after is not None and (after < 0 or (after == life.version and not life.is_final)):
            after = None
        stream = self.stage.apis[api].watch(life.id, after)
        self.stage.calls += 1
        try:
            if after == life.version:
                self.same(life, "events after the last", await self._next(life, stream), None)
                return
            await self.event(life, stream)
            if life.is_final:
                self.same(life, "events after the last", await self._next(life, stream), None)
        finally:
            await stream.aclose()  # type: ignore[attr-defined]

    async def event(self, life: Life, stream: AsyncIterator[Json]) -> None:
        """Check that the next event of a stream has the present state."""
        result = await self._next(life, stream)
        if result is None:
            self.differ(life, "a stream", "its end", life.build_status())
        self.same(life, "the version of an event", result.pop("version"), life.version)
        self.status(life, "an event", result)

    async def _next(self, life: Life, stream: AsyncIterator[Json]) -> Json | None:
        try:
            async with asyncio.timeout(self.stage.patience_s):
                return await anext(stream, None)
        except TimeoutError:
            self.differ(life, "a stream", "nothing", life.build_status())
