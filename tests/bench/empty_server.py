"""Run `python -m tests.bench.empty_server`: an empty gRPC server with the answers of a real one.

Its handler for a payment's status gets the same request, and returns the same answer and metadata,
which it was given. Any extra cost of a real service is its own.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from typing import Any

import grpc
import uvloop
from florin.v1 import gateway_pb2_grpc, payment_pb2

_Metadata = tuple[tuple[str, str], ...]


class Empty(gateway_pb2_grpc.GatewayServiceServicer):
    """A servicer that returns at once what it was given."""

    def __init__(self, answer: payment_pb2.GetPaymentStatusResponse, trailing: _Metadata) -> None:
        self._answer = answer
        self._trailing = trailing

    async def GetPaymentStatus(self, request: Any, context: Any) -> Any:
        """Return the given answer and metadata."""
        assert request.payment_id
        context.set_trailing_metadata(self._trailing)
        return self._answer


async def _serve(answer: bytes, trailing: _Metadata) -> None:
    server = grpc.aio.server()
    empty = Empty(payment_pb2.GetPaymentStatusResponse.FromString(answer), trailing)
    gateway_pb2_grpc.add_GatewayServiceServicer_to_server(empty, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    await server.stop(None)


if __name__ == "__main__":
    entries = tuple((key, value) for key, value in json.loads(sys.argv[2]))
    uvloop.run(_serve(bytes.fromhex(sys.argv[1]), entries))
