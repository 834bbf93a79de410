"""Keeps a relayer's durable nonces: made once, given out one at a time, advanced when left behind.

A nonce is free again when a final block shows another value of it. Who never signed, or signed and
never confirmed, leaves it as it was: it is advanced then, and what was signed with it is dead.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from florin_server.domain.payments.payment import Status
from florin_server.flows.app import Core
from florin_server.rails.protocol import Rail
from florin_server.rails.provisioning import DurableNonces, Values
from florin_server.rails.types import RailUnavailable, Signed
from florin_server.store.engine.query import Op, Operation, operation
from florin_server.store.settlement import durable_nonces
from florin_server.store.settlement.durable_nonces import TakenNonce
from florin_server.workers.settlement.tx_sender import TxSender

_log = logging.getLogger(__name__)

# what one transaction makes or advances
_AT_ONCE = 5
# a payment that was confirmed in time has this long to land, twice what a blockhash would give it
_GRACE_US = 120 * 1_000_000


class NonceKeeper:
    """Looks after the durable nonces of one chain."""

    def __init__(self, app: Core, rail: Rail) -> None:
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
        if missing := [one for one in work.addresses if one not in made][:_AT_ONCE]:
            await self._begin(missing, values, sender, work)
        elif left := [one.address for one in known if self._is_left(one, values)][:_AT_ONCE]:
            await self._send(sender, lambda: work.advance(left), _nothing)
            _log.info("%s: %d durable nonces are advanced", self._rail.chain_id, len(left))

    async def _note(self, values: Values, known: Sequence[TakenNonce]) -> None:
        for one in known:
            now = values.held.get(one.address)
            if now is not None and now != one.value and values.slot >= one.slot:
                await self._app.store.write(
                    durable_nonces.seen(
                        self._rail.chain_id, one.address, one.value, now, values.slot
                    )
                )

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
