"""Receivers of events in the poison-pill campaign: a merchant's back end, and a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from florin_server.domain.cipher import DecryptionError
from florin_server.features.event_sink.service.broker import EventNotStored
from florin_server.features.webhooks import worker as deliver

from tests.chaos.poison_round import FINAL
from tests.support.http_stub import HttpStub, ReceivedRequest, make_stub_response
from tests.support.receiver import OK

# refuses a delivery now and then
FLAKY = "/flaky"


@dataclass
class BackEnd:
    """A merchant's back end that can refuse the next delivery to one of its paths."""

    refuses: bool = False

    async def __call__(self, request: ReceivedRequest, out: asyncio.StreamWriter) -> None:
        if self.refuses and request.line.split()[1] == FLAKY:
            self.refuses = False
            await make_stub_response(503)(request, out)
        else:
            await OK(request, out)


class Deliveries:
    """The ends of payments that a merchant's back end received, by path."""

    def __init__(self, server: HttpStub) -> None:
        self._server = server
        self._read = 0
        self._ended: set[tuple[str, str]] = set()

    def has(self, path: str, payment_id: str) -> bool:
        """Return whether a payment's end was delivered to a path."""
        for request in self._server.requests[self._read :]:
            data = json.loads(request.body)["data"]
            if data.get("status") in FINAL:
                self._ended.add((request.line.split()[1], data["payment_id"]))
        self._read = len(self._server.requests)
        return (path, payment_id) in self._ended


@dataclass
class MemoryBroker:
    """A broker that stores events in memory, and can leave one event out.

    `places` are the stored events of each payment, in the order in which they came first.
    """

    places: dict[str, list[int]] = field(default_factory=dict)
    refuses: bool = False
    is_connected: bool = True

    async def wait_lost(self) -> None:
        await asyncio.Event().wait()

    async def publish(self, _subject: str, _body: bytes, headers: Mapping[str, str]) -> None:
        if self.refuses:
            self.refuses = False
            raise EventNotStored("out of space")
        places = self.places.setdefault(headers["Florin-Payment-Id"], [])
        place = int(headers["Florin-Sequence"])
        if place not in places:
            places.append(place)

    async def close(self) -> None:
        pass

    def list_unordered(self) -> list[str]:
        """Return the payments of which a later event came before an earlier one."""
        return [name for name, places in self.places.items() if places != sorted(places)]


def lose_secrets(monkeypatch: Any, lost: set[str]) -> None:
    """Store endpoint secrets that no key can decrypt."""
    decrypt_keys = deliver.decrypt_keys

    def decrypt_unless_lost(core: Any, endpoint_id: str, stored: Any) -> Any:
        if endpoint_id in lost:
            raise DecryptionError
        return decrypt_keys(core, endpoint_id, stored)

    monkeypatch.setattr(deliver, "decrypt_keys", decrypt_unless_lost)
