"""An EVM rail on several nodes of one chain, each behind a proxy that can fail."""

from __future__ import annotations

from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from florin_server.money.settlement.worker.blocks import create_follower
from florin_server.rails.evm.rail import EvmRail

from tests.support.evm_harness import (
    RELAYER,
    EvmChainHarness,
    make_chain_settings,
    open_lab,
)
from tests.support.proxy import FaultyNodeProxy

CONFIRMATIONS = 3


@dataclass
class EvmNodes:
    """A chain behind one proxy per node of the rail."""

    lab: EvmChainHarness
    proxies: list[FaultyNodeProxy]
    rail: EvmRail
    now: list[float]

    async def later(self, seconds):
        """Advance the time and check every node that is due."""
        self.now[0] += seconds
        await self.rail.rpc.probe_due()

    def problems(self):
        return [node.problem for node in self.rail.nodes.list_states()]

    async def settled(self, number=1):
        """Settle a payment to final depth; return the item and the transaction."""
        item = await self.lab.create_verified_item(number)
        signed = await self.lab.settle(item)
        await self.lab.mine(CONFIRMATIONS - 1)
        return item, signed

    async def followed(self):
        follower = create_follower(self.rail)
        await follower.start()
        return follower


@asynccontextmanager
async def nodes(count=2, **changes):
    """Open a chain and a rail on so many nodes of it."""
    lab = await open_lab()
    async with AsyncExitStack() as stack:
        stack.push_async_callback(lab.chain.close)
        stack.push_async_callback(lab.rail.close)
        proxies = [
            await stack.enter_async_context(FaultyNodeProxy(lab.chain.handle)) for _ in range(count)
        ]
        # nodes are identified by host; both names resolve to this machine
        urls = [
            proxy.url.replace("127.0.0.1", ("127.0.0.1", "localhost")[index])
            for index, proxy in enumerate(proxies)
        ]
        now = [1000.0]
        rail = EvmRail(make_chain_settings(rpc_url=urls, **changes), RELAYER, now=lambda: now[0])
        stack.push_async_callback(rail.close)
        found_nodes = EvmNodes(lab, proxies, rail, now)
        await rail.start()
        await found_nodes.later(0)
        yield found_nodes
