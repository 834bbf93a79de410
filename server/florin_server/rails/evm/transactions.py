"""Type-2 transactions, signed here and nowhere else."""

from __future__ import annotations

import rlp
from coincurve import PrivateKey
from eth_hash.auto import keccak

from florin_server.rails.base import Signed
from florin_server.rails.evm.fees import Fees
from florin_server.rails.evm.signatures import address_of_key

_TYPE = b"\x02"


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
        digest = keccak(_TYPE + rlp.encode(fields))
        signature = self._key.sign_recoverable(digest, hasher=None)
        r, s = signature[:32], signature[32:64]
        sealed = [*fields, signature[64], int.from_bytes(r, "big"), int.from_bytes(s, "big")]
        raw = _TYPE + rlp.encode(sealed)
        return Signed(raw=raw, hash=transaction_hash(raw))

    def sign_again(self, raw: bytes, fees: Fees) -> Signed:
        """Signs a call of its own again with other fees; nothing else changes."""
        chain_id, nonce, _, _, gas, to, _, data, *_ = rlp.decode(raw[1:])
        return self.sign_call(
            chain_id=_number(chain_id),
            nonce=_number(nonce),
            fees=fees,
            gas=_number(gas),
            to="0x" + to.hex(),
            data=data,
        )


def fees_of(raw: bytes) -> Fees:
    """What a signed transaction offers."""
    fields = rlp.decode(raw[1:])
    return Fees(max_fee=_number(fields[3]), tip=_number(fields[2]))


def _number(field: bytes) -> int:
    return int.from_bytes(field, "big")


def transaction_hash(raw: bytes) -> str:
    """The 0x-hex hash that a transaction is known by."""
    return "0x" + keccak(raw).hex()
