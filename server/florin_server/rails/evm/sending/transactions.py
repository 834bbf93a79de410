"""Type-2 transactions. Only this module signs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import rlp
from eth_hash.auto import keccak

from florin_server.domain.chains.evm.signatures import (
    derive_address,
    recover_address,
    sign_digest,
)
from florin_server.rails.evm.reading.node import parse_data, parse_quantity
from florin_server.rails.evm.sending.fees import TransactionFees
from florin_server.rails.types import RailUnavailable, SignedTransaction

_TYPE = b"\x02"
_SIGNED_FIELD_COUNT = 9  # fields in front of the signature


class EvmSigner:
    """A key that pays for gas. It shows only its address."""

    __slots__ = ("_secret", "address")

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise ValueError("a key has 32 bytes")
        self._secret = secret
        self.address = derive_address(secret)

    def __repr__(self) -> str:
        return f"Signer({self.address})"

    def sign_call(
        self,
        *,
        chain_id: int,
        nonce: int,
        fees: TransactionFees,
        gas: int,
        to: str,
        data: bytes,
        value: int = 0,
    ) -> SignedTransaction:
        """Sign a call that sends `value` wei; equal arguments give equal bytes (RFC 6979)."""
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
        return self._sign_fields(fields)

    def _sign_fields(self, fields: Sequence[object]) -> SignedTransaction:
        digest = keccak(_TYPE + rlp.encode(fields))
        signature = sign_digest(self._secret, digest)
        r, s = signature[:32], signature[32:64]
        sealed = [*fields, signature[64], int.from_bytes(r, "big"), int.from_bytes(s, "big")]
        raw = _TYPE + rlp.encode(sealed)
        return SignedTransaction(raw=raw, hash=compute_transaction_hash(raw))

    def sign_with_fees(self, raw: bytes, fees: TransactionFees) -> SignedTransaction:
        """Sign one of its own transactions again with other fees, otherwise unchanged."""
        chain_id, nonce, _, _, *rest = rlp.decode(raw[1:])[:_SIGNED_FIELD_COUNT]
        return self._sign_fields([chain_id, nonce, fees.tip, fees.max_fee, *rest])


def rebuild_transaction(transaction: Mapping[str, Any], sender: str) -> bytes | None:
    """Return the bytes of a type-2 transaction reported as JSON; None if they do not match it.

    The bytes have the reported hash and the sender's signature, so the node's other fields need no
    trust.
    """
    try:
        fields: list[object] = [
            parse_quantity(transaction["chainId"]),
            parse_quantity(transaction["nonce"]),
            parse_quantity(transaction["maxPriorityFeePerGas"]),
            parse_quantity(transaction["maxFeePerGas"]),
            parse_quantity(transaction["gas"]),
            parse_data(transaction["to"]),
            parse_quantity(transaction["value"]),
            parse_data(transaction["input"]),
            [],
        ]
        parity = parse_quantity(
            transaction["yParity"] if transaction.get("yParity") is not None else transaction["v"]
        )
        r, s = parse_quantity(transaction["r"]), parse_quantity(transaction["s"])
        digest = keccak(_TYPE + rlp.encode(fields))
        signature = r.to_bytes(32, "big") + s.to_bytes(32, "big") + bytes([27 + parity])
        signer = recover_address(digest, signature)
        raw = _TYPE + rlp.encode([*fields, parity, r, s])
    except (KeyError, ValueError, OverflowError, RailUnavailable):
        # another type of transaction, or not a node's answer
        return None
    return (
        raw
        if (signer, compute_transaction_hash(raw)) == (sender, transaction.get("hash"))
        else None
    )


def parse_coin_transfer(raw: bytes) -> tuple[str, int]:
    """Return the receiver and the amount of coin (wei) of a signed transaction."""
    fields = rlp.decode(raw[1:])
    return "0x" + fields[5].hex(), _parse_number(fields[6])


def parse_calldata(raw: bytes) -> bytes:
    """Return the calldata of a signed transaction."""
    calldata: bytes = rlp.decode(raw[1:])[7]
    return calldata


def parse_fees(raw: bytes) -> TransactionFees:
    """Return the fees that a signed transaction offers."""
    fields = rlp.decode(raw[1:])
    return TransactionFees(max_fee=_parse_number(fields[3]), tip=_parse_number(fields[2]))


def _parse_number(field: bytes) -> int:
    return int.from_bytes(field, "big")


def compute_transaction_hash(raw: bytes) -> str:
    """Return the 0x-hex hash of a transaction."""
    return "0x" + keccak(raw).hex()
