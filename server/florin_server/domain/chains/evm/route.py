"""The route of a buyer's money, and the hash that binds a signature to it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from eth_hash.auto import keccak

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_WORD_MAX = 2**256 - 1
_REFERENCE_BYTES = 32


class RouteKind(IntEnum):
    """The settlement contract's payment methods, by its numbers."""

    EIP3009 = 0
    PERMIT2 = 1
    DIRECT = 2


@dataclass(frozen=True, slots=True)
class SettlementRoute:
    """One payment's route through the settlement contract.

    Addresses are 0x-hex in any case; `value` and `fee` are minor units of the token; `fee` is part
    of `value`. `valid_before` is in Unix seconds, `ref` the 32-byte payment reference.
    """

    chain_id: int
    settler: str
    kind: RouteKind
    token: str
    value: int
    valid_before: int
    dest: str
    fee_to: str
    fee: int
    ref: bytes

    def compute_nonce(self) -> bytes:
        """Return the route's hash, equal to the contract's, so that the route cannot be changed.

        keccak256 over the ABI encoding of (chain id, settler, kind, token, value, valid_before,
        dest, fee_to, fee, ref). Raise ValueError if a part does not fit its type.
        """
        if len(self.ref) != _REFERENCE_BYTES:
            raise ValueError(f"a reference has {_REFERENCE_BYTES} bytes, not {len(self.ref)}")
        words = (
            _encode_uint256(self.chain_id),
            _encode_address(self.settler),
            _encode_uint256(self.kind),
            _encode_address(self.token),
            _encode_uint256(self.value),
            _encode_uint256(self.valid_before),
            _encode_address(self.dest),
            _encode_address(self.fee_to),
            _encode_uint256(self.fee),
            self.ref,
        )
        return bytes(keccak(b"".join(words)))


def _encode_uint256(number: int) -> bytes:
    if not 0 <= number <= _WORD_MAX:
        raise ValueError(f"{number} is not a uint256")
    return number.to_bytes(32)


def _encode_address(text: str) -> bytes:
    if _ADDRESS.fullmatch(text) is None:
        raise ValueError(f"not an EVM address: {text!r}")
    return bytes(12) + bytes.fromhex(text[2:])
