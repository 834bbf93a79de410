"""The wire format of notifications between processes on one store, and the queue of unsent ones.

A notification on the wire is a hint: it names the changed object, never its new value, and
receivers re-read the store. Hints can get lost, arrive twice, be forged or be wrong; sweeps and
counters in the store find all changes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from florin_server.base.meters import Meters
from florin_server.base.topics import Topic

# the version of the format; messages of other versions come from other releases and are ignored
_FORMAT = "1"
_BYTES_MAX = 7900
# the queue during an outage of the store; a sweep finds what does not fit
_QUEUE_MAX = 10_000
_ID = r"[A-Za-z0-9_:.-]{1,128}"
_ORIGIN = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(
    rf"p:(?P<version>[0-9]{{1,18}}):(?P<payment>{_ID})|(?P<kind>[osr]):(?P<id>{_ID})|[wg]"
)

# processes of other releases read these, and ignore a message with a kind that they do not know: a
# new topic stays in its process until none of them can run
_KEYED_KINDS: Final[Mapping[Topic, str]] = {
    Topic.PAYOUT: "o",
    Topic.SETTLEMENT: "s",
    Topic.RECEIVERS: "r",
}
_PAYOUTS_DUE, _CACHED_DATA = "w", "g"
_KINDS: Final[Mapping[Topic, str]] = {
    Topic.PAYOUTS_DUE: _PAYOUTS_DUE,
    Topic.ACCOUNTS: _CACHED_DATA,
    Topic.SCREENING: _CACHED_DATA,
    Topic.EXECUTORS: _CACHED_DATA,
    Topic.QUARANTINE: _CACHED_DATA,
}
_TOPICS: Final = {kind: topic for topic, kind in _KEYED_KINDS.items()}


@dataclass(slots=True)
class BusMessage:
    """The content of one message: versions of payments by id, and the keys of other topics.

    The key of a topic without keys is blank. `invalidates_caches` means that cached data was
    changed and counted; the counters in the store say which.
    """

    payment_versions: dict[str, int] = field(default_factory=dict)
    keys: dict[Topic, set[str]] = field(default_factory=dict)
    invalidates_caches: bool = False

    def __len__(self) -> int:
        counts = map(len, (self.payment_versions, *self.keys.values()))
        return sum(counts) + self.invalidates_caches


class ProcessBus:
    """Messages to other processes, until they are sent; none without an `origin`.

    `origin` is this process, 16 hex digits that no other has. `is_listening` is true while messages
    of others are received.
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

    def publish(self, topic: Topic, key: str) -> None:
        """Add a notification of a topic other than payments, unless it stays in its process."""
        if (kind := _KEYED_KINDS.get(topic)) is not None:
            if not key:
                raise ValueError(f"notifications of {topic} have a key")
            self._enqueue(f"{kind}:{key}")
        elif topic is not Topic.WEBHOOKS:
            self._enqueue(_KINDS[topic])

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
            message.keys.setdefault(_TOPICS[match["kind"]], set()).add(match["id"])
        elif token == _PAYOUTS_DUE:
            message.keys[Topic.PAYOUTS_DUE] = {""}
        else:
            message.invalidates_caches = True
    return origin, message
