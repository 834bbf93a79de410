"""The messages that wallets sign, as EIP-712 documents and as digests.

Documents have a form that every wallet library hashes alike: the domain's type listed first,
members in order, numbers as minimal 0x-hex text, addresses in lower case. Digests are computed
directly; the generic encoder costs twelve times as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from eth_hash.auto import keccak

from florin_server.domain.chains.evm.abi import encode_address, encode_uint256

PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3"
# x402's contract for Permit2, at this address on every chain that has it (CREATE2)
X402_PROXY = "0x402085c248eea27d92e8b30b2c58ed07f9e20001"

_Members = Sequence[tuple[str, str]]
_AUTHORIZATION: _Members = (
    ("from", "address"),
    ("to", "address"),
    ("value", "uint256"),
    ("validAfter", "uint256"),
    ("validBefore", "uint256"),
    ("nonce", "bytes32"),
)
_PERMIT: _Members = (
    ("permitted", "TokenPermissions"),
    ("spender", "address"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)
_TOKEN: _Members = (("token", "address"), ("amount", "uint256"))
_APPROVAL: _Members = (
    ("owner", "address"),
    ("spender", "address"),
    ("value", "uint256"),
    ("nonce", "uint256"),
    ("deadline", "uint256"),
)


def _encode_type(name: str, members: _Members) -> str:
    return f"{name}({','.join(f'{kind} {member}' for member, kind in members)})"


_AUTHORIZATION_HASH = keccak(_encode_type("ReceiveWithAuthorization", _AUTHORIZATION).encode())
_TRANSFER_HASH = keccak(_encode_type("TransferWithAuthorization", _AUTHORIZATION).encode())
_APPROVAL_HASH = keccak(_encode_type("Permit", _APPROVAL).encode())
_TOKEN_HASH = keccak(_encode_type("TokenPermissions", _TOKEN).encode())
_PERMIT_HASH = keccak(
    (
        _encode_type("PermitTransferFrom", _PERMIT) + _encode_type("TokenPermissions", _TOKEN)
    ).encode()
)

_WITNESS: _Members = (("to", "address"), ("validAfter", "uint256"))
_WITNESS_HASH = keccak(_encode_type("Witness", _WITNESS).encode())
_WITNESS_PERMIT_HASH = keccak(
    (
        _encode_type("PermitWitnessTransferFrom", (*_PERMIT, ("witness", "Witness")))
        + _encode_type("TokenPermissions", _TOKEN)
        + _encode_type("Witness", _WITNESS)
    ).encode()
)


@dataclass(frozen=True, slots=True)
class Eip712Domain:
    """The verifier of a message: a contract on one chain, its address lower-case.

    Permit2 has no version.
    """

    name: str
    version: str | None
    chain_id: int
    contract: str

    def compute_separator(self) -> bytes:
        """Return the 32 bytes that bind a digest to this domain."""
        return _compute_separator(self)

    def list_members(self) -> _Members:
        """Return the domain's own type."""
        version: _Members = () if self.version is None else (("version", "string"),)
        return (
            ("name", "string"),
            *version,
            ("chainId", "uint256"),
            ("verifyingContract", "address"),
        )

    def to_document(self) -> dict[str, str]:
        """Return the domain in the form of a document."""
        version = {} if self.version is None else {"version": self.version}
        return {
            "name": self.name,
            **version,
            "chainId": hex(self.chain_id),
            "verifyingContract": self.contract,
        }


@lru_cache(maxsize=256)
def _compute_separator(domain: Eip712Domain) -> bytes:
    version = b"" if domain.version is None else keccak(domain.version.encode())
    return bytes(
        keccak(
            keccak(_encode_type("EIP712Domain", domain.list_members()).encode())
            + keccak(domain.name.encode())
            + version
            + encode_uint256(domain.chain_id)
            + encode_address(domain.contract)
        )
    )


@dataclass(frozen=True, slots=True)
class ReceiveWithAuthorization:
    """EIP-3009: `payee` can take `value` of the domain's token from `payer` in its own call.

    Valid while validAfter < block time < validBefore, in Unix seconds. Addresses are lower-case.
    """

    domain: Eip712Domain
    payer: str
    payee: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes

    def compute_digest(self) -> bytes:
        """Return the digest that the wallet's key signs."""
        struct = (
            _AUTHORIZATION_HASH
            + encode_address(self.payer)
            + encode_address(self.payee)
            + encode_uint256(self.value)
            + encode_uint256(self.valid_after)
            + encode_uint256(self.valid_before)
            + self.nonce
        )
        return bytes(keccak(b"\x19\x01" + self.domain.compute_separator() + keccak(struct)))

    def to_document(self) -> dict[str, Any]:
        """Return the document that the wallet shows."""
        message = {
            "from": self.payer,
            "to": self.payee,
            "value": hex(self.value),
            "validAfter": hex(self.valid_after),
            "validBefore": hex(self.valid_before),
            "nonce": "0x" + self.nonce.hex(),
        }
        types = {"ReceiveWithAuthorization": _AUTHORIZATION}
        return _build_document(self.domain, "ReceiveWithAuthorization", types, message)


