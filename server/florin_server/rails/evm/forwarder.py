"""The forwarder's calls and events: payments to addresses of their own.

The forwarder's `Paid` is the event of the settlement contract, and `settler` reads it: its payer is
the payment's address and its nonce the salt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from eth_hash.auto import keccak

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.rails.evm.reading.node import (
    parse_address,
    parse_data,
    parse_hash,
    parse_quantity,
)
from florin_server.rails.types import HomeTransfer, RailUnavailable

_ROUTE: Final = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"
_FORWARDING: Final = f"({_ROUTE},address,bytes,uint256)"
FORWARD: Final = abi.encode_selector(f"forward({_FORWARDING}[])")
FORWARD_ONE: Final = abi.encode_selector(f"forwardOne({_FORWARDING})")
SWEEP: Final = abi.encode_selector(f"sweep(({_ROUTE},address[],uint256)[])")
SWEEP_ONE: Final = abi.encode_selector(f"sweepOne({_ROUTE},address[])")
SENT_HOME_TOPIC: Final = abi.encode_topic("SentHome(bytes32,address,address,uint256,address)")
FAILED_TOPIC: Final = abi.encode_topic("Failed(bytes32,bytes)")
ITEMS_MAX: Final = 256

_NO_TARGET: Final = "0x" + "00" * 20
_ROUTE_WORDS: Final = 9
_TOPICS: Final = 4


@dataclass(frozen=True, slots=True)
class Forwarding:
    """One payment to forward; `gas` is its limit as one of several.

    A `target` with `data` is an errand: a call that brings the money first, and can fail.
    """

    route: ForwardRoute
    gas: int
    target: str = _NO_TARGET
    data: bytes = b""

    def encode(self) -> bytes:
        """Return it as an ABI tuple."""
        head = (
            abi.encode_address(self.target),
            abi.encode_uint256((_ROUTE_WORDS + 3) * abi.WORD),
            abi.encode_uint256(self.gas),
        )
        return b"".join((*self.route.words, *head, abi.encode_bytes(self.data)))


@dataclass(frozen=True, slots=True)
class Sweep:
    """The assets to send home from one address: tokens, the zero address for the coin."""

    route: ForwardRoute
    tokens: tuple[str, ...]
    gas: int

    def encode(self) -> bytes:
        """Return it as an ABI tuple."""
        head = (
            abi.encode_uint256((_ROUTE_WORDS + 2) * abi.WORD),
            abi.encode_uint256(self.gas),
        )
        return b"".join((*self.route.words, *head, _encode_addresses(self.tokens)))


@dataclass(frozen=True, slots=True)
class ForwardFailure:
    """An item of a call that moved nothing; `reason` is what it reverted with, cut to 256 bytes."""

    ref: str
    reason: bytes


def encode_forward(items: Sequence[Forwarding]) -> bytes:
    """Encode the call that forwards payments; it returns a bit for each that moved."""
    return FORWARD + abi.encode_uint256(abi.WORD) + _encode_list([item.encode() for item in items])


def encode_forward_one(item: Forwarding) -> bytes:
    """Encode the call that forwards one payment, or reverts with the reason."""
    return FORWARD_ONE + abi.encode_uint256(abi.WORD) + item.encode()


def encode_sweep(items: Sequence[Sweep]) -> bytes:
    """Encode the call that sends home what addresses hold; it returns a bit for each that moved."""
    return SWEEP + abi.encode_uint256(abi.WORD) + _encode_list([item.encode() for item in items])


def encode_sweep_one(item: Sweep) -> bytes:
    """Encode the call that sends home what one address holds, or reverts with the reason."""
    words = b"".join(item.route.words)
    offset = abi.encode_uint256((_ROUTE_WORDS + 1) * abi.WORD)
    return SWEEP_ONE + words + offset + _encode_addresses(item.tokens)


def build_forward_sample() -> bytes:
    """Return a call of a usual length that forwards one payment, with arbitrary addresses."""
    return encode_forward([Forwarding(_build_sample_route(), 300_000)])


def build_sweep_sample() -> bytes:
    """Return what one address and token add to a call that sends home, with arbitrary addresses."""
    return Sweep(_build_sample_route(), (_make_address(6),), 300_000).encode()


def _build_sample_route() -> ForwardRoute:
    return ForwardRoute(
        chain_id=8453,
        forwarder=_make_address(1),
        token=_make_address(2),
        value=12_500_000,
        valid_before=1_800_000_000,
        dest=_make_address(3),
        fee_to=_make_address(4),
        fee=125_000,
        ref=keccak(b"ref"),
        home=_make_address(5),
    )


def _make_address(number: int) -> str:
    return "0x" + keccak(bytes([number]))[12:].hex()


def parse_home_transfer(log: Mapping[str, Any]) -> HomeTransfer:
    """Parse a log of the SentHome event; raise RailUnavailable if it is another log."""
    ref, address, token = _parse_topics(log, SENT_HOME_TOPIC, _TOPICS)
    try:
        amount, home = abi.split_words(parse_data(log.get("data")))
        return HomeTransfer(
            ref=ref,
            address=_decode_topic(address),
            token=_decode_topic(token),
            value=int.from_bytes(amount, "big"),
            home=abi.decode_address(home),
            tx_hash=parse_hash(log.get("transactionHash")),
            block_number=parse_quantity(log.get("blockNumber")),
            block_hash=parse_hash(log.get("blockHash")),
            position=None if log.get("logIndex") is None else parse_quantity(log.get("logIndex")),
        )
    except ValueError as fault:
        raise RailUnavailable(f"the node returned a malformed sweep: {fault}") from None


def parse_failures(
    receipt_logs: Sequence[Mapping[str, Any]], forwarder: str
) -> list[ForwardFailure]:
    """Return the items that moved nothing, from the logs of a transaction."""
    return [
        _parse_failure(log)
        for log in receipt_logs
        if isinstance(topics := log.get("topics"), list)
        and topics[:1] == [FAILED_TOPIC]
        and parse_address(log.get("address")) == forwarder
    ]


def _parse_failure(log: Mapping[str, Any]) -> ForwardFailure:
    (ref,) = _parse_topics(log, FAILED_TOPIC, 2)
    try:
        return ForwardFailure(ref, abi.decode_bytes_at(parse_data(log.get("data")), 0))
    except ValueError as fault:
        raise RailUnavailable(f"the node returned a malformed failure: {fault}") from None


def _parse_topics(log: Mapping[str, Any], event: str, count: int) -> list[str]:
    """Return the topics of an event after the first."""
    topics = log.get("topics")
    if not isinstance(topics, list) or len(topics) != count:
        raise RailUnavailable("the node returned an event with missing topics")
    first, *indexed_topics = (parse_hash(topic) for topic in topics)
    if first != event:
        raise RailUnavailable("the node returned another event")
    return indexed_topics


def _decode_topic(topic: str) -> str:
    return abi.decode_address(bytes.fromhex(topic[2:]))


def _encode_addresses(addresses: Sequence[str]) -> bytes:
    return abi.encode_uint256(len(addresses)) + b"".join(map(abi.encode_address, addresses))


def _encode_list(items: Sequence[bytes]) -> bytes:
    offset = len(items) * abi.WORD
    offsets = []
    for item in items:
        offsets.append(abi.encode_uint256(offset))
        offset += len(item)
    return b"".join((abi.encode_uint256(len(items)), *offsets, *items))
