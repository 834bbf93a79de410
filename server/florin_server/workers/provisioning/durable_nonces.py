"""Keeps a relayer's durable nonces: made once, given out one at a time, advanced when left behind.

A nonce is free again when a final block shows another value of it. Who never signed, or signed and
never confirmed, leaves it as it was: it is advanced then, and what was signed with it is dead.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from florin_server.domain.payments.payment import Status
from florin_server.domain.quarantine import ItemKind
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.provisioning import Affordable, DurableNonces, Values
from florin_server.rails.types import RailUnavailable, Signed
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.settlement import durable_nonces
from florin_server.store.settlement.durable_nonces import TakenNonce
from florin_server.workers.settlement.tx_sender import TxSender

_log = logging.getLogger(__name__)

# what one transaction makes or advances
_AT_ONCE = 5
# a payment that was confirmed in time has this long to land: twice what a blockhash lasts where
# slots have 400 ms
_GRACE_US = 120 * 1_000_000


class NonceKeeper:
    """Looks after the durable nonces of one chain.

    `shortage` says which could not be paid for when it looked last; empty if all could.
    """

    def __init__(self, app: Core, rail: Rail) -> None:
        self.shortage = ""
        self._app = app
        self._rail = rail

    async def turn(self, sender: TxSender) -> None:
        """Compares what is written down with the chain, and does what is to be done.

        What cannot be done now waits: payments are not to be kept by it.
        """
        try:
            await self._turn(sender)
        except RailUnavailable as error:
            _log.warning("%s: durable nonces wait: %s", self._rail.chain_id, error)

    async def _turn(self, sender: TxSender) -> None:
        work = self._rail.durable_nonces
        if work is None:
            return
        known = await self._app.store.read(durable_nonces.every(self._rail.chain_id))
        # also those that are not used any more: somebody may have them still
        addresses = list(dict.fromkeys([*work.addresses, *(one.address for one in known)]))
        if not addresses:
            return
        values = await work.values(addresses)
        await self._note(values, known)
        if sender.prepares or sender.paused:
            # it may make or advance what is missing
            return
        made = {one.address for one in known if one.address in values.held}
        absent = self._left_in([one for one in work.addresses if one not in made])
        left = self._left_in([one.address for one in known if self._is_left(one, values)])
        if missing := await self._affordable(absent, work):
            await self._each(missing, "make", lambda part: self._begin(part, values, sender, work))
        elif left:
            unused = left[:_AT_ONCE]
            await self._each(unused, "advance", lambda part: self._advance(part, sender, work))

    async def _affordable(self, absent: Sequence[str], work: DurableNonces) -> Sequence[str]:
        """Return those of the missing accounts that are made now, and note what others lack."""
        found = await work.affordable(len(absent)) if absent else Affordable(0, "")
        if found.problem and found.problem != self.shortage:
            _log.info("%s", found.problem)
        self.shortage = found.problem
        return absent[: min(_AT_ONCE, found.count)]

    async def _each(
        self,
        addresses: Sequence[str],
        step: str,
        work: Callable[[Sequence[str]], Awaitable[None]],
    ) -> None:
        await self._app.quarantine.each(
            ItemKind.DURABLE_NONCE, self._rail.chain_id, addresses, str, step, work
        )

    def _left_in(self, addresses: Sequence[str]) -> list[str]:
        left_in, chain_id = self._app.quarantine.left_in, self._rail.chain_id
        return left_in(ItemKind.DURABLE_NONCE, chain_id, addresses, str)

    def _is_set_aside(self, address: str) -> bool:
        return self._app.quarantine.holds(ItemKind.DURABLE_NONCE, self._rail.chain_id, address)

    async def _advance(self, left: Sequence[str], sender: TxSender, work: DurableNonces) -> None:
        await self._send(sender, lambda: work.advance(left), _nothing)
        _log.info("%s: %d durable nonces are advanced", self._rail.chain_id, len(left))

    async def _note(self, values: Values, known: Sequence[TakenNonce]) -> None:
        chain_id = self._rail.chain_id
        for one in known:
            now = values.held.get(one.address)
            if now is None or now == one.value or values.slot < one.slot:
                continue
            if self._is_set_aside(one.address):
                continue
            async with self._app.quarantine.isolating(
                ItemKind.DURABLE_NONCE, chain_id, one.address, "note"
            ):
                seen = durable_nonces.seen(chain_id, one.address, one.value, now, values.slot)
                await self._app.store.write(seen)

    async def _begin(
        self, missing: Sequence[str], values: Values, sender: TxSender, work: DurableNonces
    ) -> None:
        chain_id = self._rail.chain_id
        if found := [one for one in missing if one in values.held]:
            # they are there, and were forgotten with the store
            await self._app.store.write(durable_nonces.expect(chain_id, found))
            return
        await self._send(
            sender, lambda: work.create(missing), lambda: durable_nonces.expect(chain_id, missing)
        )
        _log.info("%s: %d durable nonces are made", chain_id, len(missing))

    def _is_left(self, one: TakenNonce, values: Values) -> bool:
        """True if whoever has a nonce will not use it any more, or may not."""
        if one.status is None or values.held.get(one.address) != one.value:
            return False
        until_us = one.held_until_us
        if one.status is Status.PROCESSING:
            until_us += _GRACE_US
        return one.status.is_final or self._app.clock.now_us() >= until_us

    async def _send(
        self,
        sender: TxSender,
        made: Callable[[], Awaitable[Signed]],
        claim: Callable[[], Operation[None]],
    ) -> None:
        async def sign(nonce: int) -> Signed:  # noqa: ARG001
            return await made()

        await sender.send([], sign, claim)


@operation
def _nothing() -> Op[None]:
    yield from ()
