"""The two messages that wallets sign, as EIP-712 documents and as digests.

Documents are written so that every wallet library hashes them alike: the domain's type listed
first, members in order, numbers as minimal 0x-hex text, addresses in lower case. Digests are
computed directly; the generic encoder costs twelve times as much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson
from eth_hash.auto import keccak

from florin_server.chains.evm.abi import address, number

PERMIT2 = "0x000000000022d473030f116ddee9f6b43ac78ba3"

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


def _written(name: str, members: _Members) -> str:
    return f"{name}({','.join(f'{kind} {member}' for member, kind in members)})"


_AUTHORIZATION_HASH = keccak(_written("ReceiveWithAuthorization", _AUTHORIZATION).encode())
_TOKEN_HASH = keccak(_written("TokenPermissions", _TOKEN).encode())
_PERMIT_HASH = keccak(
    (_written("PermitTransferFrom", _PERMIT) + _written("TokenPermissions", _TOKEN)).encode()
)


@dataclass(frozen=True, slots=True)
class Domain:
    """Who verifies a message: a contract on one chain, its address lower-case.

    Permit2 has no version.
    """

    name: str
    version: str | None
    chain_id: int
    contract: str

    def separator(self) -> bytes:
        """The 32 bytes that bind a digest to this domain."""
        return _separator(self)

    def members(self) -> _Members:
        """The domain's own type."""
        version: _Members = () if self.version is None else (("version", "string"),)
        return (
            ("name", "string"),
            *version,
            ("chainId", "uint256"),
            ("verifyingContract", "address"),
        )

    def value(self) -> dict[str, str]:
        """The domain as it stands in a document."""
        version = {} if self.version is None else {"version": self.version}
        return {
            "name": self.name,
            **version,
            "chainId": hex(self.chain_id),
            "verifyingContract": self.contract,
        }


@lru_cache(maxsize=256)
def _separator(domain: Domain) -> bytes:
    version = b"" if domain.version is None else keccak(domain.version.encode())
    return bytes(
        keccak(
            keccak(_written("EIP712Domain", domain.members()).encode())
            + keccak(domain.name.encode())
            + version
            + number(domain.chain_id)
            + address(domain.contract)
        )
    )


@dataclass(frozen=True, slots=True)
class ReceiveWithAuthorization:
    """EIP-3009: `payee` may take `value` of the domain's token from `payer` in a call of its own.

    Valid while validAfter < block time < validBefore, in Unix seconds. Addresses are lower-case.
    """

    domain: Domain
    payer: str
    payee: str
    value: int
    valid_after: int
    valid_before: int
    nonce: bytes

    def digest(self) -> bytes:
        """What the wallet's key signs."""
        struct = (
            _AUTHORIZATION_HASH
            + address(self.payer)
            + address(self.payee)
            + number(self.value)
            + number(self.valid_after)
            + number(self.valid_before)
            + self.nonce
        )
        return bytes(keccak(b"\x19\x01" + self.domain.separator() + keccak(struct)))

    def document(self) -> dict[str, Any]:
        """What the wallet is shown."""
        message = {
            "from": self.payer,
            "to": self.payee,
            "value": hex(self.value),
            "validAfter": hex(self.valid_after),
            "validBefore": hex(self.valid_before),
            "nonce": "0x" + self.nonce.hex(),
        }
        types = {"ReceiveWithAuthorization": _AUTHORIZATION}
        return _document(self.domain, "ReceiveWithAuthorization", types, message)


@dataclass(frozen=True, slots=True)
class PermitTransferFrom:
    """Permit2: `spender` may move `amount` of `token` once, up to and including `deadline`.

    The domain is Permit2's. The signer is not part of the message.
    """

    domain: Domain
    token: str
    amount: int
    spender: str
    nonce: int
    deadline: int

    def digest(self) -> bytes:
        """What the wallet's key signs."""
        permitted = keccak(_TOKEN_HASH + address(self.token) + number(self.amount))
        struct = (
            _PERMIT_HASH
            + permitted
            + address(self.spender)
            + number(self.nonce)
            + number(self.deadline)
        )
        return bytes(keccak(b"\x19\x01" + self.domain.separator() + keccak(struct)))

    def document(self) -> dict[str, Any]:
        """What the wallet is shown."""
        message = {
            "permitted": {"token": self.token, "amount": hex(self.amount)},
            "spender": self.spender,
            "nonce": hex(self.nonce),
            "deadline": hex(self.deadline),
        }
        types = {"PermitTransferFrom": _PERMIT, "TokenPermissions": _TOKEN}
        return _document(self.domain, "PermitTransferFrom", types, message)


@lru_cache(maxsize=512)
def digest_of(message: ReceiveWithAuthorization | PermitTransferFrom) -> bytes:
    """A message's digest, remembered: what was verified is settled a moment later."""
    return message.digest()


def permit2_domain(chain_id: int) -> Domain:
    """Permit2's domain on a chain; it stands at one address everywhere."""
    return Domain("Permit2", None, chain_id, PERMIT2)


def sign_request(signer: str, message: ReceiveWithAuthorization | PermitTransferFrom) -> str:
    """The params of eth_signTypedData_v4, a JSON array as text."""
    document = orjson.dumps(message.document()).decode()
    return orjson.dumps([signer, document]).decode()


def _document(
    domain: Domain, primary: str, types: Mapping[str, _Members], message: Mapping[str, Any]
) -> dict[str, Any]:
    listed = {"EIP712Domain": domain.members(), **types}
    return {
        "types": {
            name: [{"name": member, "type": kind} for member, kind in members]
            for name, members in listed.items()
        },
        "primaryType": primary,
        "domain": domain.value(),
        "message": dict(message),
    }
