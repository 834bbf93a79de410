"""Type-2 transactions, signed here and nowhere else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rlp
from coincurve import PrivateKey, PublicKey
from eth_hash.auto import keccak

from florin_server.chains.evm.signatures import address_of_key
from florin_server.rails.evm.reading.node import data, quantity
from florin_server.rails.evm.sending.fees import Fees
from florin_server.rails.types import RailUnavailable, Signed

_TYPE = b"\x02"
_SIGNED = 9  # fields in front of the signature


class Signer:
    """A key that pays for gas. Shows its address only."""

    __slots__ = ("_key", "address")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ValueError("a key has 32 bytes")
        self._key = PrivateKey(secret)
        self.address = address_of_key(self._key.public_key)

    def __repr__(self) -> str:
        return f"Signer({self.address})"

    def sign_call(
        self,
        *,
        chain_id: int,
        nonce: int,
        fees: Fees,
        gas: int,
        to: str,
        data: bytes,
        value: int = 0,
    ) -> Signed:
        """Signs a call, with coin if `value` says so; equal arguments give equal bytes (RFC 6979).

        `value` is in wei.
        """
        fields: list[object] = [
            chain_id,
            nonce,
            fees.tip,
            fees.max_fee,
            gas,
            bytes.fromhex(to[2:]),
            value,
            data,
            [],
        ]
        return self._sealed(fields)

    def _sealed(self, fields: Sequence[object]) -> Signed:
        digest = keccak(_TYPE + rlp.encode(fields))
        signature = self._key.sign_recoverable(digest, hasher=None)
        r, s = signature[:32], signature[32:64]
        sealed = [*fields, signature[64], int.from_bytes(r, "big"), int.from_bytes(s, "big")]
        raw = _TYPE + rlp.encode(sealed)
        return Signed(raw=raw, hash=transaction_hash(raw))

    def sign_again(self, raw: bytes, fees: Fees) -> Signed:
        """Signs a transaction of its own again with other fees; nothing else changes."""
        chain_id, nonce, _, _, *rest = rlp.decode(raw[1:])[:_SIGNED]
        return self._sealed([chain_id, nonce, fees.tip, fees.max_fee, *rest])


def rebuild(told: Mapping[str, Any], sender: str) -> bytes | None:
    """Return the bytes of a type-2 transaction that a node reported as JSON; None if they differ.

    They have the hash that was reported and the sender's signature, whatever else the node said.
    """
    try:
        fields: list[object] = [
            quantity(told["chainId"]),
            quantity(told["nonce"]),
            quantity(told["maxPriorityFeePerGas"]),
            quantity(told["maxFeePerGas"]),
            quantity(told["gas"]),
            data(told["to"]),
            quantity(told["value"]),
            data(told["input"]),
            [],
        ]
        parity = quantity(told["yParity"] if told.get("yParity") is not None else told["v"])
        r, s = quantity(told["r"]), quantity(told["s"])
        digest = keccak(_TYPE + rlp.encode(fields))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([parity])
        signer = address_of_key(PublicKey.from_signature_and_message(signature, digest, None))
        raw = _TYPE + rlp.encode([*fields, parity, r, s])
    except (KeyError, ValueError, OverflowError, RailUnavailable):
        # another type of transaction, or no answer of a node
        return None
    return raw if (signer, transaction_hash(raw)) == (sender, told.get("hash")) else None


def coin_of(raw: bytes) -> tuple[str, int]:
    """Where a signed transaction sends how much coin."""
    fields = rlp.decode(raw[1:])
    return "0x" + fields[5].hex(), _number(fields[6])


def data_of(raw: bytes) -> bytes:
    """Return the calldata of a signed transaction."""
    calldata: bytes = rlp.decode(raw[1:])[7]
    return calldata


def fees_of(raw: bytes) -> Fees:
    """What a signed transaction offers."""
    fields = rlp.decode(raw[1:])
    return Fees(max_fee=_number(fields[3]), tip=_number(fields[2]))


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big")


def transaction_hash(raw: bytes) -> str:
    """The 0x-hex hash that a transaction is known by."""
    return "0x" + keccak(raw).hex()
