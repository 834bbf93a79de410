"""Money at payments' own addresses: token transfers by their logs, coin by balances and blocks."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

from florin_server.domain.caip import parse_asset
from florin_server.domain.chains.evm import abi
from florin_server.domain.payments.deposits import Deposit
from florin_server.rails.connection.connection import ChainConnection
from florin_server.rails.connection.jsonrpc import ChainRpc, RpcCall
from florin_server.rails.evm.paying.terms import ZERO_ADDRESS
from florin_server.rails.evm.reading.coin_deposits import CoinDepositSearch
from florin_server.rails.evm.reading.deposit_logs import (
    DepositLogReader,
    parse_deposits,
    parse_home_transfers,
    parse_payments,
)
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    build_call,
    parse_data,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.reader import EvmReader
from florin_server.rails.evm.reading.reads import ContractQuestion
from florin_server.rails.evm.sending.payouts import BALANCE_OF
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import AddressActivity, RailUnavailable

BLOCKS_MAX: Final = 50_000  # of one read
_DELEGATION: Final = b"\xef\x01\x00"  # before the code's address, at a key that delegates
_DELEGATION_BYTES: Final = 23
T = TypeVar("T")


class EvmDepositReader:
    """Implement the DepositReader protocol."""

    def __init__(
        self,
        connection: ChainConnection,
        chain: EvmChainSettings,
        finality: FinalityTracker,
        reader: EvmReader,
    ) -> None:
        self._connection = connection
        self._chain = chain
        self._finality = finality
        self._reader = reader
        self._node = EvmNode(connection.rpc)
        self._logs = DepositLogReader(self._node, chain)

    @property
    def assets(self) -> Sequence[str]:
        """Return the assets that count (CAIP-19)."""
        tokens = [self.get_asset(token.address) for token in self._chain.assets]
        return tokens if self._chain.fee_token else [*tokens, self._chain.coin_asset]

    @property
    def exchanges(self) -> frozenset[str]:
        """Return the accounts of exchanges by the settings, to which nothing is returned."""
        return frozenset(self._chain.exchanges)

    def get_asset(self, token: str) -> str:
        """Return the asset (CAIP-19) of a token's address, the zero address for the coin."""
        if token == ZERO_ADDRESS:
            return self._chain.coin_asset
        return f"{self._chain.caip2}/erc20:{token}"

    async def read_activity(self, addresses: Sequence[str], first: int) -> AddressActivity:
        """Return what moved to and from addresses since a block, without the coin's arrivals."""

        async def read(node: EvmNode) -> AddressActivity:
            newest = await node.get_head()
            if first > newest + 1:
                raise RailUnavailable(f"{self._chain.name}: the node lags behind what it had")
            final = self._finality.get_final_block(newest)
            last = min(newest, first + BLOCKS_MAX - 1)
            if first > last or not addresses:
                return AddressActivity(first, last, final)
            reader = self._logs if node is self._node else DepositLogReader(node, self._chain)
            logs = await reader.list_logs(addresses, first, last)
            expected = frozenset(addresses)
            return AddressActivity(
                first,
                last,
                final,
                tuple(parse_deposits(logs, self._chain, expected)),
                tuple(parse_payments(logs, self._chain, expected)),
                tuple(parse_home_transfers(logs, self._chain, expected)),
            )

        return await self._ask(read)

    async def find_coin_deposits(
        self, balances: Mapping[str, int], activity: AddressActivity
    ) -> list[Deposit]:
        """Return the coin that arrived at addresses in the activity's range, the oldest first."""
        if activity.first > activity.last or not balances:
            return []
        addresses = sorted(balances)
        questions = [ContractQuestion(bytes.fromhex(address[2:]), None) for address in addresses]
        answers = await self._reader.read(questions)
        newest = {
            address: int.from_bytes(answer[1])
            for address, answer in zip(addresses, answers, strict=True)
            if answer is not None
        }

        async def search(node: EvmNode) -> list[Deposit]:
            run = CoinDepositSearch(node, self._chain.coin_asset, balances, activity)
            changed = [
                address
                for address in addresses
                if newest.get(address) != balances[address] or run.has_departures(address)
            ]
            return await run.run(changed) if changed else []

        return await self._ask(search)

    async def read_balances(
        self, asset_addresses: Collection[tuple[str, str]], block: int
    ) -> dict[tuple[str, str], int]:
        """Return balances by address and asset (CAIP-19) at a block; one batched read."""
        coin = self._chain.coin_asset
        calls: dict[tuple[str, str], RpcCall] = {}
        for address, asset in asset_addresses:
            if asset == coin:
                calls[address, asset] = ("eth_getBalance", (address, hex(block)))
            elif (token := parse_asset(asset)).namespace == "erc20":
                question = BALANCE_OF + abi.encode_address(address)
                calls[address, asset] = build_call(token.reference, question, block=hex(block))

        async def read(node: EvmNode) -> dict[tuple[str, str], int]:
            answers = await node.batch(list(calls.values()))
            return {
                place: parse_quantity(answer) if place[1] == coin else parse_uint(answer)
                for place, answer in zip(calls, answers, strict=True)
            }

        return await self._ask(read)

    async def find_contracts(self, addresses: Collection[str]) -> frozenset[str]:
        """Return which addresses are contracts: they may credit no returned money to anyone."""
        queried = sorted(addresses)

        async def read(node: EvmNode) -> frozenset[str]:
            answers = await node.batch([("eth_getCode", (address, LATEST)) for address in queried])
            codes = zip(queried, map(parse_data, answers), strict=True)
            return frozenset(address for address, code in codes if code and not is_delegation(code))

        return await self._ask(read)

    async def _ask(self, read: Callable[[EvmNode], Awaitable[T]]) -> T:
        """Return what nodes answer; skip a node whose answer is unusable."""
        rpc = self._connection.rpc

        async def answer(this_rpc: ChainRpc) -> T:
            return await read(self._node if this_rpc is rpc else EvmNode(this_rpc))

        return await rpc.ask_together_or_each(answer)


def is_delegation(code: bytes) -> bool:
    """Return True if an account's code only names the code that its key delegates to."""
    return len(code) == _DELEGATION_BYTES and code.startswith(_DELEGATION)
