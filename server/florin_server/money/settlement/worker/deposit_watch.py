"""An open address of a payment, and how what arrived there differs from what is known."""

from __future__ import annotations

from dataclasses import dataclass, field

from florin_server.domain.payments.deposits import Deposit
from florin_server.money.payments.store.deposit_addresses import WatchedDepositAddress

# a deposit apart from its block's hash, which a reorganization can change
DepositKey = tuple[str, str, int, str, int]


@dataclass(slots=True)
class AddressWatch:
    """An open address, the next block to read for it, and what is known of its money.

    `coin` is its balance before that block, in minor units; None if it was not read yet.
    """

    row: WatchedDepositAddress
    next_block: int
    final: dict[DepositKey, Deposit] = field(default_factory=dict)
    pending: dict[DepositKey, Deposit] = field(default_factory=dict)
    coin: int | None = None
    is_over: bool = False

    def list_arrived(self) -> list[Deposit]:
        """Return what arrived of the asset that pays."""
        stored = (*self.final.values(), *self.pending.values())
        return [deposit for deposit in stored if deposit.asset == self.row.asset]

    @property
    def has_enough(self) -> bool:
        """Return True if the price arrived, from any senders."""
        return sum(deposit.value for deposit in self.list_arrived()) >= self.row.value

    def take(self, arrived: dict[DepositKey, Deposit], settled: int) -> None:
        """Remember what arrived in the blocks that were read, up to a final block for good."""
        self.pending = {}
        for key, deposit in arrived.items():
            (self.final if deposit.block_number <= settled else self.pending)[key] = deposit


@dataclass(slots=True)
class DepositChanges:
    """Deposits to store, and deposits whose blocks were replaced."""

    final: list[Deposit] = field(default_factory=list)
    pending: list[Deposit] = field(default_factory=list)
    removed: list[Deposit] = field(default_factory=list)

    def add(self, watched: AddressWatch, arrived: dict[DepositKey, Deposit], settled: int) -> None:
        """Add how what arrived differs from what is known of an address."""
        self.removed += [deposit for key, deposit in watched.pending.items() if key not in arrived]
        for key, deposit in arrived.items():
            if deposit.block_number <= settled:
                if key not in watched.final:
                    self.final.append(deposit)
            elif watched.pending.get(key) != deposit:
                self.pending.append(deposit)


def get_deposit_key(deposit: Deposit) -> DepositKey:
    """Return what names a deposit, also while its block is not final."""
    return (
        deposit.address,
        deposit.asset,
        deposit.block_number,
        deposit.tx_hash,
        deposit.position,
    )
