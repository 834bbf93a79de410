"""The settlement contract's calls and events.

It takes a signed authorization and forwards the money in the same transaction. The signed nonce is
the hash of the route, so whoever submits it can only send the money where the buyer wanted it. The
event tells the nonce: one that was offered proves all that was offered, the time included.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.chains.evm import abi
from florin_server.chains.evm.route import Kind
from florin_server.rails.evm.reading.node import address_text, data, hash_text, quantity
from florin_server.rails.types import Paid, RailUnavailable

_PAY = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"
SETTLE_3009 = abi.selector(f"settle3009({_PAY}[])")
SETTLE_PERMIT2 = abi.selector(f"settlePermit2({_PAY}[])")
SETTLE = abi.selector(f"settle({_PAY}[],{_PAY}[])")
ONE_3009 = abi.selector(f"one3009({_PAY})")
ONE_PERMIT2 = abi.selector(f"onePermit2({_PAY})")
PAY = abi.selector(f"pay({_PAY})")
IS_PAID = abi.selector("isPaid(address,bytes32)")
ROUTE_NONCE = abi.selector(f"routeNonce(uint8,{_PAY})")
PAID = abi.topic("Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)")
FAILED = abi.topic("Failed(bytes32,bytes)")

_HEAD_WORDS = 11


@dataclass(frozen=True, slots=True)
class Pay:
    """One item of a settlement. Addresses are lower-case, values in minor units of the token.

    `gas` is the most that it may use as one of several.
    """

    token: str
    payer: str
    value: int
    valid_after: int
    valid_before: int
    dest: str
    fee_to: str
    fee: int
    ref: bytes
    gas: int
    signature: bytes

    @property
    def size(self) -> int:
        """Bytes of a settlement's calldata that are there for it, its offset included."""
        # its offset, and the length of what is signed
        return (_HEAD_WORDS + 2 - -len(self.signature) // abi.WORD) * abi.WORD

    def encoded(self) -> bytes:
        """The item as an ABI tuple."""
        return b"".join(
            (
                abi.address(self.token),
                abi.address(self.payer),
                abi.number(self.value),
                abi.number(self.valid_after),
                abi.number(self.valid_before),
                abi.address(self.dest),
                abi.address(self.fee_to),
                abi.number(self.fee),
                self.ref,
                abi.number(self.gas),
                abi.number(_HEAD_WORDS * abi.WORD),
                abi.padded(self.signature),
            )
        )


def settle(by_3009: Sequence[Pay], by_permit2: Sequence[Pay] = ()) -> bytes:
    """The call that settles items; it returns a bit for each that did.

    Bit 0 stands for the first item by EIP-3009; those by Permit2 follow.
    """
    if not by_permit2:
        return SETTLE_3009 + abi.number(abi.WORD) + _list(by_3009)
    if not by_3009:
        return SETTLE_PERMIT2 + abi.number(abi.WORD) + _list(by_permit2)
    first, second = _list(by_3009), _list(by_permit2)
    head = abi.number(2 * abi.WORD) + abi.number(2 * abi.WORD + len(first))
    return SETTLE + head + first + second


def one(pay: Pay, *, by_permit2: bool = False) -> bytes:
    """The call that settles one item and reverts with the token's own reason if it cannot."""
    call = ONE_PERMIT2 if by_permit2 else ONE_3009
    return call + abi.number(abi.WORD) + pay.encoded()


def pay(item: Pay) -> bytes:
    """The call by which the payer itself pays; the signature is not looked at."""
    return PAY + abi.number(abi.WORD) + item.encoded()


def _list(pays: Sequence[Pay]) -> bytes:
    items = [pay.encoded() for pay in pays]
    offset = len(items) * abi.WORD
    offsets = []
    for item in items:
        offsets.append(abi.number(offset))
        offset += len(item)
    return b"".join((abi.number(len(items)), *offsets, *items))


def route_nonce(kind: Kind, pay: Pay) -> bytes:
    """The call that asks the contract for the nonce of an item that is paid in a way."""
    return ROUTE_NONCE + abi.number(kind) + abi.number(2 * abi.WORD) + pay.encoded()


@dataclass(frozen=True, slots=True)
class Failure:
    """An item that the contract could not settle, with the revert data."""

    ref: str
    reason: bytes


def paid(log: Mapping[str, Any]) -> Paid:
    """Reads a log of the Paid event; RailUnavailable if it is none."""
    topics = _topics(log, PAID, 4)
    body = data(log.get("data"))
    try:
        token, value, fee_to, fee, nonce = abi.words(body)
        payer, dest = (abi.address_of(bytes.fromhex(topic[2:])) for topic in topics[2:])
        token_address, taker = abi.address_of(token), abi.address_of(fee_to)
    except ValueError as fault:
        raise RailUnavailable(f"the node answered a broken settlement event: {fault}") from None
    return Paid(
        ref=topics[1],
        tx_hash=hash_text(log.get("transactionHash")),
        block_number=quantity(log.get("blockNumber")),
        block_hash=hash_text(log.get("blockHash")),
        payer=payer,
        dest=dest,
        fee_to=taker,
        token=token_address,
        value=int.from_bytes(value, "big"),
        fee=int.from_bytes(fee, "big"),
        nonce="0x" + nonce.hex(),
        # no node's way of counting decides about money
        position=None if log.get("logIndex") is None else quantity(log.get("logIndex")),
    )


def failed(log: Mapping[str, Any]) -> Failure:
    """Reads a log of the Failed event; RailUnavailable if it is none."""
    topics = _topics(log, FAILED, 2)
    try:
        return Failure(ref=topics[1], reason=abi.bytes_at(data(log.get("data")), 0))
    except ValueError as fault:
        raise RailUnavailable(f"the node answered a broken failure event: {fault}") from None


def is_event(log: Mapping[str, Any], settlers: frozenset[str], event: str) -> bool:
    """True if the log is that event of one of the contracts, in a block that stands."""
    topics = log.get("topics")
    return (
        isinstance(topics, list)
        and bool(topics)
        and topics[0] == event
        and address_text(log.get("address")) in settlers
        and not log.get("removed")
    )


def _topics(log: Mapping[str, Any], event: str, count: int) -> list[str]:
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) != count:
        raise RailUnavailable("the node answered an event with missing topics")
    texts = [hash_text(topic) for topic in topics]
    if texts[0] != event:
        raise RailUnavailable("the node answered another event")
    return texts
