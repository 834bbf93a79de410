"""Gas prices that a chain can raise above Prague's, like future forks (EIP-7976, EIP-8037)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

PRAGUE_SLOT: Final = 20_000
PRAGUE_ACCOUNT: Final = 25_000
PRAGUE_FLOOR: Final = 40


@dataclass(slots=True)
class GasSchedule:
    """Gas for a new storage slot, for a new account, and the least for a byte of calldata.

    A byte of zero costs a quarter of the floor. A raised price of accounts also applies to a
    transaction that sends coin to a new account (EIP-2780). Fields can change while a chain runs.
    """

    slot: int = PRAGUE_SLOT
    account: int = PRAGUE_ACCOUNT
    floor: int = PRAGUE_FLOOR

    def compute_floor_gas(self, data: bytes) -> int:
        """Return the least gas that a transaction with this data is charged."""
        zeros = data.count(0)
        return 21_000 + self.floor * zeros // 4 + self.floor * (len(data) - zeros)

    @property
    def slot_extra(self) -> int:
        """Return the gas for a new slot above Prague's."""
        return self.slot - PRAGUE_SLOT

    @property
    def account_extra(self) -> int:
        """Return the gas for a new account above Prague's."""
        return self.account - PRAGUE_ACCOUNT
