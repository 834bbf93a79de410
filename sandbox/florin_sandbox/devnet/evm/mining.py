"""The timing of blocks."""

from __future__ import annotations

from typing import Final

from florin_sandbox.devnet.evm.chain import EmbeddedEvmChain

# Empty blocks follow the last transaction for this many blocks and seconds, as finality depends on
# both: 32 blocks of 0.2 s are less than the 10 s that Base needs.
FOLLOWING_BLOCKS: Final = 32
FOLLOWING_S: Final = 60
IDLE_S: Final = 15  # after that, one block at this interval, so that an idle chain stays small


class BlockProducer:
    """Seal blocks at once, or at each tick; not at all while paused."""

    def __init__(self, chain: EmbeddedEvmChain, *, is_instant: bool) -> None:
        self._chain = chain
        self._is_instant = is_instant
        self.is_paused = False

    def record_submission(self) -> None:
        """Handle a new transaction."""
        if self._is_instant and not self.is_paused and self._has_candidates():
            self._chain.mine_block()

    def resume(self) -> None:
        """End a pause; seal pending transactions as if they came now."""
        self.is_paused = False
        if self._is_instant and self._has_candidates():
            self._chain.mine_block()

    def produce_block(self) -> None:
        """Seal a block at its time, if it is due."""
        if self.is_paused:
            return
        chain = self._chain
        now = chain.now()
        following = (
            chain.head.number < chain.last_nonempty_number + FOLLOWING_BLOCKS
            or now < chain.last_busy_s + FOLLOWING_S
        )
        idle = now - chain.head.time >= IDLE_S
        if following or idle or self._has_candidates():
            chain.mine_block()

    def _has_candidates(self) -> bool:
        chain = self._chain
        return any(True for _ in chain.pool.list_candidates(chain.state, chain.base_fee, None))
