"""Open many watch streams on few connections."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from florin.v1 import payment_pb2

from tests.bench.http2 import GrpcConnection, Metadata, message
from tests.bench.load import Address

# more at once would measure the opening instead of the open streams
_OPENING = 200
_WATCH = "/florin.v1.GatewayService/WatchPayment"


class Streams:
    """All streams of a client. `changed` gets each payment that changes after its snapshot."""

    def __init__(self, metadata: Metadata, changed: Callable[[str], None]) -> None:
        self.metadata = metadata
        self.changed = changed
        self._connections: list[_Watches] = []
        self._opening = asyncio.Semaphore(_OPENING)
        self._held = 0
        self._lost = ""

    async def open(self, address: Address, payments: Sequence[str], connections: int) -> None:
        """Return once every stream has its snapshot."""
        loop = asyncio.get_running_loop()
        for _ in range(connections):
            connection = await loop.create_connection(lambda: _Watches(self), *address)
            self._connections.append(connection[1])
        for number, payment in enumerate(payments):
            await self._opening.acquire()
            self._connections[number % connections].watch(payment)
        for _ in range(_OPENING):
            await self._opening.acquire()
        if self._held < len(payments):
            raise RuntimeError(f"{len(payments) - self._held} streams ended: {self._lost}")

    def held(self) -> None:
        self._held += 1
        self._opening.release()

    def lost(self, fault: str) -> None:
        self._lost = self._lost or fault
        self._opening.release()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class _Watches(GrpcConnection):
    def __init__(self, owner: Streams) -> None:
        super().__init__(_WATCH, owner.metadata)
        self._owner = owner
        self._payments: dict[int, str] = {}
        self._seen: set[int] = set()

    def watch(self, payment: str) -> None:
        request = payment_pb2.WatchPaymentRequest(payment_id=payment)
        self._payments[self.call(message(request.SerializeToString()))] = payment

    def on_data(self, stream: int) -> None:
        if stream in self._seen:
            self._owner.changed(self._payments[stream])
        else:
            self._seen.add(stream)
            self._owner.held()

    def on_end(self, stream: int) -> None:
        if stream not in self._seen:
            self._owner.lost(self.fault)
