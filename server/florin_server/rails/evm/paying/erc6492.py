"""Signatures of accounts that do not exist yet (ERC-6492).

Such a signature brings along how its account is created: which factory, called with what. Only
factories that the operator named are ever called, because whoever signs chooses the call. The
account that a factory creates must be the payer, and accept the inner signature as tokens ask it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.chains.evm import abi
from florin_server.rails.evm.reading.dry_run import DryRun
from florin_server.rails.evm.reading.node import LATEST, Node, data
from florin_server.rails.evm.sending.fees import OPEN_GAS, dry_run_gas
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.setup.bytecode import bytecode

MAGIC = bytes.fromhex("6492" * 16)
# what factories of modular accounts are told stays below; each broadcast carries it
FACTORY_DATA_MAX = 3_072
OPEN = abi.selector("open((address,address,bytes)[],address,bytes)")

# what the probe answers
ABSENT, REFUSES, ACCEPTS = range(3)
# creating code costs by itself; so does each word of it
_CREATION_GAS = 32_000
_INIT_WORD_GAS = 2
_ANSWER_GAS = 200 * abi.WORD  # the answer counts as code that is kept


@dataclass(frozen=True, slots=True)
class Opening:
    """How an account is created. Addresses are lower-case."""

    account: str
    factory: str
    data: bytes

    @property
    def size(self) -> int:
        """Bytes of the opener's calldata that are there for it, its offset included."""
        # its offset, and the length of what the factory is called with
        return (5 - -len(self.data) // abi.WORD) * abi.WORD

    def encoded(self) -> bytes:
        """The opening as an ABI tuple."""
        return b"".join(
            (
                abi.address(self.account),
                abi.address(self.factory),
                abi.number(3 * abi.WORD),
                abi.padded(self.data),
            )
        )


@dataclass(frozen=True, slots=True)
class Wrapped:
    """A signature with the way to create its account."""

    factory: str
    data: bytes
    signature: bytes

    def encoded(self) -> bytes:
        """The bytes that a wallet returns."""
        told = abi.padded(self.data)
        head = abi.address(self.factory) + abi.number(3 * abi.WORD)
        head += abi.number(3 * abi.WORD + len(told))
        return head + told + abi.padded(self.signature) + MAGIC


def is_wrapped(given: bytes) -> bool:
    """True if the bytes say that they are such a signature."""
    return given.endswith(MAGIC)


def unwrap(given: bytes) -> Wrapped | None:
    """Reads such a signature; None for others, and unless it is encoded as every encoder does it.

    One that says more to a factory than is carried is none.
    """
    body = given[: -len(MAGIC)]
    try:
        found = Wrapped(
            abi.address_of(body[: abi.WORD]), abi.bytes_at(body, 1), abi.bytes_at(body, 2)
        )
    except ValueError:
        return None
    if len(found.data) > FACTORY_DATA_MAX or found.encoded() != given:
        return None
    return found


def not_allowed(chain: EvmChain) -> str:
    """Why a factory is not called, for the buyer's wallet."""
    if chain.opener is None:
        why = "Signatures of accounts that do not exist yet are not taken on this chain"
    else:
        why = "The account does not exist, and its factory is not one that is called here"
    return f"{why}: create the account first, and sign again"


async def opener_problem(node: Node, chain: EvmChain) -> str | None:
    """What is wrong with the opener, if one is named, as a sentence."""
    if chain.opener is None:
        return None
    code = data(await node.ask("eth_getCode", chain.opener, LATEST))
    if code == bytecode("Opener").runtime:
        return None
    return f"{chain.name}: the contract at {chain.opener} is not Florin's opener"


def open_and_call(openings: Sequence[Opening], target: str, call: bytes) -> bytes:
    """The call that creates accounts and then calls a contract, and answers what that answers."""
    items = [one.encoded() for one in openings]
    offset = len(items) * abi.WORD
    offsets = []
    for item in items:
        offsets.append(abi.number(offset))
        offset += len(item)
    listed = b"".join((abi.number(len(items)), *offsets, *items))
    head = abi.number(3 * abi.WORD) + abi.address(target) + abi.number(3 * abi.WORD + len(listed))
    return OPEN + head + listed + abi.padded(call)


def probe(payer: str, wrapped: Wrapped, digest: bytes, open_gas: int = OPEN_GAS) -> DryRun:
    """Asks whether an account, created if need be, accepts the inner signature of a digest.

    Answered by ABSENT, REFUSES or ACCEPTS, by code that is never deployed. `open_gas` is what its
    factory may use.
    """
    words = 6 * abi.WORD
    told = abi.padded(wrapped.data)
    code = b"".join(
        (
            bytecode("SignatureProbe").init,
            abi.address(payer),
            abi.address(wrapped.factory),
            abi.number(words),
            abi.number(open_gas),
            digest,
            abi.number(words + len(told)),
            told,
            abi.padded(wrapped.signature),
        )
    )
    creation = _CREATION_GAS + _INIT_WORD_GAS * (len(code) // abi.WORD + 1) + _ANSWER_GAS
    gas = dry_run_gas(code) + creation + open_gas
    return DryRun(None, code, gas)
