"""Delivers what waits: claimed under a lease, sent, and concluded, each by itself.

Whoever hangs holds one connection of many. How much one endpoint, one host and one partner may have
at a time is bounded, and an endpoint that keeps failing is left alone for longer and longer. A
partner has at most half of the attempts that the others leave, so that some are left for the next.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from contextlib import suppress
from urllib.parse import urlsplit

from florin_server.clock import SystemClock, first_of, rest
from florin_server.domain.quarantine import ItemKind
from florin_server.domain.sealed import Lost
from florin_server.domain.text import replace_unprintable
from florin_server.domain.webhooks import schedule, signing
from florin_server.domain.webhooks.endpoint import Attempt, Endpoint, EndpointState
from florin_server.flows.app import Core
from florin_server.flows.quarantine.quarantine import is_unexpected
from florin_server.flows.webhooks.message import Message, next_message, opened
from florin_server.outbound.outbound import AddressBusy, Answer, NoAnswer, Outbound
from florin_server.store.engine.query import StoreError
from florin_server.store.webhooks import deliveries
from florin_server.store.webhooks.deliveries import Claimed, Policy

_log = logging.getLogger(__name__)

# what nobody told this process of is found after this
_LOOK_S = 0.5
# and what comes meanwhile is begun together
_PAUSE_S = 0.01
# beyond the time of an attempt: what its conclusion may take in the store
_LEASE_SPARE_S = 15.0
_DAY_US = 86_400_000_000
# of one endpoint at a time, as long as it takes what it is told
_TOGETHER = 4
_GONE = 410
# who answers so may say when it wants to be asked again
_BUSY = frozenset((429, 503))
# when what its host or its partner has no room for is looked at again
_CROWDED_US = 100_000
# and what an address has no room for, which is known only once its name was resolved
_BUSY_ADDRESS_US = 1_000_000
# of where a redirect leads to
_LOCATION_CHARS = 200


class Deliverer:
    """Delivers for one process.

    Signatures have the time that receivers compare with theirs: the database's, where machines
    share one, for a machine's clock may be wrong; never one that tests moved on.
    """

    def __init__(self, core: Core, outbound: Outbound) -> None:
        self._core = core
        self._outbound = outbound
        self._settings = core.settings.webhooks
        self._policy = Policy(
            int(self._settings.give_up_days * _DAY_US), self._settings.attempts_kept
        )
        self._open: dict[asyncio.Task[None], Claimed] = {}
        self._endpoints: Counter[str] = Counter()
        # as they were known last, those that have any under way
        self._known: dict[str, Endpoint] = {}
        self._hosts: Counter[str] = Counter()
        self._partners: Counter[str] = Counter()

    async def run(self) -> None:
        """Works until cancelled; what it has claimed by then is free for others."""
        asked = self._core.webhooks.asked
        # a run that failed may have counted what it never started
        for counted in (self._endpoints, self._hosts, self._partners):
            counted.clear()
        try:
            store = self._core.store
            # what a process before this one had, and nobody has now
            if store.exclusive and await store.read(deliveries.any_claimed()):
                await store.write(deliveries.free(self._core.clock.now_us()))
            while True:
                asked.clear()
                looked_us = self._core.clock.now_us()
                if not await self._begin():
                    await first_of(asked.wait(), rest(self._core.clock, _LOOK_S, looked_us))
                # this machine's time: every change of a payment asks
                await asyncio.sleep(_PAUSE_S)
        finally:
            await self._end()

    async def _begin(self) -> bool:
        """Begins what is due, as far as there is room; False if there was nothing to begin."""
        room = self._settings.concurrency - len(self._open)
        if room <= 0:
            return False
        now_us = self._core.clock.now_us()
        busy = [
            one
            for one, count in self._endpoints.items()
            if count >= self._together(self._known[one])
        ]
        crowded = [one for one, count in self._partners.items() if count >= self._of_partner(one)]
        if not await self._core.store.read(deliveries.is_due(now_us, busy, crowded)):
            return False
        lease_us = int((self._settings.timeout_s + _LEASE_SPARE_S) * 1_000_000)
        found = await self._core.store.write(
            deliveries.claim(now_us, lease_us, busy, room, crowded)
        )
        late = [one for one in found if not self._has_room(one)]
        self._known |= {one.endpoint.id: one.endpoint for one in found}
        self._known = {one: self._known[one] for one in self._endpoints}
        if late:
            # others of the same host or partner are on their way
            await self._core.store.write(deliveries.give_back(late, now_us + _CROWDED_US))
        for one in found:
            if one not in late:
                self._start(one)
        return len(found) > len(late)

    def _has_room(self, one: Claimed) -> bool:
        """Counts it, if its endpoint, host and partner have room for one more."""
        endpoint = one.endpoint
        counted = (
            (self._endpoints, endpoint.id, self._together(endpoint)),
            (self._hosts, _host_of(endpoint.url), self._settings.host_concurrency),
            (self._partners, endpoint.partner_id, self._of_partner(endpoint.partner_id)),
        )
        if any(count[key] >= most for count, key, most in counted):
            return False
        for count, key, _ in counted:
            count[key] += 1
        return True

    def _together(self, endpoint: Endpoint) -> int:
        """How many attempts it may have: several as long as it takes what it is told.

        It has one as soon as half of its partner's are under way: many that hang leave room.
        """
        share = self._of_partner(endpoint.partner_id)
        crowded = self._partners[endpoint.partner_id] >= share // 2
        return _TOGETHER if endpoint.proven and not crowded else 1

    def _of_partner(self, partner_id: str) -> int:
        """How many attempts a partner may have: half of what the others leave, at least one."""
        others = self._partners.total() - self._partners[partner_id]
        return max(1, (self._settings.concurrency - others) // 2)

    def _start(self, one: Claimed) -> None:
        task = asyncio.create_task(self._deliver_or_shelve(one))
        self._open[task] = one
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        endpoint = self._open.pop(task).endpoint
        for count, key in (
            (self._endpoints, endpoint.id),
            (self._hosts, _host_of(endpoint.url)),
            (self._partners, endpoint.partner_id),
        ):
            count[key] -= 1
            if not count[key]:
                del count[key]
        self._core.webhooks.asked.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            # its claim lapses, and it is tried again
            _log.error("an event could not be delivered", exc_info=error)

    async def _deliver_or_shelve(self, one: Claimed) -> None:
        """Deliver; an event whose delivery fails unexpectedly is set aside."""
        quarantine, waiting = self._core.quarantine, one.waiting
        name = f"{waiting.endpoint_id}/{waiting.payment_id}"
        try:
            await self._deliver(one)
        except Exception as error:
            if not is_unexpected(error):
                raise
            await quarantine.set_aside(
                ItemKind.DELIVERY, "", name, "deliver", error, deliveries.shelve(one)
            )

    async def _deliver(self, one: Claimed) -> None:
        core, now_us = self._core, self._core.clock.now_us()
        try:
            work = await core.store.read(deliveries.work(one, now_us))
            message = None if work is None else next_message(core, one, work)
            if work is None or message is None:
                newest = one.waiting.newest
                await core.store.write(deliveries.told(one, newest, now_us, None, 1))
                return
            try:
                keys = opened(core, one.endpoint.id, work.secrets)
            except Lost:
                why = "its secret cannot be read any more: rotate it, and resume it"
                await core.store.write(deliveries.halt(one, why, now_us))
                return
            headers = signing.headers(keys, message.id, int(self._wall_s()), message.body)
            await self._send(one, message, headers)
        except StoreError as error:
            if is_unexpected(error):
                raise
            _log.warning("an event is delivered again later: %s", error)

    async def _send(self, one: Claimed, message: Message, headers: dict[str, str]) -> None:
        core, begun = self._core, time.monotonic()
        answer: Answer | NoAnswer
        try:
            answer = await self._outbound.send(
                "POST",
                one.endpoint.url,
                headers={
                    **headers,
                    "content-type": "application/json",
                    "user-agent": "Florin-Webhooks",
                },
                body=message.body,
                timeout_s=self._settings.timeout_s,
                answer_bytes=self._settings.answer_bytes,
            )
        except AddressBusy:
            # nothing was sent, so nothing failed
            later_us = core.clock.now_us() + _BUSY_ADDRESS_US
            await core.store.write(deliveries.give_back([one], later_us))
            return
        except NoAnswer as error:
            answer = error
        now_us = core.clock.now_us()
        took_ms = int((time.monotonic() - begun) * 1000)
        attempt = _attempt(one, message, answer, now_us, took_ms)
        if attempt.succeeded:
            await core.store.write(
                deliveries.told(one, message.version, now_us, attempt, self._policy.attempts_kept)
            )
            core.meters.webhook("delivered")
            return
        core.meters.webhook("failed")
        asked_us = 0
        if isinstance(answer, Answer) and answer.status in _BUSY:
            asked_us = schedule.asked_us(answer.retry_after, self._wall_s())
        gone = attempt.status == _GONE
        steps = deliveries.failed(one, attempt, now_us, self._policy, gone=gone, asked_us=asked_us)
        state = await core.store.write(steps)
        if state is EndpointState.PAUSED:
            _log.warning("webhook endpoint %s is paused", one.endpoint.id)

    def _wall_s(self) -> float:
        clock = self._core.clock
        # clocks that stand still are of tests
        return clock.unshifted_us() / 1_000_000 if isinstance(clock, SystemClock) else time.time()

    async def _end(self) -> None:
        claims = list(self._open.values())
        tasks = list(self._open)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._outbound.close()
        with suppress(StoreError):
            await self._core.store.write(deliveries.give_back(claims, self._core.clock.now_us()))


def _attempt(
    one: Claimed, message: Message, answer: Answer | NoAnswer, now_us: int, took_ms: int
) -> Attempt:
    waiting = one.waiting
    if isinstance(answer, NoAnswer):
        status, fault, said = None, f"{answer.fault}: {answer}", ""
    else:
        # the store keeps no NUL
        said = answer.body.decode("utf-8", "replace").replace("\0", "\ufffd")
        status, fault = answer.status, None
        if 300 <= status < 400:
            fault = f"redirected: redirects are not followed{_target(answer.location)}"
    return Attempt(
        waiting.endpoint_id,
        0,
        waiting.payment_id,
        message.version,
        message.event_type,
        now_us,
        took_ms,
        status,
        fault,
        said,
    )


def _target(location: str) -> str:
    """Return where a redirect leads to, as it may be shown: printable, and not longer than fits."""
    shown = replace_unprintable(location[:_LOCATION_CHARS], "\ufffd")
    cut = "…" if len(location) > _LOCATION_CHARS else ""
    return f"; it leads to {shown}{cut}" if shown else ""


def _host_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or parts.scheme}"
