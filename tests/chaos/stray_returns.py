"""The days after a chaos run: money at addresses goes home and back, and the operator decides."""

from __future__ import annotations

import asyncio

from florin.v1 import held_pb2

from tests.chaos.chaos_service import EVM, ChaosEnvironment
from tests.chaos.fast_clock import QuickClock
from tests.chaos.service_client import POLL_S, ServiceClient

# an address is looked at an hour after its payment's end, and every day after that
_DAY_S, _SOON_S = 86_400, 43_200
# until the end of all payments, and the hour after it
_END_S = 6_000
_UNREAD = f"""
    SELECT count(*) FROM deposit_address d LEFT JOIN address_sweep s
    ON s.address = d.address AND s.chain_id = d.chain_id
    WHERE d.chain_id = '{EVM}' AND (s.address IS NULL OR s.due_at_us < {{}} OR s.tries > 0)
"""
_OPEN = "SELECT count(*) FROM payout WHERE kind = 'return' AND status <> 'done'"
_HELD = "SELECT id, address FROM held_money WHERE state = 'held' AND event LIKE '%/%' ORDER BY id"


class StrayReturns:
    """Returns money that is no part of a payment, as Florin and its operator do."""

    def __init__(
        self,
        environment: ChaosEnvironment,
        service_client: ServiceClient,
        clock: QuickClock,
        account: str,
    ) -> None:
        self._environment = environment
        self._service_client = service_client
        self._clock = clock
        self._account = account  # of a buyer who shows that the money is hers

    async def return_all(self) -> None:
        """Let time pass until nothing at an address is worth to be moved, and all is returned."""
        self._clock.advance(_DAY_S + _END_S)
        looked_us = self._clock.now_us() + _SOON_S * 1_000_000
        await self._wait(_UNREAD.format(looked_us))
        await self._wait(_OPEN)
        await self._decide()
        await self._wait(_OPEN)

    async def _wait(self, query: str) -> None:
        """Wait until a query counts nothing."""
        while self._environment.select(query) != [(0,)]:
            await self._service_client.evm.ask("evm_mine")
            await asyncio.sleep(POLL_S)

    async def _decide(self) -> None:
        """Return, keep or leave what is held, by turns."""
        returned = held_pb2.HELD_PAYMENT_VERDICT_RETURN
        verdicts = (returned, held_pb2.HELD_PAYMENT_VERDICT_KEEP, None)
        for n, (held_id, address) in enumerate(self._environment.select(_HELD)):
            verdict = verdicts[n % len(verdicts)]
            if verdict is None:
                continue
            request = held_pb2.ResolveHeldPaymentRequest(
                held_id=held_id, verdict=verdict, note="chaos run", even_if_blocked=True
            )
            if address is not None and verdict == returned:
                request.return_to = self._account
            await self._service_client.call_operator("ResolveHeldPayment", request)
