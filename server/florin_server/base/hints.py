"""Hints: notifications between processes on one store, so that none has to wait for a sweep.

A hint names what was changed and never its new value: receivers re-read the store. Hints can get
lost, arrive twice, come from a stranger or be wrong; sweeps and counters in the store find all
changes.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from florin_server.base.meters import Meters

# the form of messages; those of another form are of another release, and ignored
_FORMAT = "1"
_BYTES_MAX = 7900
# the queue during an outage of the store; a sweep finds what does not fit
_QUEUE_MAX = 10_000
_ID = r"[A-Za-z0-9_:.-]{1,128}"
_ORIGIN = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(
    rf"p:(?P<version>[0-9]{{1,18}}):(?P<payment>{_ID})|(?P<kind>[osr]):(?P<id>{_ID})|[wg]"
)

_PAYOUT, _SETTLE, _RECEIVERS, _PAY_OUT, _CACHE_INVALIDATION = "o", "s", "r", "w", "g"


@dataclass(slots=True)
class BusMessage:
    """The content of one message: versions of payments by id, ids of payouts, and chains (CAIP-2).

    `settlement_chains` are chains with something to settle, `receiver_chains` those with a new
    receiver. `payouts_due` means that there is something to pay out, and `cache_invalidation` that
    cached data was changed.
    """

    payment_versions: dict[str, int] = field(default_factory=dict)
    payout_ids: set[str] = field(default_factory=set)
    settlement_chains: set[str] = field(default_factory=set)
    receiver_chains: set[str] = field(default_factory=set)
    payouts_due: bool = False
    cache_invalidation: bool = False

    def __len__(self) -> int:
        counts = map(
            len,
            (self.payment_versions, self.payout_ids, self.settlement_chains, self.receiver_chains),
        )
        return sum(counts) + self.payouts_due + self.cache_invalidation


class ProcessBus:
    """Messages to other processes, until they are sent; without origin there are none.

    `origin` is this process, 16 hex digits that no other has. `listening` is true while messages of
    others are received.
    """

    def __init__(self, origin: str = "", meters: Meters | None = None) -> None:
        self._origin = origin
        self._meters = meters or Meters()
        self._payments: dict[str, int] = {}
        self._tokens: dict[str, None] = {}
        self._pending = asyncio.Event()
        self.is_listening = False

    @property
    def is_enabled(self) -> bool:
        """Return True if there can be receivers."""
        return bool(self._origin)

    def publish_payment(self, payment_id: str, version: int) -> None:
        """Add a payment's new version."""
        if self.is_enabled and self._has_room(payment_id in self._payments):
            self._payments[payment_id] = max(version, self._payments.get(payment_id, 0))
            self._pending.set()

    def publish_payouts(self, *ids: str) -> None:
        """Add payouts that may have changed."""
        for payout_id in ids:
            self._enqueue(f"{_PAYOUT}:{payout_id}")

    def publish_settlement(self, chain_id: str) -> None:
        """Add a chain with something to settle."""
        self._enqueue(f"{_SETTLE}:{chain_id}")

    def publish_receivers(self, chain_id: str) -> None:
        """Add a chain with a new receiver."""
        self._enqueue(f"{_RECEIVERS}:{chain_id}")

    def publish_payouts_due(self) -> None:
        """Add that there can be something to pay out."""
        self._enqueue(_PAY_OUT)

    def publish_cache_invalidation(self) -> None:
        """Add that cached data was changed and counted."""
        self._enqueue(_CACHE_INVALIDATION)

    async def next_message(self) -> tuple[str, int]:
        """Return the next message, once there is one, and how many hints are in it."""
        while not (self._payments or self._tokens):
            self._pending.clear()
            await self._pending.wait()
        tokens = [_FORMAT, self._origin]
        size = sum(map(len, tokens))
        while (token := self._peek()) is not None and size + len(token) < _BYTES_MAX:
            # and what is between them
            size += len(token) + 1
            tokens.append(token)
            self._dequeue(token)
        return " ".join(tokens), len(tokens) - 2

    def receive(self, text: str) -> BusMessage | None:
        """Return the content of a message; None if it is our own, or invalid, which is counted."""
        origin, message = parse_message(text)
        if message is None:
            self._meters.record_hints("ignored")
            return None
        if origin == self._origin:
            return None
        self._meters.record_hints("heard", len(message))
        return message

    def _peek(self) -> str | None:
        # the other hints are few, and wake workers
        for token in self._tokens:
            return token
        for payment_id, version in self._payments.items():
            return f"p:{version}:{payment_id}"
        return None

    def _dequeue(self, token: str) -> None:
        if token in self._tokens:
            del self._tokens[token]
        else:
            del self._payments[next(iter(self._payments))]

    def _enqueue(self, token: str) -> None:
        if self.is_enabled and self._has_room(token in self._tokens):
            self._tokens[token] = None
            self._pending.set()

    def _has_room(self, waits: bool) -> bool:
        if waits or len(self._payments) + len(self._tokens) < _QUEUE_MAX:
            return True
        self._meters.record_hints("dropped")
        return False


def parse_message(text: str) -> tuple[str, BusMessage | None]:
    """Return the origin and content of a message; None if any part has another form."""
    form, _, rest = text.partition(" ")
    origin, _, rest = rest.partition(" ")
    if form != _FORMAT or not _ORIGIN.fullmatch(origin):
        return "", None
    message = BusMessage()
    for token in rest.split(" "):
        match = _TOKEN.fullmatch(token)
        if match is None:
            return "", None
        if match["payment"]:
            message.payment_versions[match["payment"]] = int(match["version"])
        elif match["kind"]:
            named = {
                _PAYOUT: message.payout_ids,
                _SETTLE: message.settlement_chains,
                _RECEIVERS: message.receiver_chains,
            }
            named[match["kind"]].add(match["id"])
        elif token == _PAY_OUT:
            message.payouts_due = True
        else:
            message.cache_invalidation = True
    return origin, message
