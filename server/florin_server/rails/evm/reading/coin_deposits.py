"""Arrivals of coin, which leave no logs: balances show them, and blocks show the direct ones.

Only blocks in which a balance changed are read, and they are found by halving the range. What a
contract sent is in no transaction of a block, so the balance is its only proof.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from florin_server.domain.payments.deposits import UNKNOWN_SENDER, Deposit
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.node import (
    EvmNode,
    parse_address,
    parse_hash,
    parse_header,
    parse_object,
    parse_objects,
    parse_quantity,
)
from florin_server.rails.types import AddressActivity, RailUnavailable

# of one search: what exceeds them has an unknown sender
_BALANCES_MAX: Final = 2000
_BLOCKS_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class _Interval:
    """The balances of addresses after two blocks."""

    low: int
    high: int
    balances: Mapping[str, tuple[int, int]]


@dataclass(frozen=True, slots=True)
class _Arrival:
    """Coin that arrived at an address after one block and up to another."""

    address: str
    low: int
    high: int
    value: int


class CoinDepositSearch:
    """Search a range of blocks for coin that arrived, by one node.

    `asset` is the coin's CAIP-19 id. `balances` are those before the range.
    """

    def __init__(
        self, node: EvmNode, asset: str, balances: Mapping[str, int], activity: AddressActivity
    ) -> None:
        self._node = node
        self._asset = asset
        self._balances = balances
        self._activity = activity
        self._departures = _list_departures(activity)

    def has_departures(self, address: str) -> bool:
        """Return True if coin left an address in the range."""
        return address in self._departures

    async def run(self, addresses: Sequence[str]) -> list[Deposit]:
        """Return the coin that arrived at addresses, the oldest first."""
        arrivals = await self._find_arrivals(addresses)
        # dust must not hide larger amounts
        arrivals.sort(key=lambda arrival: arrival.value, reverse=True)
        deposits: list[Deposit] = []
        by_block: dict[int, list[_Arrival]] = defaultdict(list)
        for arrival in arrivals:
            by_block[arrival.high].append(arrival)
        for index, (number, block_arrivals) in enumerate(by_block.items()):
            deposits += await self._read_block(
                number, block_arrivals, with_transactions=index < _BLOCKS_MAX
            )
        return sorted(deposits, key=lambda deposit: (deposit.block_number, not deposit.sender))

    async def _find_arrivals(self, addresses: Sequence[str]) -> list[_Arrival]:
        """Return arrivals in single blocks, or in longer ranges if the node lacks old states."""
        first, last, final = self._activity.first, self._activity.last, self._activity.final
        ends = await self._read_balances(addresses, last)
        if None in ends:
            raise RailUnavailable("the node lacks the state of its newest blocks")
        pending = [
            _Interval(
                first - 1,
                last,
                {
                    address: (self._balances[address], end)
                    for address, end in zip(addresses, ends, strict=True)
                    if end is not None
                },
            )
        ]
        budget = _BALANCES_MAX
        arrivals: list[_Arrival] = []
        while pending:
            open_intervals = []
            for interval in pending:
                is_open = interval.high - interval.low > 1 and budget >= len(interval.balances)
                if is_open:
                    budget -= len(interval.balances)
                    open_intervals.append(interval)
                else:
                    arrivals += self._conclude(interval)
            pending = []
            for interval in open_intervals:
                # the first cut separates what is final
                is_cut = interval.low < final < interval.high
                middle = final if is_cut else (interval.low + interval.high) // 2
                halves, unread = await self._split(interval, middle)
                pending += [half for half in halves if half.balances]
                arrivals += self._conclude(unread)
        return arrivals

    async def _split(
        self, interval: _Interval, middle: int
    ) -> tuple[tuple[_Interval, _Interval], _Interval]:
        """Return both halves, with the addresses that changed, and what cannot be split."""
        left: dict[str, tuple[int, int]] = {}
        right: dict[str, tuple[int, int]] = {}
        unread: dict[str, tuple[int, int]] = {}
        readings = await self._read_balances(list(interval.balances), middle)
        for (address, (before, after)), reading in zip(
            interval.balances.items(), readings, strict=True
        ):
            if reading is None:
                unread[address] = (before, after)
                continue
            if reading != before or self._count_departed(address, interval.low, middle):
                left[address] = (before, reading)
            if reading != after or self._count_departed(address, middle, interval.high):
                right[address] = (reading, after)
        halves = (
            _Interval(interval.low, middle, left),
            _Interval(middle, interval.high, right),
        )
        return halves, _Interval(interval.low, interval.high, unread)

    def _conclude(self, interval: _Interval) -> list[_Arrival]:
        arrivals = []
        for address, (before, after) in interval.balances.items():
            value = after - before + self._count_departed(address, interval.low, interval.high)
            if value > 0:
                arrivals.append(_Arrival(address, interval.low, interval.high, value))
        return arrivals

    def _count_departed(self, address: str, low: int, high: int) -> int:
        """Return the coin that left an address after one block and up to another."""
        return sum(
            value for number, value in self._departures.get(address, ()) if low < number <= high
        )

    async def _read_balances(self, addresses: Sequence[str], block: int) -> list[int | None]:
        """Return balances at a block; None where the node lacks its state."""
        answers = await self._node.batch(
            [("eth_getBalance", (address, hex(block))) for address in addresses]
        )
        return [
            None if isinstance(answer, RpcError) else parse_quantity(answer) for answer in answers
        ]

    async def _read_block(
        self, number: int, arrivals: Sequence[_Arrival], *, with_transactions: bool
    ) -> list[Deposit]:
        """Return the arrivals of a block: from senders of transactions, the rest from unknown."""
        exact = {
            arrival.address: arrival.value
            for arrival in arrivals
            if with_transactions and arrival.high - arrival.low == 1
        }
        answer = await self._node.call("eth_getBlockByNumber", hex(number), bool(exact))
        block = parse_header(answer)
        if block is None or block.number != number:
            raise RailUnavailable("the node lacks a block below its head")
        deposits = (
            await self._read_transactions(parse_objects(answer["transactions"]), block.hash, exact)
            if exact
            else []
        )
        rest: dict[str, int] = defaultdict(int)
        for arrival in arrivals:
            rest[arrival.address] += arrival.value
        for deposit in deposits:
            rest[deposit.address] -= deposit.value
        if any(value < 0 for value in rest.values()):
            raise RailUnavailable("a block changed while it was read")
        deposits += [
            Deposit(address, self._asset, value, UNKNOWN_SENDER, number, block.hash, "")
            for address, value in rest.items()
            if value
        ]
        return deposits

    async def _read_transactions(
        self,
        transactions: Sequence[Mapping[str, Any]],
        block_hash: str,
        addresses: Mapping[str, int],
    ) -> list[Deposit]:
        sent = [
            transaction
            for transaction in transactions
            if isinstance(to := transaction.get("to"), str) and to.lower() in addresses
        ]
        answers = await self._node.batch(
            [
                ("eth_getTransactionReceipt", (parse_hash(transaction.get("hash")),))
                for transaction in sent
            ]
        )
        deposits = [
            parse_coin_deposit(transaction, parse_object(answer), self._asset)
            for transaction, answer in zip(sent, answers, strict=True)
        ]
        exact = [deposit for deposit in deposits if deposit is not None]
        if any(deposit.block_hash != block_hash for deposit in exact):
            raise RailUnavailable("a block changed while it was read")
        return exact


def parse_coin_deposit(
    transaction: Mapping[str, Any], receipt: Mapping[str, Any] | None, asset: str
) -> Deposit | None:
    """Return the coin that a transaction itself sent; None if it sent none."""
    if receipt is None:
        raise RailUnavailable("the node lacks the receipt of a transaction")
    value = parse_quantity(transaction.get("value"))
    if not value or parse_quantity(receipt.get("status")) != 1 or not transaction.get("to"):
        return None
    return Deposit(
        address=parse_address(transaction.get("to")),
        asset=asset,
        value=value,
        sender=parse_address(transaction.get("from")),
        block_number=parse_quantity(receipt.get("blockNumber")),
        block_hash=parse_hash(receipt.get("blockHash")),
        tx_hash=parse_hash(transaction.get("hash")),
    )


def _list_departures(activity: AddressActivity) -> dict[str, list[tuple[int, int]]]:
    """Return by address in which blocks how much coin left it."""
    departures: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for event in activity.payments:
        if event.token == ZERO_ADDRESS:
            departures[event.payer].append((event.block_number, event.value))
    for transfer in activity.home_transfers:
        if transfer.token == ZERO_ADDRESS:
            departures[transfer.address].append((transfer.block_number, transfer.value))
    return departures
