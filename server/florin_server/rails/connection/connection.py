"""How a chain is reached: connections to its nodes, what they agree on, and news of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from florin_server.rails.connection.family import Family
from florin_server.rails.connection.jsonrpc import Call, Transport
from florin_server.rails.connection.new_blocks import News
from florin_server.rails.connection.nodes import connect
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.connection.subscription import Subscription
from florin_server.rails.connection.witness import Witnesses
from florin_server.rails.types import NodeState


class Connection:
    """Implements the Nodes protocol for every kind of chain.

    A transport leads to a node of this process; without one the URLs of the settings are used.
    `announcements` is the call that asks a node to announce blocks, `mark` what tells two of its
    notifications apart. `lacking` tells what else keeps nodes from telling what ends payments.
    """

    def __init__(
        self,
        settings: NodeSettings,
        family: Family,
        transport: Transport | None,
        *,
        now: Callable[[], float],
        announcements: Call,
        mark: Callable[[Any], Hashable],
        lacking: Callable[[], str] = str,
    ) -> None:
        self.rpc = connect(settings, family, transport, now)
        self.witnesses = Witnesses(self.rpc, now)
        self.news = News(settings.poll_ms / 1000)
        self._lacking = lacking
        self._stalled_after_s = settings.stalled_after_s
        self._subscription = (
            Subscription(settings.ws_url, announcements, mark, self.news)
            if settings.ws_url
            else None
        )

    @property
    def disagreement(self) -> str:
        """What keeps nodes from agreeing on what ends payments; empty if they agree."""
        told = (self.witnesses.disagreement, self._lacking())
        return "; ".join(text for text in told if text)

    @property
    def stalled(self) -> str:
        """That no node has told a new block for as long as the settings bear; empty otherwise."""
        still_s = self.rpc.still_s
        if not self._stalled_after_s or still_s < self._stalled_after_s:
            return ""
        return f"no node has told a new block for {still_s // 60:,.0f} min"

    def states(self) -> Sequence[NodeState]:
        """How each node looks, in the order of preference; none of this process."""
        return self.rpc.states()

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        """How often each method of nodes was called since the start, answered or not."""
        return self.rpc.calls_by_method

    async def wait_for_block(self, waiter: str = "") -> None:
        """Returns when there may be a new block, and after a while in any case."""
        if self._subscription is not None:
            self._subscription.start()
        await self.news.wait(waiter)

    def announced_by(self, listen: Callable[[Callable[[], None]], object]) -> None:
        """Hears of new blocks from a chain of this process."""
        self.news.announced = True
        listen(self.news.announce)

    async def close(self) -> None:
        """Ends connections."""
        if self._subscription is not None:
            await self._subscription.close()
        await self.rpc.close()
