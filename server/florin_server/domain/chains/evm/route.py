"""The routes of buyers' money, and the hashes that bind signatures and addresses to them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum

from eth_hash.auto import keccak

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_WORD_MAX = 2**256 - 1
_REFERENCE_BYTES = 32
# the code that creates a minimal proxy (ERC-1167), around the address of its code
_PROXY_START = bytes.fromhex("3d602d80600a3d3981f3363d3d373d3d3d363d73")
_PROXY_END = bytes.fromhex("5af43d82803e903d91602b57fd5bf3")


class RouteKind(IntEnum):
    """The payment methods, by the contracts' numbers; the last is the forwarder's."""

    EIP3009 = 0
    PERMIT2 = 1
    DIRECT = 2
    FORWARD = 3


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
            _encode_reference(self.ref),
        )
        return bytes(keccak(b"".join(words)))


@dataclass(frozen=True, slots=True)
class ForwardRoute:
    """The route of a payment to an address of its own, through the forwarder.

    Like `SettlementRoute`; `home` receives all money at the address that is not the route's.
    """

    chain_id: int
    forwarder: str
    token: str
    value: int
    valid_before: int
    dest: str
    fee_to: str
    fee: int
    ref: bytes
    home: str

    @property
    def settler(self) -> str:
        """Return the contract whose event proves the payment: the forwarder."""
        return self.forwarder

    @property
    def kind(self) -> RouteKind:
        """Return the payment method."""
        return RouteKind.FORWARD

    @property
    def words(self) -> tuple[bytes, ...]:
        """Return the parts in the contract's order, without the forwarder, as ABI words.

        Raise ValueError if a part does not fit its type.
        """
        return (
            _encode_uint256(self.chain_id),
            _encode_address(self.token),
            _encode_uint256(self.value),
            _encode_uint256(self.valid_before),
            _encode_address(self.dest),
            _encode_address(self.fee_to),
            _encode_uint256(self.fee),
            _encode_reference(self.ref),
            _encode_address(self.home),
        )

    def compute_nonce(self) -> bytes:
        """Return the route's hash, equal to the contract's, which is the salt of its address."""
        chain, *words = self.words
        contract = (_encode_address(self.forwarder), _encode_uint256(self.kind))
        return bytes(keccak(b"".join((chain, *contract, *words))))

    def compute_address(self) -> str:
        """Return the payment's lower-case address, equal to the contract's `addressOf`.

        It is that of CREATE2 by the forwarder with a minimal proxy of the vault, which is the first
        contract that the forwarder creates. It has no key.
        """
        forwarder = _encode_address(self.forwarder)[12:]
        # RLP of the forwarder and its first nonce
        vault = keccak(b"\xd6\x94" + forwarder + b"\x01")[12:]
        code_hash = keccak(_PROXY_START + vault + _PROXY_END)
        return "0x" + keccak(b"\xff" + forwarder + self.compute_nonce() + code_hash)[12:].hex()


def _encode_reference(ref: bytes) -> bytes:
    if len(ref) != _REFERENCE_BYTES:
        raise ValueError(f"a reference has {_REFERENCE_BYTES} bytes, not {len(ref)}")
    return ref


def _encode_uint256(number: int) -> bytes:
    if not 0 <= number <= _WORD_MAX:
        raise ValueError(f"{number} is not a uint256")
    return number.to_bytes(32)


def _encode_address(text: str) -> bytes:
    if _ADDRESS.fullmatch(text) is None:
        raise ValueError(f"not an EVM address: {text!r}")
    return bytes(12) + bytes.fromhex(text[2:])
