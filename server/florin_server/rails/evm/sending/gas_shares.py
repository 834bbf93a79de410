"""The gas of payments and payouts: the usual shares, and more where a chain charges more.

Values above the usual shares were measured on the chain, or come from payments that plain keys
signed. No payer's code runs in either, so that no payer can raise what payers with code get. Values
only rise until the process ends: a node that changes its answers gains nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from florin_server.rails.evm.sending.fees import KEY_GAS, WALLET_GAS, compute_transaction_gas

# Payments store at most four new words: a nonce, and the balances of the settlement contract and
# two receivers.
_SLOTS: Final = 4
# slots that cost as much as an address's account and its code of 45 bytes do by EIP-8037
_ADDRESS_SLOTS: Final = 3
_PAYOUT_GAS: Final = 300_000  # a receiver's code runs at our cost; honest code needs a third of it
_FLOOR_MAX: Final = 1_000
_BASE_MAX: Final = 300_000

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class GasShares:
    """The gas shares of one chain. `ceiling` bounds a payment or a payout, in units of gas.

    `slot_surcharge` is the extra price of a new storage slot above today's, `base_surcharge` that
    of a plain transaction. `floor` is the least gas per byte of calldata. `gas_by_token` holds
    what payments of a token need above the usual share.
    """

    ceiling: int = WALLET_GAS
    slot_surcharge: int = 0
    base_surcharge: int = 0
    floor: int = 40
    gas_by_token: dict[str, int] = field(default_factory=dict)

    def get_payment_gas(self, token: str, *, by_key: bool) -> int:
        """Return the most gas that a payment of a token can use, by the payer's kind."""
        usual = KEY_GAS if by_key else WALLET_GAS
        return max(usual, min(usual + self.get_surplus(token), self.ceiling))

    def get_surplus(self, token: str) -> int:
        """Return a token's gas above the usual share, before the ceiling applies."""
        return max(_SLOTS * self.slot_surcharge, self.gas_by_token.get(token, 0))

    @property
    def surplus_max(self) -> int:
        """Return the most gas that any payment gets above the usual share."""
        dearest = max(_SLOTS * self.slot_surcharge, *self.gas_by_token.values(), 0)
        return min(dearest, max(0, self.ceiling - KEY_GAS))

    @property
    def payout_max(self) -> int:
        """Return the most gas for a transfer out of the treasury."""
        return max(_PAYOUT_GAS, min(_PAYOUT_GAS + _SLOTS * self.slot_surcharge, self.ceiling))

    @property
    def address_surcharge(self) -> int:
        """Return the extra gas to put code at an address, as new storage is dearer than today."""
        return _ADDRESS_SLOTS * self.slot_surcharge

    def compute_transaction_gas(self, shares: int, size: int) -> int:
        """Return the gas of a transaction with `size` bytes, from the sum of its shares."""
        return self.base_surcharge + compute_transaction_gas(shares, size, self.floor)

    def record_prices(self, slot: int, base: int, floor: int) -> None:
        """Record prices that the chain charges above today's; lower prices change nothing."""
        new = (
            max(self.slot_surcharge, min(slot, self.ceiling)),
            max(self.base_surcharge, min(base, _BASE_MAX)),
            max(self.floor, min(floor, _FLOOR_MAX)),
        )
        if new != (self.slot_surcharge, self.base_surcharge, self.floor):
            self.slot_surcharge, self.base_surcharge, self.floor = new
            _log.warning("gas costs more: %d more for a new slot, %d a byte", new[0], new[2])

    def record_payment_gas(self, token: str, gas: int) -> None:
        """Record the gas that a plain key's payment of a token needs."""
        self.gas_by_token[token] = max(self.gas_by_token.get(token, 0), gas - KEY_GAS)
        _log.warning("payments of %s get %d gas", token, self.get_payment_gas(token, by_key=True))

    @property
    def is_short(self) -> bool:
        """Return True if storage costs so much that usual payments need more than the ceiling."""
        return KEY_GAS + _SLOTS * self.slot_surcharge > self.ceiling


DEFAULT_SHARES: Final = GasShares()
