"""Endpoints whose answers and times the test controls."""

from __future__ import annotations

import asyncio
import json

from florin_server.rails.connection.endpoints import FailoverRpc
from florin_server.rails.connection.jsonrpc import JsonRpcClient, RpcError
from florin_server.rails.evm.dialect import EvmNodeDialect
from florin_server.rails.types import RailUnavailable

FAMILY = EvmNodeDialect("Test", 31337, lag_max=5)


class StubNode:
    """One endpoint: its answers by method, and whether it answers at all."""

    def __init__(self, head=100, chain=31337, balance="0x1"):
        self.answers = {"eth_getBalance": balance, "eth_sendRawTransaction": "0xhash"}
        self.head, self.chain = head, chain
        self.fault = None
        self.methods = []
        self.holding = None
        self.arrived = asyncio.Event()

    async def send(self, payload):
        request = json.loads(payload)
        calls = request if isinstance(request, list) else [request]
        self.methods += [call["method"] for call in calls]
        self.arrived.set()
        if self.holding is not None:
            await self.holding.wait()
        if self.fault is not None:
            raise self.fault
        result = [self.answer_call(call) for call in calls]
        return json.dumps(result if isinstance(request, list) else result[0]).encode()

    def answer_call(self, call):
        existing = {"eth_chainId": hex(self.chain), "eth_blockNumber": hex(self.head)}
        answer = {**existing, **self.answers}[call["method"]]
        if isinstance(answer, RpcError):
            refusal = {"code": answer.code, "message": answer.message}
            return {"id": call["id"], "error": refusal}
        return {"id": call["id"], "result": answer}

    async def close(self):
        pass

    def take(self):
        """Return the calls since the last time."""
        taken, self.methods = self.methods, []
        return taken


class StubClock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class EndpointHarness:
    def __init__(self, *nodes, **options):
        self.nodes, self.time = nodes, StubClock()
        rpcs = {f"node{i}.example": JsonRpcClient(node) for i, node in enumerate(nodes)}
        self.rpc = FailoverRpc(rpcs, FAMILY, now=self.time, **options)

    async def ready(self):
        """Wait until every endpoint has been checked."""
        await self.rpc.batch([("eth_blockNumber", ())])
        await self.rpc.probe_due()
        for node in self.nodes:
            node.take()
        return self

    async def later(self, seconds):
        """Advance time, and check the endpoints that are due."""
        self.time.now += seconds
        await self.rpc.probe_due()

    def problems(self):
        return [state.problem for state in self.rpc.list_states()]


def make_lost():
    return RailUnavailable("node0.example: ClientConnectorError")
