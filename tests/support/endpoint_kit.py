"""Endpoints that say what a test has them say, at the time of the test."""

from __future__ import annotations

import asyncio
import json

from florin_server.rails.connection.endpoints import Endpoints
from florin_server.rails.connection.jsonrpc import JsonRpc, RpcError
from florin_server.rails.evm.family import EvmFamily
from florin_server.rails.types import RailUnavailable

FAMILY = EvmFamily("Test", 31337, lag_max=5)


class Node:
    """One endpoint: what it answers by method, and whether it answers at all."""

    def __init__(self, head=100, chain=31337, balance="0x1"):
        self.answers = {"eth_getBalance": balance, "eth_sendRawTransaction": "0xhash"}
        self.head, self.chain = head, chain
        self.fault = None
        self.asked = []
        self.holding = None
        self.arrived = asyncio.Event()

    async def send(self, payload):
        asked = json.loads(payload)
        many = asked if isinstance(asked, list) else [asked]
        self.asked += [one["method"] for one in many]
        self.arrived.set()
        if self.holding is not None:
            await self.holding.wait()
        if self.fault is not None:
            raise self.fault
        told = [self.one(one) for one in many]
        return json.dumps(told if isinstance(asked, list) else told[0]).encode()

    def one(self, asked):
        known = {"eth_chainId": hex(self.chain), "eth_blockNumber": hex(self.head)}
        answer = {**known, **self.answers}[asked["method"]]
        if isinstance(answer, RpcError):
            refusal = {"code": answer.code, "message": answer.message}
            return {"id": asked["id"], "error": refusal}
        return {"id": asked["id"], "result": answer}

    async def close(self):
        pass

    def take(self):
        """What it was asked since the last time."""
        taken, self.asked = self.asked, []
        return taken


class Time:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


class Stage:
    def __init__(self, *nodes, **options):
        self.nodes, self.time = nodes, Time()
        rpcs = {f"node{i}.example": JsonRpc(node) for i, node in enumerate(nodes)}
        self.rpc = Endpoints(rpcs, FAMILY, now=self.time, **options)

    async def ready(self):
        """Every endpoint has been looked at."""
        await self.rpc.batch([("eth_blockNumber", ())])
        await self.rpc.look()
        for node in self.nodes:
            node.take()
        return self

    async def later(self, seconds):
        """Time passes; who is due is looked at."""
        self.time.now += seconds
        await self.rpc.look()

    def problems(self):
        return [state.problem for state in self.rpc.states()]


def lost():
    return RailUnavailable("node0.example: ClientConnectorError")
