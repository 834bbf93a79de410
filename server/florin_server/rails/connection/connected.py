"""What all rails have: a chain's settings, connections to its nodes, and news of its blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from florin_server.rails.connection.family import Family
from florin_server.rails.connection.jsonrpc import Call, Transport
from florin_server.rails.connection.new_blocks import News
from florin_server.rails.connection.nodes import connect
from florin_server.rails.connection.subscription import Subscription
from florin_server.rails.connection.witness import Witnesses
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import NodeState


class Connected:
    """The part of a rail that is the same on every chain.

    A transport leads to a node of this process; without one the URLs of the settings are used.
    `announcements` is the call that asks a node to announce blocks, `mark` what tells two of its
    notifications apart.
    """

    def __init__(
        self,
        chain: EvmChain | SolanaChain,
        family: Family,
        transport: Transport | None,
        *,
        now: Callable[[], float],
        announcements: Call,
        mark: Callable[[Any], Hashable],
    ) -> None:
        self._settings = chain
        self.rpc = connect(chain, family, transport, now)
        self._witnesses = Witnesses(self.rpc, now)
        self._news = News(self.poll_s)
        self._subscription = (
            Subscription(chain.ws_url, announcements, mark, self._news) if chain.ws_url else None
        )

    @property
    def chain_id(self) -> str:
        """CAIP-2."""
        return self._settings.caip2

    @property
    def live(self) -> bool:
        """False for test networks."""
        return self._settings.live

    @property
    def treasury(self) -> str:
        """CAIP-10 account that receives for merchants without a destination, and fees."""
        return self._settings.treasury_account

    @property
    def poll_s(self) -> float:
        """Seconds between two looks at the head."""
        return self._settings.poll_ms / 1000

    @property
    def eta_s(self) -> int:
        """Seconds that a payment usually takes from its confirm to its end."""
        return self._settings.eta_s

    @property
    def agreement(self) -> int:
        """How many nodes must tell what ends a payment."""
        return self.rpc.agreement

    @property
    def doubt(self) -> str:
        """What keeps nodes from agreeing on what ends payments; empty if they agree."""
        return self._witnesses.doubt

    def nodes(self) -> Sequence[NodeState]:
        """How each node looks, in the order of preference; none of this process."""
        return self.rpc.states()

    async def news(self, waiter: str = "") -> None:
        """Returns when there may be a new block, and after a while in any case."""
        if self._subscription is not None:
            self._subscription.start()
        await self._news.wait(waiter)

    def announced_by(self, listen: Callable[[Callable[[], None]], object]) -> None:
        """Hears of new blocks from a chain of this process."""
        self._news.announced = True
        listen(self._news.announce)

    async def _disconnect(self) -> None:
        if self._subscription is not None:
            await self._subscription.close()
        await self.rpc.close()
