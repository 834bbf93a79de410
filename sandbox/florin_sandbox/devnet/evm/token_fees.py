"""Fees that are charged in a token, as on a chain without a coin (Tempo)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol

from eth_hash.auto import keccak

# Tempo's answer to eth_getBalance of any account
PLACEHOLDER: Final = 0x9612084F0316E0EBD5182F398E5195A51B5CA47667D4C9B26C9B26C9B26C9B2
UNIT_WEI: Final = 10**12
_TRANSFER: Final = int.from_bytes(keccak(b"Transfer(address,address,uint256)"), "big")
_SET_SELECTOR: Final = keccak(b"setUserToken(address)")[:4].hex()
# keeps a word for each caller (setUserToken), and returns any address's (userTokens)
MANAGER_CODE: Final = bytes.fromhex(
    f"60003560e01c8063{_SET_SELECTOR}14601c57" + "6004355460005260206000f3" + "5b600435335500"
)

EvmLog = tuple[bytes, tuple[int, ...], bytes]


class SlotStorage(Protocol):
    """The storage of accounts; addresses have 20 bytes."""

    def get_storage(self, address: Any, slot: int) -> int:
        """Return a word."""

    def set_storage(self, address: Any, slot: int, value: int) -> None:
        """Set a word."""


@dataclass(frozen=True, slots=True)
class TokenFees:
    """Charge fees in a token of six decimals, whose balances are a mapping at `slot`.

    The highest cost of a transaction is taken before it runs, and the unused part is returned
    afterwards; the receipt has a transfer of the rest to `manager`. Addresses are lower-case.
    """

    token: str
    slot: int
    manager: str

    def get_balance(self, state: SlotStorage, account: bytes) -> int:
        """Return an account's gas money, in wei."""
        return self._get_units(state, account) * UNIT_WEI

    def take_fee(self, state: SlotStorage, account: bytes, wei: int) -> int:
        """Take the cost of an amount of wei, rounded up; return the units that were taken."""
        units = -(-wei // UNIT_WEI)
        self._move_units(state, account, self._manager_address, units)
        return units

    def settle_fee(self, state: SlotStorage, account: bytes, taken_units: int, wei: int) -> EvmLog:
        """Pay back the units beyond the cost in wei; return the log of the cost's transfer."""
        units = -(-wei // UNIT_WEI)
        self._move_units(state, self._manager_address, account, taken_units - units)
        topics = tuple(
            int.from_bytes(address, "big") for address in (account, self._manager_address)
        )
        return self._token_address, (_TRANSFER, *topics), units.to_bytes(32, "big")

    def give_units(self, state: SlotStorage, account: bytes, units: int) -> None:
        """Give an account new units."""
        place = self._compute_slot(account)
        state.set_storage(
            self._token_address, place, state.get_storage(self._token_address, place) + units
        )

    @property
    def _token_address(self) -> bytes:
        return bytes.fromhex(self.token[2:])

    @property
    def _manager_address(self) -> bytes:
        return bytes.fromhex(self.manager[2:])

    def _get_units(self, state: SlotStorage, account: bytes) -> int:
        return state.get_storage(self._token_address, self._compute_slot(account))

    def _move_units(self, state: SlotStorage, source: bytes, target: bytes, units: int) -> None:
        self.give_units(state, source, -units)
        self.give_units(state, target, units)

    def _compute_slot(self, account: bytes) -> int:
        key = account.rjust(32, b"\0") + self.slot.to_bytes(32, "big")
        return int.from_bytes(keccak(key), "big")
