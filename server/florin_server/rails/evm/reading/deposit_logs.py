"""Logs that show money at payments' addresses: transfers to them, and the forwarder's events.

One filter finds all three, because the address is the third topic of each. It names the listed
tokens, so that other tokens cost nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from florin_server.domain.chains.evm import abi
from florin_server.domain.payments.deposits import UNKNOWN_SENDER, Deposit
from florin_server.rails.connection.jsonrpc import AnswerTooLarge, RpcCall, RpcError
from florin_server.rails.evm import forwarder, settler
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.log_range import LogRangeLimit
from florin_server.rails.evm.reading.node import (
    EvmNode,
    parse_address,
    parse_hash,
    parse_header,
    parse_objects,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import HomeTransfer, RailUnavailable, SettlementEvent

TRANSFER_TOPIC: Final = abi.encode_topic("Transfer(address,address,uint256)")
ADDRESSES_MAX: Final = 500  # in one log filter
_TOPICS: Final = 3  # of a transfer


class DepositLogReader:
    """Read the logs of one node, in calls of as many blocks and addresses as it answers."""

    def __init__(self, node: EvmNode, chain: EvmChainSettings) -> None:
        self._node = node
        self._chain = chain
        self._range = LogRangeLimit()
        self._addresses_max = ADDRESSES_MAX

    async def list_logs(
        self, addresses: Sequence[str], first: int, last: int
    ) -> list[Mapping[str, Any]]:
        """Return the logs of a range of blocks that concern addresses."""
        groups = [
            addresses[start : start + self._addresses_max]
            for start in range(0, len(addresses), self._addresses_max)
        ]
        size = self._range.get_size(last - first + 1)
        if len(groups) > 1 and size == last - first + 1:
            logs = await self._find_logs(groups, first, last)
            if logs is not None:
                return logs
        return [log for group in groups for log in await self._list_group(group, first, last)]

    async def _list_group(
        self, addresses: Sequence[str], first: int, last: int
    ) -> list[Mapping[str, Any]]:
        logs: list[Mapping[str, Any]] = []
        while first <= last:
            if len(addresses) > self._addresses_max:
                return logs + await self.list_logs(addresses, first, last)
            size = self._range.get_size(last - first + 1)
            part = await self._find_logs([addresses], first, first + size - 1)
            if part is not None:
                self._range.record_accepted(size)
                logs += part
                first += size
                continue
            self._range.record_refused(size)
            if size > 1:
                continue
            # a single block is refused, so there are too many addresses
            if len(addresses) == 1:
                raise RailUnavailable(f"{self._chain.name}: the node refuses logs of one address")
            self._addresses_max = len(addresses) // 2
        return logs

    async def _find_logs(
        self, groups: Sequence[Sequence[str]], first: int, last: int
    ) -> list[Mapping[str, Any]] | None:
        """Return the logs of groups of addresses in one payload; None if the node refuses it."""
        calls: list[RpcCall] = [
            (
                "eth_getLogs",
                ({"fromBlock": hex(first), "toBlock": hex(last), **self._build_filter(group)},),
            )
            for group in groups
        ]
        try:
            # the block proves that the node has reached the end of the range
            *answers, block = await self._node.batch(
                [*calls, ("eth_getBlockByNumber", (hex(last), False))]
            )
        except AnswerTooLarge:
            return None
        if any(isinstance(answer, RpcError) for answer in answers):
            return None
        if parse_header(block) is None:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind its own head")
        logs = [log for answer in answers for log in parse_objects(answer)]
        if any(not first <= parse_quantity(log.get("blockNumber")) <= last for log in logs):
            raise RailUnavailable(f"{self._chain.name}: the node returned logs of other blocks")
        return logs

    def _build_filter(self, addresses: Sequence[str]) -> dict[str, Any]:
        tokens = [token.address for token in self._chain.assets]
        events = [TRANSFER_TOPIC, settler.PAID_TOPIC, forwarder.SENT_HOME_TOPIC]
        topics = ["0x" + "0" * 24 + address[2:] for address in addresses]
        return {
            "address": sorted({*tokens, *self._chain.settlers}),
            "topics": [events, None, topics],
        }


def parse_deposits(
    logs: Sequence[Mapping[str, Any]], chain: EvmChainSettings, addresses: Collection[str]
) -> list[Deposit]:
    """Return the transfers of listed tokens to addresses, in the order of the chain."""
    assets = {token.address: f"{chain.caip2}/erc20:{token.address}" for token in chain.assets}
    deposits: list[Deposit] = []
    positions: Counter[tuple[str, str, str]] = Counter()
    for log in sort_logs(logs):
        topics = log.get("topics")
        if not isinstance(topics, list) or topics[:1] != [TRANSFER_TOPIC] or log.get("removed"):
            continue
        asset = assets.get(parse_address(log.get("address")))
        # a transfer of something that is no amount has more topics
        if asset is None or len(topics) != _TOPICS:
            continue
        sender, address = (_parse_topic(topic) for topic in topics[1:])
        value = parse_uint(log.get("data"))
        if address not in addresses or not value:
            continue
        tx_hash = parse_hash(log.get("transactionHash"))
        place = (tx_hash, address, asset)
        deposits.append(
            Deposit(
                address=address,
                asset=asset,
                value=value,
                # new money of the token has no sender
                sender=UNKNOWN_SENDER if sender == ZERO_ADDRESS else sender,
                block_number=parse_quantity(log.get("blockNumber")),
                block_hash=parse_hash(log.get("blockHash")),
                tx_hash=tx_hash,
                position=positions[place],
            )
        )
        positions[place] += 1
    return deposits


def parse_payments(
    logs: Sequence[Mapping[str, Any]], chain: EvmChainSettings, addresses: Collection[str]
) -> list[SettlementEvent]:
    """Return the payments that left addresses for their receivers, in the order of the chain."""
    events = [
        settler.parse_paid_event(log)
        for log in sort_logs(logs)
        if settler.is_event(log, chain.settlers, settler.PAID_TOPIC)
    ]
    return [event for event in events if event.payer in addresses]


def parse_home_transfers(
    logs: Sequence[Mapping[str, Any]], chain: EvmChainSettings, addresses: Collection[str]
) -> list[HomeTransfer]:
    """Return what went home from addresses, in the order of the chain."""
    transfers = [
        forwarder.parse_home_transfer(log)
        for log in sort_logs(logs)
        if settler.is_event(log, chain.settlers, forwarder.SENT_HOME_TOPIC)
    ]
    return [transfer for transfer in transfers if transfer.address in addresses]


def sort_logs(logs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return logs in the order of the chain; those of one block as the node orders them."""

    def get_position(log: Mapping[str, Any]) -> tuple[int, int]:
        index = log.get("logIndex")
        number = parse_quantity(log.get("blockNumber"))
        return number, 0 if index is None else parse_quantity(index)

    return sorted(logs, key=get_position)


def _parse_topic(topic: Any) -> str:
    try:
        return abi.decode_address(bytes.fromhex(parse_hash(topic)[2:]))
    except ValueError as fault:
        raise RailUnavailable(f"the node returned a malformed transfer: {fault}") from None
