"""Apply one action at a time to the service and to the model, and compare the results."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import dataclass

from tests.model.environment import Buyer, Stage
from tests.model.lifecycle import (
    CONFLICT,
    EXPIRED,
    INVALID,
    SECOND_US,
    UNKNOWN,
    Key,
    Life,
    Part,
    Submission,
)
from tests.model.readers import Outcome, Readers
from tests.support.api import Json


@dataclass
class _Stream:
    """An open stream; `heard` is the last version that it returned."""

    events: AsyncIterator[Json]
    heard: int = -1


class Player(Readers):
    """The payments of one run, on a stage that earlier runs have used.

    Each action checks its payment with every reader afterwards; moves of the clock or the chain
    check all payments.
    """

    def __init__(self, stage: Stage) -> None:
        super().__init__(stage)
        stage.runs += 1
        self.run = stage.runs
        # a run must not depend on the part of a second in which the previous run ended
        stage.clock.move(-stage.now_us % SECOND_US, wake=True)
        self.lives: list[Life] = []
        self.keys: dict[str, Key] = {}
        self.options_by_id: dict[str, Json] = {}
        self._streams: dict[str, _Stream] = {}
        self._numbers = itertools.count()
        self._waiting: set[str] = set()

    def _step(self, kind: str, life: Life | None = None) -> None:
        self.stage.steps += 1
        self.stage.kinds[kind] += 1
        if life is not None:
            life.clock(self.stage.now_us)

    async def look(self, api: str, life: Life) -> None:
        """Check that every reader, and the payment's stream, agrees with the model."""
        await self.check(api, life)
        stream = self._streams.get(life.id)
        if stream is not None and stream.heard != life.version:
            await self.event(life, stream.events)
            stream.heard = life.version

    # the merchant's actions

    def order(self, value: int, ttl_s: int | None) -> Json:
        """Return a body that no other order has."""
        body: Json = {
            "amount": {"unit": "iso4217/USD", "value": str(value)},
            "referenceId": f"order-{self.run}-{next(self._numbers)}",
        }
        if ttl_s is not None:
            body["expiresAt"] = self.stage.now_us // SECOND_US + ttl_s
        return body

    async def create(self, api: str, body: Json, key: str | None = None) -> Life | None:
        """Create, repeat or fail; return the payment if it is new."""
        self._step("create")
        now_us = self.stage.now_us
        name = None if key is None else f"{self.run}-{key}"
        result = await self.ask(self.stage.apis[api].create(body, name))
        known_key = self.keys.get(key) if key is not None else None
        if known_key is not None and not known_key.lapsed(now_us):
            expected: Outcome = known_key.answer if body == known_key.body else CONFLICT
            self.note(known_key.life, f"{api} create again under {key} {body}")
            self.same(known_key.life, "a used key", result, expected)
            return None
        if body.get("expiresAt", now_us) * SECOND_US <= now_us:
            self.same(None, f"create {body}", result, INVALID)
            return None
        if isinstance(result, tuple):
            self.differ(None, f"create {body}", result, 201)
        expires_at = body.get("expiresAt", now_us // SECOND_US + 900)
        value, reference = body["amount"]["value"], body["referenceId"]
        life = Life(result["paymentId"], value, reference, expires_at, now_us)
        self.note(life, f"{api} create {body} key {key}")
        members = {"expiresAt": life.expires_at, "paymentId": life.id, **life.build_status()}
        self.same(life, "created", {name: result.get(name) for name in members}, members)
        self.lives.append(life)
        if key is not None:
            self.keys[key] = Key(body, result, now_us, life)
        await self.look(api, life)
        return life

    async def cancel(self, api: str, life: Life, by: str) -> None:
        """Cancel a payment; `by` is user or merchant."""
        self._step("cancel", life)
        calls = self.stage.apis[api]
        call = calls.cancel if by == "user" else calls.merchant_cancel
        self.note(life, f"{api} cancel by {by}")
        result = await self.ask(call(life.id))
        expected: Outcome = life.cancel(by) or life.cancelled()
        self.same(life, f"cancel by {by}", result, expected)
        await self.look(api, life)

    async def simulate(self, api: str, life: Life, outcome: str) -> None:
        self._step("simulate", life)
        self.note(life, f"{api} simulate {outcome}")
        result = await self.ask(self.stage.apis[api].simulate(life.id, outcome))
        expected = life.simulate(outcome)
        # a payment not submitted yet can stay behind
        self._waiting.discard(life.id)
        if expected is None:
            self.status(life, "simulate", result)
        else:
            self.same(life, f"simulate {outcome}", result, expected)
        await self.look(api, life)

    async def refund(self, api: str, life: Life, unit: str = "", value: int = 0) -> None:
        """Refund all, or an amount in a unit (token, fiat or other); then repeat the request."""
        self._step("refund", life)
        self.note(life, f"{api} refund {unit} {value}")
        amount = None
        if unit:
            token = life.info["optionAmount"]["unit"] if life.info else "caip19/none"
            units = {"token": token, "fiat": "iso4217/USD", "other": "iso4217/EUR"}
            amount = {"unit": units[unit], "value": str(value)}
        call, key = self.stage.apis[api].refund, f"refund-{self.run}-{next(self._numbers)}"
        result = await self.ask(call(life.id, key, amount))
        expected = life.refund(unit, value)
        if isinstance(expected[1], str):
            self.same(life, "refund", result, expected)
        elif isinstance(result, tuple):
            self.differ(life, "refund", result, 200)
        else:
            self.same(life, "the payment of the refund", result["paymentId"], life.id)
            part = Part(result["refundId"], int(expected[0]), expected[1])
            life.parts.append(part)
            moved = (int(result["amount"]["value"]), int(result["paymentAmount"]["value"]))
            self.same(life, "what a refund gives back", moved, (part.token, part.fiat))
            self.same(life, "a repeated refund", await self.ask(call(life.id, key, amount)), result)
        await self.look(api, life)

    # the wallet's actions

    async def options(self, api: str, life: Life, buyer: Buyer) -> None:
        """List the options of a wallet; an option never changes."""
        self._step("options", life)
        self.note(life, f"{api} options for {buyer.account}")
        result = await self.ask(self.stage.apis[api].options(life.id, [buyer.account, "nonsense"]))
        if life.status == "expired":
            self.same(life, "options", result, EXPIRED)
        elif isinstance(result, tuple):
            self.differ(life, "options", result, 200)
        elif life.is_open:
            self.same(life, "the number of options", len(result["options"]), 1)
            (option,) = result["options"]
            self.same(life, "the option's account", option["account"], buyer.account)
            existing = life.offers.setdefault(buyer.account, option["id"])
            self.same(life, "the option", option, self.options_by_id.setdefault(existing, option))
        else:
            self.same(life, "options", result["options"], [])
        await self.look(api, life)

    async def fetch(self, api: str, life: Life, option_id: str, data: str) -> None:
        self._step("fetch", life)
        self.note(life, f"{api} fetch {option_id} {data!r}")
        result = await self.ask(self.stage.apis[api].fetch(life.id, option_id, data))
        expected: Outcome | None = life.unpayable()
        if expected is None and (data or option_id not in life.offers.values()):
            expected = UNKNOWN
        if expected is None:
            expected = {"actions": self.options_by_id[option_id]["actions"]}
        self.same(life, "fetch", result, expected)
        await self.look(api, life)

    async def confirm(self, api: str, life: Life, sent: Submission) -> None:
        self._step("confirm", life)
        self.note(life, f"{api} confirm {sent}")
        was_open = life.is_open
        expected = life.confirm(sent)
        outputs = list(sent.outputs)
        result = await self.ask(self.stage.apis[api].confirm(life.id, sent.option_id, outputs))
        if expected is None:
            self.status(life, "confirm", result)
        else:
            self.same(life, "confirm", result, expected)
        if was_open and life.status == "processing":
            self._waiting.add(life.id)
        await self.look(api, life)

    async def follow(self, api: str, life: Life) -> None:
        """Open a stream that must return every later change."""
        self._step("follow", life)
        self.note(life, f"{api} follows")
        if life.id not in self._streams:
            self._streams[life.id] = _Stream(self.stage.apis[api].watch(life.id))
        await self.look(api, life)

    async def poll(self, life: Life) -> None:
        """Check that a long poll of an ended payment is answered at once."""
        self._step("poll", life)
        path = f"/v1/gateway/payment/{life.id}/status?maxPollMs=25000"
        if life.is_final:
            rest = self.stage.rest
            self.status(life, "a long poll", await self.ask(rest.call("GET", path, rest.wallet)))

    # events for all payments

    async def advance(self, api: str, by_us: int, *, wake: bool) -> None:
        """Advance the clock; sleepers may or may not notice."""
        self._step("advance")
        # a late settler would meet a chain of another time
        await self.submitted()
        self.stage.clock.move(by_us, wake=wake)
        for life in self.lives:
            if not life.is_final:
                self.note(life, f"{by_us} µs pass, {'' if wake else 'un'}noticed")
        await self._look_around(api)

    async def settle(self, api: str) -> None:
        """Seal a block, and let the service learn of it."""
        self._step("settle")
        await self.submitted()
        busy = [life for life in self.lives if life.status == "processing" and not life.stalled]
        ends = [asyncio.ensure_future(self._end(api, life)) for life in busy]
        await self.stage.mine()
        self.stage.wake_settler()
        now_s = self.stage.now_us // SECOND_US
        for life, end in zip(busy, ends, strict=True):
            self.note(life, "the chain seals a block")
            life.settle(now_s)
            self.status(life, "the last event", await end)
        await self._look_around(api)

    async def _look_around(self, api: str) -> None:
        """Check all payments that can still change, and the ended ones: all, or one in turn."""
        over = [life for life in self.lives if life.is_final and life.read_version == life.version]
        if over and not self.stage.thorough:
            over = [over[self._turn % len(over)]]
        going_on = [life for life in self.lives if not life.is_final]
        changed = [
            life for life in self.lives if life.is_final and life.read_version < life.version
        ]
        for life in (*going_on, *changed, *over):
            await self.look(api, life)

    async def submitted(self) -> None:
        """Wait until every accepted payment is submitted to the chain."""
        waiting, self._waiting = self._waiting, set()
        missing = await self.stage.outbox.all_of(waiting, self.stage.patience_s)
        for life in self.lives:
            if life.id in missing:
                self.differ(life, "the settler", "nothing", "a transaction")

    async def _end(self, api: str, life: Life) -> Json:
        """Return the last state of a stream."""
        state: Json = {}
        try:
            async with asyncio.timeout(self.stage.patience_s):
                async for result in self.stage.apis[api].watch(life.id):
                    state = result
        except TimeoutError:
            self.differ(life, "a stream does not end", state, "a final state")
        state.pop("version")
        return state

    async def close(self) -> None:
        """Check everything once more, and close what the run has open."""
        try:
            await self.submitted()
            # a difference would only be found again
            for life in [] if self.failed else self.lives:
                await self.look("rest", life)
                self.stage.ends[life.status] += 1
        finally:
            for stream in self._streams.values():
                await stream.events.aclose()  # type: ignore[attr-defined]
            self._streams.clear()
