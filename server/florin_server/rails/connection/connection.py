"""A chain's connection: its nodes, what they agree on, and notifications of new blocks."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from florin_server.domain.node_hours import NodeActivity
from florin_server.rails.connection.jsonrpc import RpcCall, RpcTransport
from florin_server.rails.connection.new_blocks import BlockNotifier
from florin_server.rails.connection.node_dialect import NodeDialect
from florin_server.rails.connection.nodes import create_rpc
from florin_server.rails.connection.quorum_reader import QuorumReader
from florin_server.rails.connection.settings import NodeSettings
from florin_server.rails.connection.subscription import BlockSubscription
from florin_server.rails.types import NodeState


class ChainConnection:
    """Implement the NodeConnections protocol for every kind of chain.

    A transport leads to a node of this process; without it the URLs of the settings are used.
    `announcements` is the call that subscribes to new blocks. `read_mark` returns the value that
    distinguishes two of the notifications. `get_problem` returns any other reason why nodes cannot
    prove how payments end.
    """

    def __init__(
        self,
        settings: NodeSettings,
        dialect: NodeDialect,
        transport: RpcTransport | None,
        *,
        now: Callable[[], float],
        announcements: RpcCall,
        read_mark: Callable[[Any], Hashable],
        get_problem: Callable[[], str] = str,
    ) -> None:
        self.rpc = create_rpc(settings, dialect, transport, now)
        self.quorum = QuorumReader(self.rpc, now)
        self.block_notifier = BlockNotifier(settings.poll_ms / 1000)
        self._get_problem = get_problem
        self._stalled_after_s = settings.stalled_after_s
        self._subscription = (
            BlockSubscription(settings.ws_url, announcements, read_mark, self.block_notifier)
            if settings.ws_url
            else None
        )

    @property
    def disagreement(self) -> str:
        """Return why nodes do not agree on what ends payments; empty if they agree."""
        problems = (self.quorum.disagreement, self._get_problem())
        return "; ".join(text for text in problems if text)

    @property
    def stall_problem(self) -> str:
        """Return a text if no node reported a new block for `stalled_after_s`; empty otherwise."""
        still_s = self.rpc.stall_s
        if not self._stalled_after_s or still_s < self._stalled_after_s:
            return ""
        return f"no node has reported a new block for {still_s // 60:,.0f} min"

    def list_states(self) -> Sequence[NodeState]:
        """Return the state of each node, in the order of preference.

        None for a node of this process.
        """
        return self.rpc.list_states()

    def record_checks(self) -> None:
        """Count whether each node is in use now."""
        self.rpc.record_checks()

    def take_activities(self) -> Mapping[str, NodeActivity]:
        """Return by node what was observed since the last time; none for a node of this process."""
        return self.rpc.take_activities()

    @property
    def calls_by_method(self) -> Mapping[str, int]:
        """Return how often each node method was called since the start, answered or not."""
        return self.rpc.calls_by_method

    async def wait_for_block(self, waiter: str = "") -> None:
        """Return when there may be a new block, or after a pause in any case."""
        if self._subscription is not None:
            self._subscription.start()
        await self.block_notifier.wait_for_block(waiter)

    def follow_announcements(self, add_listener: Callable[[Callable[[], None]], object]) -> None:
        """Listen to the block announcements of a chain in this process."""
        self.block_notifier.has_announcements = True
        add_listener(self.block_notifier.announce)

    async def close(self) -> None:
        """Close the connections."""
        if self._subscription is not None:
            await self._subscription.close()
        await self.rpc.close()
