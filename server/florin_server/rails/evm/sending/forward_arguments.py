"""Payments to addresses in the form of a settlement's items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm.forwarder import Forwarding

# the nine parts of the route, target, data's offset and length, gas, and the item's own offset
_WORDS: Final = 14


@dataclass(frozen=True, slots=True)
class ForwardArguments:
    """One payment to forward; `payer` is its address, lower-case.

    `gas` is the limit if it is one of several items. Its buyer signs nothing for Florin.
    """

    route: ForwardRoute
    payer: str
    gas: int
    signature: bytes = b""

    @property
    def token(self) -> str:
        """Return the token's address, the zero address for the coin."""
        return self.route.token

    @property
    def value(self) -> int:
        """Return the minor units that the address must hold."""
        return self.route.value

    @property
    def dest(self) -> str:
        """Return the merchant's address."""
        return self.route.dest

    @property
    def fee_to(self) -> str:
        """Return the fee receiver's address, the zero address without a fee."""
        return self.route.fee_to

    @property
    def ref(self) -> bytes:
        """Return the payment's reference."""
        return self.route.ref

    @property
    def size(self) -> int:
        """Return the bytes that it adds to the calldata, its offset included."""
        return _WORDS * abi.WORD

    def to_forwarding(self) -> Forwarding:
        """Return it in the form of the forwarder's calls."""
        return Forwarding(self.route, self.gas)
