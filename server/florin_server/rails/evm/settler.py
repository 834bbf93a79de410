"""The settlement contract's calls and events.

The contract takes a signed authorization and forwards the money in the same transaction. The signed
nonce is the hash of the route, so any submitter can only send the money where the buyer wanted it.
The event contains the nonce: an offered nonce proves all offered terms, including the deadline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import RouteKind
from florin_server.rails.evm.reading.node import (
    parse_address,
    parse_data,
    parse_hash,
    parse_quantity,
)
from florin_server.rails.types import RailUnavailable, SettlementEvent

_PAY = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"
SETTLE_3009 = abi.encode_selector(f"settle3009({_PAY}[])")
SETTLE_PERMIT2 = abi.encode_selector(f"settlePermit2({_PAY}[])")
SETTLE = abi.encode_selector(f"settle({_PAY}[],{_PAY}[])")
ONE_3009 = abi.encode_selector(f"one3009({_PAY})")
ONE_PERMIT2 = abi.encode_selector(f"onePermit2({_PAY})")
PAY = abi.encode_selector(f"pay({_PAY})")
IS_PAID = abi.encode_selector("isPaid(address,bytes32)")
ROUTE_NONCE = abi.encode_selector(f"routeNonce(uint8,{_PAY})")
PAID_TOPIC = abi.encode_topic(
    "Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)"
)

_HEAD_WORDS = 11


@dataclass(frozen=True, slots=True)
class PayArguments:
    """One item of a settlement. Addresses are lower-case, values in minor units of the token.

    `gas` is the limit if it is one of several items.
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
        """Return the bytes that it adds to a settlement's calldata, its offset included."""
        # its offset, and the length of the signature
        return (_HEAD_WORDS + 2 - -len(self.signature) // abi.WORD) * abi.WORD

    def encode(self) -> bytes:
        """Return the item as an ABI tuple."""
        return b"".join(
            (
                abi.encode_address(self.token),
                abi.encode_address(self.payer),
                abi.encode_uint256(self.value),
                abi.encode_uint256(self.valid_after),
                abi.encode_uint256(self.valid_before),
                abi.encode_address(self.dest),
                abi.encode_address(self.fee_to),
                abi.encode_uint256(self.fee),
                self.ref,
                abi.encode_uint256(self.gas),
                abi.encode_uint256(_HEAD_WORDS * abi.WORD),
                abi.encode_bytes(self.signature),
            )
        )


def encode_settle(
    eip3009_items: Sequence[PayArguments], permit2_items: Sequence[PayArguments] = ()
) -> bytes:
    """Encode the call that settles items; it returns a bit for each settled item.

    Bit 0 stands for the first EIP-3009 item; the Permit2 items follow.
    """
    if not permit2_items:
        return SETTLE_3009 + abi.encode_uint256(abi.WORD) + _encode_list(eip3009_items)
    if not eip3009_items:
        return SETTLE_PERMIT2 + abi.encode_uint256(abi.WORD) + _encode_list(permit2_items)
    first, second = _encode_list(eip3009_items), _encode_list(permit2_items)
    head = abi.encode_uint256(2 * abi.WORD) + abi.encode_uint256(2 * abi.WORD + len(first))
    return SETTLE + head + first + second


def encode_settle_one(arguments: PayArguments, *, is_permit2: bool = False) -> bytes:
    """Encode the call that settles one item, or reverts with the token's own reason."""
    call = ONE_PERMIT2 if is_permit2 else ONE_3009
    return call + abi.encode_uint256(abi.WORD) + arguments.encode()


def encode_pay(arguments: PayArguments) -> bytes:
    """Encode the call by which the payer itself pays; the signature is ignored."""
    return PAY + abi.encode_uint256(abi.WORD) + arguments.encode()


def _encode_list(pays: Sequence[PayArguments]) -> bytes:
    items = [pay.encode() for pay in pays]
    offset = len(items) * abi.WORD
    offsets = []
    for item in items:
        offsets.append(abi.encode_uint256(offset))
        offset += len(item)
    return b"".join((abi.encode_uint256(len(items)), *offsets, *items))


def encode_route_nonce(kind: RouteKind, arguments: PayArguments) -> bytes:
    """Encode the call that asks the contract for the nonce of an item paid by `kind`."""
    return (
        ROUTE_NONCE
        + abi.encode_uint256(kind)
        + abi.encode_uint256(2 * abi.WORD)
        + arguments.encode()
    )


def parse_paid_event(log: Mapping[str, Any]) -> SettlementEvent:
    """Parse a log of the Paid event; raise RailUnavailable if it is another log."""
    topics = _parse_topics(log, PAID_TOPIC, 4)
    body = parse_data(log.get("data"))
    try:
        token, value, fee_to, fee, nonce = abi.split_words(body)
        payer, dest = (abi.decode_address(bytes.fromhex(topic[2:])) for topic in topics[2:])
        token_address, taker = abi.decode_address(token), abi.decode_address(fee_to)
    except ValueError as fault:
        raise RailUnavailable(f"the node returned a malformed settlement event: {fault}") from None
    return SettlementEvent(
        ref=topics[1],
        tx_hash=parse_hash(log.get("transactionHash")),
        block_number=parse_quantity(log.get("blockNumber")),
        block_hash=parse_hash(log.get("blockHash")),
        payer=payer,
        dest=dest,
        fee_to=taker,
        token=token_address,
        value=int.from_bytes(value, "big"),
        fee=int.from_bytes(fee, "big"),
        nonce="0x" + nonce.hex(),
        # a node's way of counting must not decide about money
        position=None if log.get("logIndex") is None else parse_quantity(log.get("logIndex")),
    )


def is_event(log: Mapping[str, Any], settlers: frozenset[str], event: str) -> bool:
    """Return True if the log is this event of one of the contracts, in a canonical block."""
    topics = log.get("topics")
    return (
        isinstance(topics, list)
        and bool(topics)
        and topics[0] == event
        and parse_address(log.get("address")) in settlers
        and not log.get("removed")
    )


def _parse_topics(log: Mapping[str, Any], event: str, count: int) -> list[str]:
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) != count:
        raise RailUnavailable("the node returned an event with missing topics")
    texts = [parse_hash(topic) for topic in topics]
    if texts[0] != event:
        raise RailUnavailable("the node returned another event")
    return texts
