"""What time it is on the chain: slots, their blockhashes, and how deep something lies."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from solders.hash import Hash

from florin_server.clock import Clock
from florin_server.devnet.errors import bad_params
from florin_server.devnet.solana.genesis import SOLNET
from florin_server.devnet.solana.history import History

WINDOW: Final = 150  # slots that a blockhash is good for, as on every Solana cluster


class Commitment(StrEnum):
    """How sure a caller wants to be."""

    PROCESSED = "processed"
    CONFIRMED = "confirmed"
    FINALIZED = "finalized"


@dataclass(frozen=True, slots=True)
class Depths:
    """Slots on top that make a transaction confirmed, and finalized.

    A cluster whose `confirmed` is None refuses that commitment.
    """

    confirmed: int | None = 1
    finalized: int = 32


class Slots:
    """Counts slots: by the clock, or one for each transaction if `slot_s` is 0.

    Slots are never skipped, so the block height is the slot.
    """

    def __init__(self, history: History, clock: Clock, slot_s: float, depths: Depths) -> None:
        self._history = history
        self._clock = clock
        self._slot_us = int(slot_s * 1_000_000)
        self._depths = depths
        born_us = history.meta("born_us")
        if born_us is None:
            born_us = clock.now_us()
            history.set_meta("born_us", born_us)
        self._born_us = born_us
        self._extra = history.meta("extra_slots") or 0
        self._least = max(1, history.newest_slot())
        if self._counted() < self._least:
            # the clock was set back; the chain goes on from where it was
            self.advance(0)
        self._hashes: dict[Hash, int] = {}
        self._hashed = -1  # the newest slot of them; a young chain tells the hash of slot 0

    @property
    def now(self) -> int:
        """Unix seconds."""
        return self._clock.now_us() // 1_000_000

    @property
    def slot(self) -> int:
        """The slot that a transaction would land in."""
        self._least = max(self._least, self._counted())
        return self._least

    def _counted(self) -> int:
        passed = (self._clock.now_us() - self._born_us) // self._slot_us if self._slot_us else 0
        return 1 + self._extra + passed

    def left_s(self) -> float:
        """Seconds until the clock begins the next slot."""
        passed_us = self._clock.now_us() - self._born_us
        return (self._slot_us - passed_us % self._slot_us) / 1_000_000 if self._slot_us else 0.0

    def landed(self) -> None:
        """A transaction took the current slot."""
        if not self._slot_us:
            self.advance(1)

    def advance(self, slots: int) -> None:
        """Lets slots pass at once."""
        self._extra += self.slot + slots - self._counted()
        self._history.set_meta("extra_slots", self._extra)

    def at(self, commitment: Commitment) -> int:
        """Return the newest slot of a commitment; RpcFault if the cluster does not have it."""
        match commitment:
            case Commitment.PROCESSED:
                return self.slot
            case Commitment.CONFIRMED:
                if self._depths.confirmed is None:
                    raise bad_params("Invalid params: unknown variant `confirmed`")
                return max(0, self.slot - self._depths.confirmed)
            case Commitment.FINALIZED:
                return max(0, self.slot - self._depths.finalized)

    def commitment(self, slot: int) -> Commitment:
        """How sure a transaction of a slot is."""
        if slot <= self.at(Commitment.FINALIZED):
            return Commitment.FINALIZED
        has_confirmed = self._depths.confirmed is not None
        if has_confirmed and slot <= self.at(Commitment.CONFIRMED):
            return Commitment.CONFIRMED
        return Commitment.PROCESSED

    def blockhash(self, slot: int) -> Hash:
        """The hash of a slot's block."""
        content = SOLNET.genesis_hash.encode() + slot.to_bytes(8, "big")
        return Hash.from_bytes(hashlib.sha256(content).digest())

    def is_valid(self, blockhash: Hash, commitment: Commitment = Commitment.PROCESSED) -> bool:
        """True if a transaction with the blockhash may land, as seen from a commitment."""
        newest = self.slot
        for slot in range(max(self._hashed + 1, newest - 2 * WINDOW, 0), newest + 1):
            self._hashes[self.blockhash(slot)] = slot
        self._hashed = newest
        for old in [one for one, slot in self._hashes.items() if slot < newest - 2 * WINDOW]:
            del self._hashes[old]
        born, seen_from = self._hashes.get(blockhash), self.at(commitment)
        return born is not None and born <= seen_from <= born + WINDOW
