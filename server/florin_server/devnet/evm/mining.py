"""When blocks are sealed."""

from __future__ import annotations

from typing import Final

from florin_server.devnet.evm.chain import Chain

# Empty blocks come after the last transaction for so many blocks and so many seconds, since
# finality is a matter of both: 32 blocks of 0.2 s are less than the 10 s that Base takes.
FOLLOWING: Final = 32
FOLLOWING_S: Final = 60
IDLE_S: Final = 15  # then time goes on at this pace, so that an idle chain stays small


class Mining:
    """Seals at once, or at each tick; not at all while paused."""

    def __init__(self, chain: Chain, *, at_once: bool) -> None:
        self._chain = chain
        self._at_once = at_once
        self.paused = False

    def submitted(self) -> None:
        """A transaction came in."""
        if self._at_once and not self.paused and self._ready():
            self._chain.mine()

    def resume(self) -> None:
        """Ends a pause; what has been waiting is sealed as if it came now."""
        self.paused = False
        if self._at_once and self._ready():
            self._chain.mine()

    def tick(self) -> None:
        """The time of a block has come."""
        if self.paused:
            return
        chain = self._chain
        now = chain.now()
        following = (
            chain.head.number < chain.last_busy + FOLLOWING or now < chain.last_busy_s + FOLLOWING_S
        )
        idle = now - chain.head.time >= IDLE_S
        if following or idle or self._ready():
            chain.mine()

    def _ready(self) -> bool:
        chain = self._chain
        return any(True for _ in chain.pool.candidates(chain.state, chain.base_fee, None))
