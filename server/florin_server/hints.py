"""Hints: what processes on one store tell each other, so that none has to wait for a sweep.

A hint names what was changed and never says how it is now: whoever hears of it reads the store.
Hints may get lost, come twice, come from a stranger or say what is not true; sweeps and counters in
the store find all that they tell.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field

from florin_server.meters import Meters

# the texts' form; those of another one are of another version of Florin, and not heard
_FORM = "1"
_BYTES_MAX = 7900
# what waits while the store is away; what does not fit is found by a sweep
_WAITING_MAX = 10_000
_ID = r"[A-Za-z0-9_:.-]{1,128}"
_ORIGIN = re.compile(r"[0-9a-f]{16}")
_TOKEN = re.compile(
    rf"p:(?P<version>[0-9]{{1,18}}):(?P<payment>{_ID})|(?P<kind>[osr]):(?P<id>{_ID})|[wg]"
)

_PAYOUT, _SETTLE, _RECEIVERS, _PAY_OUT, _REMEMBERED = "o", "s", "r", "w", "g"


@dataclass(slots=True)
class Heard:
    """What one text tells: versions of payments by id, ids of payouts, and chains (CAIP-2).

    `settle` are chains with something to settle, `receivers` those where somebody new is to be
    paid. `pay_out` tells that something is to be paid out, and `remembered` that something was
    changed that processes remember.
    """

    payments: dict[str, int] = field(default_factory=dict)
    payouts: set[str] = field(default_factory=set)
    settle: set[str] = field(default_factory=set)
    receivers: set[str] = field(default_factory=set)
    pay_out: bool = False
    remembered: bool = False

    def __len__(self) -> int:
        counts = map(len, (self.payments, self.payouts, self.settle, self.receivers))
        return sum(counts) + self.pay_out + self.remembered


class Hints:
    """What other processes are to be told, until somebody takes it; without origin nothing is.

    `origin` is this process, 16 hex digits that no other has. `listening` is true while others are
    heard.
    """

    def __init__(self, origin: str = "", meters: Meters | None = None) -> None:
        self._origin = origin
        self._meters = meters or Meters()
        self._payments: dict[str, int] = {}
        self._others: dict[str, None] = {}
        self._asked = asyncio.Event()
        self.listening = False

    @property
    def on(self) -> bool:
        """True if there may be somebody to tell."""
        return bool(self._origin)

    def payment(self, payment_id: str, version: int) -> None:
        """A payment came to a version."""
        if self.on and self._has_room(payment_id in self._payments):
            self._payments[payment_id] = max(version, self._payments.get(payment_id, 0))
            self._asked.set()

    def payouts(self, *ids: str) -> None:
        """Payouts may have changed."""
        for one in ids:
            self._put(f"{_PAYOUT}:{one}")

    def settle(self, chain_id: str) -> None:
        """There is something to settle on a chain."""
        self._put(f"{_SETTLE}:{chain_id}")

    def receivers(self, chain_id: str) -> None:
        """Somebody new is to be paid on a chain."""
        self._put(f"{_RECEIVERS}:{chain_id}")

    def pay_out(self) -> None:
        """There may be something to pay out."""
        self._put(_PAY_OUT)

    def remembered(self) -> None:
        """Something was changed and counted that processes remember."""
        self._put(_REMEMBERED)

    async def next(self) -> tuple[str, int]:
        """The next text, once there is something to tell, and how many hints are in it."""
        while not (self._payments or self._others):
            self._asked.clear()
            await self._asked.wait()
        tokens = [_FORM, self._origin]
        size = sum(map(len, tokens))
        while (token := self._first()) is not None and size + len(token) < _BYTES_MAX:
            # and what is between them
            size += len(token) + 1
            tokens.append(token)
            self._take(token)
        return " ".join(tokens), len(tokens) - 2

    def hear(self, text: str) -> Heard | None:
        """What a text tells; None if it is our own, and if it is none of ours, which is counted."""
        origin, heard = read(text)
        if heard is None:
            self._meters.hints("ignored")
            return None
        if origin == self._origin:
            return None
        self._meters.hints("heard", len(heard))
        return heard

    def _first(self) -> str | None:
        # the others are few, and wake those who work
        for token in self._others:
            return token
        for payment_id, version in self._payments.items():
            return f"p:{version}:{payment_id}"
        return None

    def _take(self, token: str) -> None:
        if token in self._others:
            del self._others[token]
        else:
            del self._payments[next(iter(self._payments))]

    def _put(self, token: str) -> None:
        if self.on and self._has_room(token in self._others):
            self._others[token] = None
            self._asked.set()

    def _has_room(self, waits: bool) -> bool:
        if waits or len(self._payments) + len(self._others) < _WAITING_MAX:
            return True
        self._meters.hints("dropped")
        return False


def read(text: str) -> tuple[str, Heard | None]:
    """Who told a text, and what it tells; None if it has another form, in whatever part of it."""
    form, _, rest = text.partition(" ")
    origin, _, rest = rest.partition(" ")
    if form != _FORM or not _ORIGIN.fullmatch(origin):
        return "", None
    heard = Heard()
    for token in rest.split(" "):
        found = _TOKEN.fullmatch(token)
        if found is None:
            return "", None
        if found["payment"]:
            heard.payments[found["payment"]] = int(found["version"])
        elif found["kind"]:
            named = {_PAYOUT: heard.payouts, _SETTLE: heard.settle, _RECEIVERS: heard.receivers}
            named[found["kind"]].add(found["id"])
        elif token == _PAY_OUT:
            heard.pay_out = True
        else:
            heard.remembered = True
    return origin, heard
