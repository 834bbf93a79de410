"""Contract accounts of the embedded chain, which sign before they exist (ERC-6492)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_abi import encode
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from florin_server.chains.evm import abi
from florin_server.devnet.genesis import DEVNET, artifact

MAGIC = "6492" * 16
# creates whatever it is told to: called with a salt and the code that creates
UNIVERSAL = "36602090038060205f375f35905f5ff500"
# An account that owners sign for, as Coinbase's: a signature is the number of an owner and what it
# said. It reverts without a word if a signature has another form, or what owner 0, a passkey, said
# is shorter than what a device says; there is no other owner, which is a reason. Who repeats what
# is signed has the passkey.
PASSKEY_OWNED = (
    "5f3560e01c638ea69029146062576064"  # asked for owner 0, or for a signature
    "35602014601a575f5ffd"  # a tuple, or not a word
    "5b60843515602d57631f2d2d4f5f5260205ffd"  # owner 0, or a reason
    "5b60bf60c43511603a575f5ffd"  # six words, or not a word
    "5b60043560e4351460535763ffffffff60e01b5f5260205ff3"  # not the passkey's
    "5b631626ba7e60e01b5f5260205ff3"
    "5b60205f52604060205260805ff3"  # the owner is a point of the curve
)
# one that has no owner but a passkey, and reads what the device said
PASSKEY = (
    "60c060443511600c575f5ffd"
    "5b6004356064351460255763ffffffff60e01b5f5260205ff3"
    "5b631626ba7e60e01b5f5260205ff3"
)
# one for which a number of owners sign, as Safe's, which refuses whatever it is asked
_OF_MANY = "5f3560e01c63e75235b814601c5763ffffffff60e01b5f5260205ff35b61{count:04x}5f5260205ff3"
_CREATE = abi.selector("create(address,bytes32,(address,bytes)[])")


@dataclass(frozen=True)
class Smart:
    """An account that one key signs for, and how it is created."""

    owner: LocalAccount
    address: str
    factory: str
    data: bytes

    def sign(self, typed_data: dict[str, Any]) -> str:
        """What the account accepts once it exists."""
        signed = self.owner.sign_message(encode_typed_data(full_message=typed_data))
        return "0x" + bytes(signed.signature).hex()

    def wrap(self, typed_data: dict[str, Any]) -> str:
        """The same with how to create the account."""
        return wrapped(self.factory, self.data, bytes.fromhex(self.sign(typed_data)[2:]))

    def owned_by(self, other: LocalAccount) -> Smart:
        """The same account as somebody else would like to have it."""
        return replace(self, owner=other)


def smart(owner: LocalAccount, salt: int = 0, calls: Sequence[tuple[str, bytes]] = ()) -> Smart:
    """An account of the embedded chain's own factory, and what it calls at its beginning."""
    types = ["(address,bytes)[]"]
    begun = artifact("DevWallet").bytecode + encode(
        ["address", *types], [owner.address, list(calls)]
    )
    word = salt.to_bytes(32, "big")
    data = _CREATE + encode(["address", "bytes32", *types], [owner.address, word, list(calls)])
    factory = DEVNET.wallet_factory
    return Smart(owner, place(factory, word, begun), factory, data)


def made_by(factory: str, owner: LocalAccount, runtime: str, salt: int = 0) -> Smart:
    """An account with that code, by a factory that creates whatever it is told to."""
    code = bytes.fromhex(runtime)
    begun = b"\x61" + len(code).to_bytes(2, "big") + bytes.fromhex("80600a3d393df3") + code
    word = salt.to_bytes(32, "big")
    return Smart(owner, place(factory, word, begun), factory, word + begun)


def of_many(count: int) -> str:
    """The code of an account for which so many owners must sign."""
    return _OF_MANY.format(count=count)


def by_passkey(typed_data: dict[str, Any]) -> str:
    """What an account of `PASSKEY_OWNED` accepts."""
    message = encode_typed_data(full_message=typed_data)
    digest = keccak(b"\x19" + message.version + message.header + message.body)
    said = digest + bytes(5 * 32)
    return "0x" + encode(["(uint256,bytes)"], [(0, said)]).hex()


def place(factory: str, salt: bytes, code: bytes) -> str:
    """Where CREATE2 puts a contract, lower-case."""
    parts = b"\xff" + bytes.fromhex(factory[2:]) + salt + keccak(code)
    return "0x" + keccak(parts)[12:].hex()


def wrapped(factory: str, data: bytes, signature: bytes) -> str:
    """A signature as ERC-6492 writes it, by another encoder than the service's own."""
    parts = encode(["address", "bytes", "bytes"], [factory, data, signature])
    return "0x" + parts.hex() + MAGIC


def approval(token: str, spender: str, amount: int) -> tuple[str, bytes]:
    """An allowance that an account gives at its beginning."""
    return token, abi.selector("approve(address,uint256)") + encode(
        ["address", "uint256"], [spender, amount]
    )
