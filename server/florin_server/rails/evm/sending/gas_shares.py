"""How much gas payments and payouts get: the usual shares, and more where a chain asks for more.

What is above the usual shares was measured on the chain, or comes from payments that plain keys
signed: no payer's code runs in either, so that no payer can raise what payers with code get.
Values only rise until the process ends: a node that changes its mind gains nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Final

from florin_server.rails.evm.sending.fees import KEY_GAS, WALLET_GAS, transaction_gas

# Payments store four new words at most: a nonce, and the balances of the settlement contract and
# two receivers.
_SLOTS: Final = 4
_PAYOUT_GAS: Final = 300_000  # a receiver's code runs at our cost; honest ones take a third of it
_FLOOR_MAX: Final = 1_000
_BASE_MAX: Final = 300_000

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class GasShares:
    """Shares of one chain. `ceiling` bounds a payment or a payout, in units of gas.

    `slot` is what a new storage slot costs above today's price, `base` what a plain transaction
    does, `floor` the least for a byte of calldata, and `tokens` what payments of a token need
    above the usual share.
    """

    ceiling: int = WALLET_GAS
    slot: int = 0
    base: int = 0
    floor: int = 40
    tokens: dict[str, int] = field(default_factory=dict)

    def payment(self, token: str, *, by_key: bool) -> int:
        """Return the most that a payment of a token may use, by the kind of its payer."""
        usual = KEY_GAS if by_key else WALLET_GAS
        return max(usual, min(usual + self.surplus(token), self.ceiling))

    def surplus(self, token: str) -> int:
        """Return what payments of a token get above the usual share, but for the ceiling."""
        return max(_SLOTS * self.slot, self.tokens.get(token, 0))

    @property
    def surplus_max(self) -> int:
        """The most that any payment gets above the usual share."""
        dearest = max(_SLOTS * self.slot, *self.tokens.values(), 0)
        return min(dearest, max(0, self.ceiling - KEY_GAS))

    @property
    def payout_max(self) -> int:
        """The most gas for a transfer out of the treasury."""
        return max(_PAYOUT_GAS, min(_PAYOUT_GAS + _SLOTS * self.slot, self.ceiling))

    def transaction(self, shares: int, size: int) -> int:
        """Return the gas of a transaction with so many bytes, from the sum of its shares."""
        return self.base + transaction_gas(shares, size, self.floor)

    def record_measured(self, slot: int, base: int, floor: int) -> None:
        """Record prices that the chain charges now, above today's; lower ones change nothing."""
        new = (
            max(self.slot, min(slot, self.ceiling)),
            max(self.base, min(base, _BASE_MAX)),
            max(self.floor, min(floor, _FLOOR_MAX)),
        )
        if new != (self.slot, self.base, self.floor):
            self.slot, self.base, self.floor = new
            _log.warning("gas costs more: %d more for a new slot, %d a byte", new[0], new[2])

    def record_needed(self, token: str, gas: int) -> None:
        """Record that a payment of a token by a plain key needs so much gas."""
        self.tokens[token] = max(self.tokens.get(token, 0), gas - KEY_GAS)
        _log.warning("payments of %s get %d gas", token, self.payment(token, by_key=True))

    @property
    def is_short(self) -> bool:
        """True if storage is so dear that usual payments need more than the ceiling."""
        return KEY_GAS + _SLOTS * self.slot > self.ceiling


TODAY: Final = GasShares()
