"""Strangers who crowd the payments of others.

They know the numbers of payments, and what is public of their buyers. By the documented API a
wallet that knows a payment may call it off, and ends it by results of the wrong kind; and who says
that it sent what its buyer did not send is believed for a while. All of that is left out here.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import aiohttp
from florin_server.devnet.evm import DEVNET
from florin_server.rails.evm import settler
from florin_server.rails.evm.settler import Pay

from tests.chaos.stage import Stage
from tests.chaos.till import LOOK_S
from tests.support.api import Refused

if TYPE_CHECKING:
    from tests.chaos.story import Story, Teller

# payments that one stranger crowds, and what it does to each
_TARGETS, _CALLS, _STREAMS, _EVENTS = 4, 30, 25, 30
_ACCOUNTS = 12
_HELD_S = 0.5
_MADE_UP = "0x" + "66" * 32
_LOST = (aiohttp.ClientError, ConnectionError, TimeoutError)


class Meddler:
    """All strangers of one run."""

    def __init__(self, stage: Stage, teller: Teller) -> None:
        self._stage = stage
        self._teller = teller
        self._till = teller.till

    async def meddle(self, story: Story) -> None:
        """Crowds some payments at once."""
        chance = random.Random(f"meddler {story.order.n}")
        known = self._teller.begun
        targets = chance.sample(known, min(_TARGETS, len(known)))
        await asyncio.gather(
            *(self._ask(chance, story, one) for one in targets),
            *(self._hold(story, one) for one in targets),
            *(self._confirm(story, one) for one in targets),
            self._copy(story),
        )

    def _caller(self, story: Story, client: object) -> Any:
        return self._till.caller(story.order.n, f"client {client}")

    async def _ask(self, chance: random.Random, story: Story, target: Story) -> None:
        """Options for many accounts, each time as somebody else."""
        rich = [purse.account for purse in self._teller.purses.evm.values()]
        for n in range(_CALLS):
            accounts = chance.sample(rich, min(_ACCOUNTS, len(rich)))
            try:
                await self._caller(story, n).options(target.payment_id, accounts)
            except (Refused, *_LOST):
                await asyncio.sleep(LOOK_S)

    async def _hold(self, story: Story, target: Story) -> None:
        """Streams, each from another device of its own."""

        async def hold(n: int) -> None:
            try:
                async with asyncio.timeout(_HELD_S):
                    async for _ in self._caller(story, n).watch(target.payment_id):
                        pass
            except (Refused, *_LOST):
                return

        await asyncio.gather(*(hold(n) for n in range(_STREAMS)))

    async def _confirm(self, story: Story, target: Story) -> None:
        """What its buyer did not sign; what its buyer sent, by another name."""
        option_id, outputs = target.fetched[0], self._wrong(story, target)
        for n in range(_CALLS if outputs else 0):
            try:
                await self._caller(story, n).confirm(target.payment_id, option_id, outputs)
            except (Refused, *_LOST):
                await asyncio.sleep(LOOK_S)

    def _wrong(self, story: Story, target: Story) -> list[str]:
        """Results of the right kind, for nothing; none where there are none."""
        if target.order.way.on_solana:
            return next(
                (
                    one.outputs
                    for one in self._teller.begun
                    if one.outputs and one is not target and one.order.way is target.order.way
                ),
                [],
            )
        signature = self._teller.purses.of(story.order).scrawl()
        by_method = {"eth_sendTransaction": _MADE_UP, "eth_signTypedData_v4": signature}
        return [by_method[method] for method in target.fetched[1]]

    async def _copy(self, story: Story) -> None:
        """Settlement events with the references of others, of money that is worth nothing."""
        found = self._stage.select(
            "SELECT o.terms, o.payer FROM payment_option o JOIN payment p ON p.id = o.payment_id"
            " WHERE o.chain_id LIKE 'eip155:%' AND p.status IN ('requires_action', 'processing')"
            f" LIMIT {_EVENTS}"
        )
        own = self._teller.purses.of(story.order)
        pays = [self._copied(json.loads(text), payer) for text, payer in found]
        if pays:
            async with own.busy:
                await own.push(
                    self._till.evm,
                    gas=200_000 * len(pays) + 100_000,
                    to=bytes.fromhex(DEVNET.settler[2:]),
                    data=settler.settle(pays),
                )

    def _copied(self, terms: dict[str, Any], payer: str) -> Pay:
        return Pay(
            token=self._teller.purses.codes.junk,
            payer=payer.rpartition(":")[2].lower(),
            value=int(terms["value"]),
            valid_after=0,
            valid_before=int(terms["valid_before"]),
            dest=terms["dest"],
            fee_to=terms["fee_to"],
            fee=int(terms["fee"]),
            ref=bytes.fromhex(terms["ref"][2:]),
            gas=100_000,
            signature=b"",
        )
