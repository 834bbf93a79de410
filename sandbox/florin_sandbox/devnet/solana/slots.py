"""The chain's time: slots, their blockhashes, and commitments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from florin_server.base.clock import Clock
from solders.hash import Hash

from florin_sandbox.devnet.errors import invalid_params_fault
from florin_sandbox.devnet.solana.genesis import SOLANA_DEVNET
from florin_sandbox.devnet.solana.history import SolanaHistory

WINDOW: Final = 150  # slots for which a blockhash is valid, as on every Solana cluster


class CommitmentLevel(StrEnum):
    """The commitment that a caller requests."""

    PROCESSED = "processed"
    CONFIRMED = "confirmed"
    FINALIZED = "finalized"


@dataclass(frozen=True, slots=True)
class CommitmentDepths:
    """Slots on top that make a transaction confirmed, and finalized.

    A cluster whose `confirmed` is None refuses that commitment.
    """

    confirmed: int | None = 1
    finalized: int = 32


class SlotClock:
    """Count slots: by the clock, or one for each transaction if `slot_s` is 0.

    Slots are never skipped, so the block height is the slot.
    """

    def __init__(
        self, history: SolanaHistory, clock: Clock, slot_s: float, depths: CommitmentDepths
    ) -> None:
        self._history = history
        self._clock = clock
        self._slot_us = int(slot_s * 1_000_000)
        self._depths = depths
        born_us = history.find_meta("born_us")
        if born_us is None:
            born_us = clock.now_us()
            history.set_meta("born_us", born_us)
        self._born_us = born_us
        self._extra_slots = history.find_meta("extra_slots") or 0
        self._min_slot = max(1, history.get_newest_slot())
        if self._count_slots() < self._min_slot:
            # the clock was set back; the chain continues from its last slot
            self.advance_slots(0)
        self._hashes: dict[Hash, int] = {}
        self._hashed = -1  # the newest slot of them; a young chain returns the hash of slot 0

    @property
    def now(self) -> int:
        """Return Unix seconds."""
        return self._clock.now_us() // 1_000_000

    @property
    def slot(self) -> int:
        """Return the slot in which a transaction would land."""
        self._min_slot = max(self._min_slot, self._count_slots())
        return self._min_slot

    def _count_slots(self) -> int:
        passed = (self._clock.now_us() - self._born_us) // self._slot_us if self._slot_us else 0
        return 1 + self._extra_slots + passed

    def get_left_s(self) -> float:
        """Return the seconds until the clock starts the next slot."""
        passed_us = self._clock.now_us() - self._born_us
        return (self._slot_us - passed_us % self._slot_us) / 1_000_000 if self._slot_us else 0.0

    def record_landing(self) -> None:
        """Record that a transaction took the current slot."""
        if not self._slot_us:
            self.advance_slots(1)

    def advance_slots(self, slots: int) -> None:
        """Advance slots at once."""
        self._extra_slots += self.slot + slots - self._count_slots()
        self._history.set_meta("extra_slots", self._extra_slots)

    def get_slot_at(self, commitment: CommitmentLevel) -> int:
        """Return the newest slot of a commitment; raise RpcFault if the cluster lacks it."""
        match commitment:
            case CommitmentLevel.PROCESSED:
                return self.slot
            case CommitmentLevel.CONFIRMED:
                if self._depths.confirmed is None:
                    raise invalid_params_fault("Invalid params: unknown variant `confirmed`")
                return max(0, self.slot - self._depths.confirmed)
            case CommitmentLevel.FINALIZED:
                return max(0, self.slot - self._depths.finalized)

    def get_commitment(self, slot: int) -> CommitmentLevel:
        """Return the commitment of a transaction in a slot."""
        if slot <= self.get_slot_at(CommitmentLevel.FINALIZED):
            return CommitmentLevel.FINALIZED
        has_confirmed = self._depths.confirmed is not None
        if has_confirmed and slot <= self.get_slot_at(CommitmentLevel.CONFIRMED):
            return CommitmentLevel.CONFIRMED
        return CommitmentLevel.PROCESSED

    def get_blockhash(self, slot: int) -> Hash:
        """Return the hash of a slot's block."""
        content = SOLANA_DEVNET.genesis_hash.encode() + slot.to_bytes(8, "big")
        return Hash.from_bytes(hashlib.sha256(content).digest())

    def is_valid(
        self, blockhash: Hash, commitment: CommitmentLevel = CommitmentLevel.PROCESSED
    ) -> bool:
        """Return True if a transaction with the blockhash can land, as seen from a commitment."""
        newest = self.slot
        for slot in range(max(self._hashed + 1, newest - 2 * WINDOW, 0), newest + 1):
            self._hashes[self.get_blockhash(slot)] = slot
        self._hashed = newest
        for old in [
            each_hash for each_hash, slot in self._hashes.items() if slot < newest - 2 * WINDOW
        ]:
            del self._hashes[old]
        born, seen_from = self._hashes.get(blockhash), self.get_slot_at(commitment)
        return born is not None and born <= seen_from <= born + WINDOW