@dataclass(frozen=True, slots=True)
class TransferWithAuthorization:
    """EIP-3009: anyone can move `value` of the domain's token from `payer` to `payee`.

    Valid while validAfter < block time < validBefore, in Unix seconds. Addresses are lower-case.
    """

    domain: Eip712Domain
    payer: str
    payee: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes

    def encode_fields(self) -> bytes:
        """Return the ABI words of the message, which are also the first arguments of the call."""
        return (
            encode_address(self.payer)
            + encode_address(self.payee)
            + encode_uint256(self.value)
            + encode_uint256(self.valid_after)
            + encode_uint256(self.valid_before)
            + self.nonce
        )

    def compute_digest(self) -> bytes:
        """Return the digest that the payer's key signs."""
        content = keccak(_TRANSFER_HASH + self.encode_fields())
        return bytes(keccak(b"\x19\x01" + self.domain.compute_separator() + content))


@dataclass(frozen=True, slots=True)
class PermitTransferFrom:
    """Permit2: `spender` can move `amount` of `token` once, up to and including `deadline`.

    The domain is Permit2's. The signer is not part of the message.
    """

    domain: Eip712Domain
    token: str
    amount: int
    spender: str
    nonce: int
    deadline: int

    def compute_digest(self) -> bytes:
        """Return the digest that the wallet's key signs."""
        permitted = keccak(_TOKEN_HASH + encode_address(self.token) + encode_uint256(self.amount))
        struct = (
            _PERMIT_HASH
            + permitted
            + encode_address(self.spender)
            + encode_uint256(self.nonce)
            + encode_uint256(self.deadline)
        )
        return bytes(keccak(b"\x19\x01" + self.domain.compute_separator() + keccak(struct)))

    def to_document(self) -> dict[str, Any]:
        """Return the document that the wallet shows."""
        message = {
            "permitted": {"token": self.token, "amount": hex(self.amount)},
            "spender": self.spender,
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        types = {"PermitTransferFrom": _PERMIT, "TokenPermissions": _TOKEN}
        return _build_document(self.domain, "PermitTransferFrom", types, message)


@dataclass(frozen=True, slots=True)
class PermitWitnessTransferFrom:
    """Permit2 as x402 uses it: `spender` moves `permit.amount` to `payee`, from `valid_after` on.

    The spender is x402's proxy, which sends all of it to the signed payee.
    """

    permit: PermitTransferFrom
    payee: str
    valid_after: int

    def compute_digest(self) -> bytes:
        """Return the digest that the wallet's key signs."""
        permit = self.permit
        permitted = keccak(
            _TOKEN_HASH + encode_address(permit.token) + encode_uint256(permit.amount)
        )
        witness = keccak(
            _WITNESS_HASH + encode_address(self.payee) + encode_uint256(self.valid_after)
        )
        struct = (
            _WITNESS_PERMIT_HASH
            + permitted
            + encode_address(permit.spender)
            + encode_uint256(permit.nonce)
            + encode_uint256(permit.deadline)
            + witness
        )
        return bytes(keccak(b"\x19\x01" + permit.domain.compute_separator() + keccak(struct)))


@dataclass(frozen=True, slots=True)
class TokenPermit:
    """EIP-2612: `owner` lets `spender` move `value` of the domain's token.

    Anyone can submit it once, up to and including `deadline`. Addresses are lower-case.
    """

    domain: Eip712Domain
    owner: str
    spender: str
    value: int
    nonce: int
    deadline: int

    def compute_digest(self) -> bytes:
        """Return the digest that the wallet's key signs."""
        struct = (
            _APPROVAL_HASH
            + encode_address(self.owner)
            + encode_address(self.spender)
            + encode_uint256(self.value)
            + encode_uint256(self.nonce)
            + encode_uint256(self.deadline)
        )
        return bytes(keccak(b"\x19\x01" + self.domain.compute_separator() + keccak(struct)))

    def to_document(self) -> dict[str, Any]:
        """Return the document that the wallet shows."""
        message = {
            "owner": self.owner,
            "spender": self.spender,
            "value": hex(self.value),
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        return _build_document(self.domain, "Permit", {"Permit": _APPROVAL}, message)


SignedMessage = ReceiveWithAuthorization | PermitTransferFrom | TokenPermit


@lru_cache(maxsize=512)
def get_digest(message: SignedMessage) -> bytes:
    """Return a message's digest, cached: a verified message is settled a moment later."""
    return message.compute_digest()


def build_permit2_domain(chain_id: int) -> Eip712Domain:
    """Return Permit2's domain on a chain; its address is equal on all chains."""
    return Eip712Domain("Permit2", None, chain_id, PERMIT2)


def format_sign_request(signer: str, message: SignedMessage) -> str:
    """Return the params of eth_signTypedData_v4, a JSON array as text."""
    document = orjson.dumps(message.to_document()).decode()
    return orjson.dumps([signer, document]).decode()


def _build_document(
    domain: Eip712Domain, primary: str, types: Mapping[str, _Members], message: Mapping[str, Any]
) -> dict[str, Any]:
    listed = {"EIP712Domain": domain.list_members(), **types}
    return {
        "types": {
            name: [{"name": member, "type": kind} for member, kind in members]
            for name, members in listed.items()
        },
        "primaryType": primary,
        "domain": domain.to_document(),
        "message": dict(message),
    }
