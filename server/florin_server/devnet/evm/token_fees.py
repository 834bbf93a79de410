"""Fees that are charged in a token, as on a chain without a coin (Tempo)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from eth_hash.auto import keccak

# what Tempo answers to eth_getBalance of any account
PLACEHOLDER: Final = 0x9612084F0316E0EBD5182F398E5195A51B5CA47667D4C9B26C9B26C9B26C9B2
UNIT_WEI: Final = 10**12
_TRANSFER: Final = int.from_bytes(keccak(b"Transfer(address,address,uint256)"), "big")
_SET: Final = keccak(b"setUserToken(address)")[:4].hex()
# keeps a word for each caller (setUserToken), and answers any address's (userTokens)
MANAGER_CODE: Final = bytes.fromhex(
    f"60003560e01c8063{_SET}14601c57" + "6004355460005260206000f3" + "5b600435335500"
)

Log = tuple[bytes, tuple[int, ...], bytes]


class Storage(Protocol):
    """The storage of accounts; addresses have 20 bytes."""

    def get_storage(self, address: Any, slot: int) -> int:
        """Return a word."""

    def set_storage(self, address: Any, slot: int, value: int) -> None:
        """Set a word."""


@dataclass(frozen=True, slots=True)
class TokenFees:
    """Charges fees in a token of six decimals, whose balances are a mapping at `slot`.

    The most that a transaction may cost is taken before it runs, and what it did not use is given
    back; the receipt has a transfer of the rest to `manager`. Addresses are lower-case.
    """

    token: str
    slot: int
    manager: str

    def held(self, state: Storage, account: bytes) -> int:
        """Return what an account can pay for gas, in wei."""
        return self._units(state, account) * UNIT_WEI

    def take(self, state: Storage, account: bytes, wei: int) -> int:
        """Take what so many wei cost, rounded up; return the units that were taken."""
        units = -(-wei // UNIT_WEI)
        self._move(state, account, self._manager, units)
        return units

    def settle(self, state: Storage, account: bytes, taken: int, wei: int) -> Log:
        """Give back what was taken beyond the cost in wei; return the transfer of the cost."""
        units = -(-wei // UNIT_WEI)
        self._move(state, self._manager, account, taken - units)
        topics = tuple(int.from_bytes(one, "big") for one in (account, self._manager))
        return self._token, (_TRANSFER, *topics), units.to_bytes(32, "big")

    def give(self, state: Storage, account: bytes, units: int) -> None:
        """Give an account units that nobody had."""
        place = self._place(account)
        state.set_storage(self._token, place, state.get_storage(self._token, place) + units)

    @property
    def _token(self) -> bytes:
        return bytes.fromhex(self.token[2:])

    @property
    def _manager(self) -> bytes:
        return bytes.fromhex(self.manager[2:])

    def _units(self, state: Storage, account: bytes) -> int:
        return state.get_storage(self._token, self._place(account))

    def _move(self, state: Storage, source: bytes, target: bytes, units: int) -> None:
        self.give(state, source, -units)
        self.give(state, target, units)

    def _place(self, account: bytes) -> int:
        key = account.rjust(32, b"\0") + self.slot.to_bytes(32, "big")
        return int.from_bytes(keccak(key), "big")
