"""Signatures of accounts that do not exist yet (ERC-6492).

Such a signature carries the creation of its account: a factory and the data to call it with. Only
factories that the operator named are called, because the signer chooses the call. The created
account must be the payer, and must accept the inner signature the way tokens check it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.domain.chains.evm import abi
from florin_server.rails.evm.reading.dry_run import DryRun
from florin_server.rails.evm.reading.node import LATEST, EvmNode, parse_data
from florin_server.rails.evm.sending.fees import OPEN_GAS, compute_dry_run_gas
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.setup.bytecode import load_bytecode

MAGIC = bytes.fromhex("6492" * 16)
# data for factories of modular accounts is smaller; each broadcast carries it
FACTORY_DATA_MAX = 3_072
OPEN = abi.encode_selector("open((address,address,bytes)[],address,bytes)")

# the probe's answers
ABSENT, REFUSES, ACCEPTS = range(3)
# creating code has a base cost and a cost per word
_CREATION_GAS = 32_000
_INIT_WORD_GAS = 2
_ANSWER_GAS = 200 * abi.WORD  # the answer is charged like deployed code


@dataclass(frozen=True, slots=True)
class AccountCreation:
    """The creation of an account. Addresses are lower-case."""

    account: str
    factory: str
    data: bytes

    @property
    def size(self) -> int:
        """Return the bytes that it adds to the opener's calldata, its offset included."""
        # its offset, and the length of the factory's data
        return (5 - -len(self.data) // abi.WORD) * abi.WORD

    def encode(self) -> bytes:
        """Return the creation as an ABI tuple."""
        return b"".join(
            (
                abi.encode_address(self.account),
                abi.encode_address(self.factory),
                abi.encode_uint256(3 * abi.WORD),
                abi.encode_bytes(self.data),
            )
        )


@dataclass(frozen=True, slots=True)
class WrappedSignature:
    """A signature together with the call that creates its account."""

    factory: str
    data: bytes
    signature: bytes

    def encode(self) -> bytes:
        """Return the bytes in the form that a wallet returns."""
        encoded_data = abi.encode_bytes(self.data)
        head = abi.encode_address(self.factory) + abi.encode_uint256(3 * abi.WORD)
        head += abi.encode_uint256(3 * abi.WORD + len(encoded_data))
        return head + encoded_data + abi.encode_bytes(self.signature) + MAGIC


def is_wrapped(signature: bytes) -> bool:
    """Return True if the bytes claim to be such a signature."""
    return signature.endswith(MAGIC)


def unwrap(signature: bytes) -> WrappedSignature | None:
    """Return the parsed signature; None for others, and for a non-canonical encoding.

    A signature with more factory data than a broadcast carries is refused too.
    """
    body = signature[: -len(MAGIC)]
    try:
        wrapped_signature = WrappedSignature(
            abi.decode_address(body[: abi.WORD]),
            abi.decode_bytes_at(body, 1),
            abi.decode_bytes_at(body, 2),
        )
    except ValueError:
        return None
    if len(wrapped_signature.data) > FACTORY_DATA_MAX or wrapped_signature.encode() != signature:
        return None
    return wrapped_signature


def format_factory_refusal(chain: EvmChainSettings) -> str:
    """Return why a factory is not called, for the buyer's wallet."""
    if chain.opener is None:
        why = "Signatures of accounts that do not exist yet are not taken on this chain"
    else:
        why = "The account does not exist, and its factory is not one that is called here"
    return f"{why}: create the account first, and sign again"


async def find_opener_problem(node: EvmNode, chain: EvmChainSettings) -> str | None:
    """Return what is wrong with the configured opener, as a sentence; None if nothing is."""
    if chain.opener is None:
        return None
    code = parse_data(await node.call("eth_getCode", chain.opener, LATEST))
    if code == load_bytecode("Opener").runtime:
        return None
    return f"{chain.name}: the contract at {chain.opener} is not Florin's opener"


def encode_open_and_call(creations: Sequence[AccountCreation], target: str, call: bytes) -> bytes:
    """Encode the call that creates accounts, then calls a contract and returns its answer."""
    items = [creation.encode() for creation in creations]
    offset = len(items) * abi.WORD
    offsets = []
    for item in items:
        offsets.append(abi.encode_uint256(offset))
        offset += len(item)
    listed = b"".join((abi.encode_uint256(len(items)), *offsets, *items))
    head = (
        abi.encode_uint256(3 * abi.WORD)
        + abi.encode_address(target)
        + abi.encode_uint256(3 * abi.WORD + len(listed))
    )
    return OPEN + head + listed + abi.encode_bytes(call)


def build_probe(
    payer: str, wrapped: WrappedSignature, digest: bytes, open_gas: int = OPEN_GAS
) -> DryRun:
    """Build a call that checks whether an account, created if needed, accepts the inner signature.

    The answer is ABSENT, REFUSES or ACCEPTS, from code that is never deployed. `open_gas` is the
    most gas that the factory can use.
    """
    words = 6 * abi.WORD
    encoded_data = abi.encode_bytes(wrapped.data)
    code = b"".join(
        (
            load_bytecode("SignatureProbe").init,
            abi.encode_address(payer),
            abi.encode_address(wrapped.factory),
            abi.encode_uint256(words),
            abi.encode_uint256(open_gas),
            digest,
            abi.encode_uint256(words + len(encoded_data)),
            encoded_data,
            abi.encode_bytes(wrapped.signature),
        )
    )
    creation = _CREATION_GAS + _INIT_WORD_GAS * (len(code) // abi.WORD + 1) + _ANSWER_GAS
    gas = compute_dry_run_gas(code) + creation + open_gas
    return DryRun(None, code, gas)
