"""Contract accounts of the embedded chain, which sign before they exist (ERC-6492)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from eth_abi import encode
from eth_account.messages import encode_typed_data
from eth_account.signers.local import LocalAccount
from eth_hash.auto import keccak
from florin_sandbox.devnet.genesis import DEVNET, load_artifact
from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.paying.signing import build_passkey_call

MAGIC = "6492" * 16
# creates any contract: it is called with a salt and the creation code
UNIVERSAL = "36602090038060205f375f35905f5ff500"
# An account that owners sign for, like Coinbase's: a signature is an owner's number and that
# owner's signature. It reverts without data if a signature has another form, or if the signature of
# owner 0, a passkey, is shorter than a device's. It reverts with a reason for any other owner.
# Repeating the signed data passes for the passkey.
PASSKEY_OWNED = (
    "5f3560e01c638ea69029146062576064"  # asked for owner 0, or for a signature
    "35602014601a575f5ffd"  # a tuple, or not a word
    "5b60843515602d57631f2d2d4f5f5260205ffd"  # owner 0, or a reason
    "5b60bf60c43511603a575f5ffd"  # six words, or not a word
    "5b60043560e4351460535763ffffffff60e01b5f5260205ff3"  # not the passkey's
    "5b631626ba7e60e01b5f5260205ff3"
    "5b60205f52604060205260805ff3"  # the owner is a point of the curve
)
# an account whose only owner is a passkey, and which reads the device's output
PASSKEY = (
    "60c060443511600c575f5ffd"
    "5b6004356064351460255763ffffffff60e01b5f5260205ff3"
    "5b631626ba7e60e01b5f5260205ff3"
)
# an account with a threshold of owners, like Safe's; it refuses every signature
_OF_MANY = "5f3560e01c63e75235b814601c5763ffffffff60e01b5f5260205ff35b61{count:04x}5f5260205ff3"
# An account that makes the calls that its own key gives it, each as address, value, size and data,
# and reverts if a call fails. It accepts calls of others, and signs nothing.
BATCHES = (
    "33301460075700"  # called by others
    "5b5f5b36811060115700"  # no calls are left
    "5b806034013580826054015f375f5f825f8560140135863560601c5af1"
    "6034575f5ffd"  # a call failed
    "5b01605401600956"
)
# the same account that passes over calls that fail
BATCHES_WITHOUT_CARE = BATCHES.replace("6034575f5ffd5b", "50")
_CREATE = abi.encode_selector("create(address,bytes32,(address,bytes)[])")


@dataclass(frozen=True)
class ContractAccount:
    """An account that one key signs for, with the data that creates it."""

    owner: LocalAccount
    address: str
    factory: str
    data: bytes

    def sign(self, typed_data: dict[str, Any]) -> str:
        """Return the signature that the account accepts once it exists."""
        signed = self.owner.sign_message(encode_typed_data(full_message=typed_data))
        return "0x" + bytes(signed.signature).hex()

    def wrap(self, typed_data: dict[str, Any]) -> str:
        """Return the signature wrapped with the data that creates the account."""
        return wrap_signature(self.factory, self.data, bytes.fromhex(self.sign(typed_data)[2:]))

    def with_owner(self, other: LocalAccount) -> ContractAccount:
        """Return the account with another owner's key, as an attacker would want it."""
        return replace(self, owner=other)


def make_contract_account(
    owner: LocalAccount, salt: int = 0, calls: Sequence[tuple[str, bytes]] = ()
) -> ContractAccount:
    """Return an account of the embedded chain's own factory that makes these calls on creation."""
    types = ["(address,bytes)[]"]
    init_code = load_artifact("DevWallet").init + encode(
        ["address", *types], [owner.address, list(calls)]
    )
    word = salt.to_bytes(32, "big")
    data = _CREATE + encode(["address", "bytes32", *types], [owner.address, word, list(calls)])
    factory = DEVNET.wallet_factory
    return ContractAccount(owner, compute_create2_address(factory, word, init_code), factory, data)


def make_account_by_factory(
    factory: str, owner: LocalAccount, runtime: str, salt: int = 0
) -> ContractAccount:
    """Return an account with that code, by a factory that creates any contract."""
    code = bytes.fromhex(runtime)
    init_code = b"\x61" + len(code).to_bytes(2, "big") + bytes.fromhex("80600a3d393df3") + code
    word = salt.to_bytes(32, "big")
    return ContractAccount(
        owner, compute_create2_address(factory, word, init_code), factory, word + init_code
    )


def make_multisig_code(count: int) -> str:
    """Return the code of an account for which so many owners must sign."""
    return _OF_MANY.format(count=count)


def sign_by_passkey(typed_data: dict[str, Any]) -> str:
    """Return a signature that an account of `PASSKEY_OWNED` accepts."""
    message = encode_typed_data(full_message=typed_data)
    digest = keccak(b"\x19" + message.version + message.header + message.body)
    text = digest + bytes(5 * 32)
    return "0x" + encode(["(uint256,bytes)"], [(0, text)]).hex()


def compute_create2_address(factory: str, salt: bytes, code: bytes) -> str:
    """Return the address that CREATE2 gives a contract, lower-case."""
    parts = b"\xff" + bytes.fromhex(factory[2:]) + salt + keccak(code)
    return "0x" + keccak(parts)[12:].hex()


def wrap_signature(factory: str, data: bytes, signature: bytes) -> str:
    """Return a signature as ERC-6492 writes it, by another encoder than the service's own."""
    parts = encode(["address", "bytes", "bytes"], [factory, data, signature])
    return "0x" + parts.hex() + MAGIC


def encode_batch(calls: Sequence[dict[str, str]]) -> bytes:
    """Encode calls of `eth_sendTransaction` or `wallet_sendCalls` for an account of `BATCHES`."""
    parts = []
    for call in calls:
        data = bytes.fromhex(call["data"][2:])
        value = int(call.get("value", "0x0"), 16)
        parts += [bytes.fromhex(call["to"][2:]), abi.encode_uint256(value)]
        parts += [abi.encode_uint256(len(data)), data]
    return b"".join(parts)


def make_approval(token: str, spender: str, amount: int) -> tuple[str, bytes]:
    """Return the call that gives an allowance when an account is created."""
    return token, abi.encode_selector("approve(address,uint256)") + encode(
        ["address", "uint256"], [spender, amount]
    )


def make_passkey_check(*, here: bool) -> Any:
    """Return a chain that verifies passkeys itself, or does not."""
    (question, _) = build_passkey_call()[1]

    def change(params: list[Any], answer: dict[str, Any]) -> Any:
        if params[0].get("to") == question["to"]:
            return {"id": answer["id"], "result": f"0x{1:064x}" if here else "0x"}
        return answer

    return change
