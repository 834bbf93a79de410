"""What the chain proves: blocks, our transactions, settlement events, spent authorizations.

Absence is never proof here: a missing receipt or a refused call leaves everything open. Final is
what has the chain's confirmations.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from florin_server.chains.evm import abi
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.domain.payments.payment import Option
from florin_server.rails.connection.jsonrpc import METHOD_NOT_FOUND, AnswerTooLarge, Call, RpcError
from florin_server.rails.connection.witness import Testimony
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, PERMIT2_METHOD, Terms, bare
from florin_server.rails.evm.reading.node import (
    LATEST,
    Header,
    Node,
    address_text,
    call_to,
    hash_text,
    header,
    quantity,
    record,
    records,
    uint,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import BlockView, Fact, Head, Mined, Paid, RailUnavailable

NONCE_BITMAP = abi.selector("nonceBitmap(address,uint256)")
AUTHORIZATION_STATE = abi.selector("authorizationState(address,bytes32)")
REFERENCES_MAX = 100  # in one log filter
_INDEX_BLOCKS = 3  # after which a node has the receipts of a block


class Evidence:
    """Reads one chain's facts. `ours` are the addresses whose transactions are told."""

    def __init__(self, node: Node, chain: EvmChain, ours: Collection[str]) -> None:
        self._node = node
        self._chain = chain
        self._ours = ours
        self._block_receipts = True

    async def head(self) -> Head:
        """The newest block."""
        block = header(await self._node.ask("eth_getBlockByNumber", LATEST, False))
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: the node has no newest block")
        return Head(number=block.number, hash=block.hash, time=block.time)

    async def block(self, number: int) -> BlockView | None:
        """One block with the settlements and our transactions in it; one batched read."""
        if not self._block_receipts:
            return await self._block_from_logs(number)
        try:
            answers = await self._node.batch(
                [
                    ("eth_getBlockByNumber", (hex(number), False)),
                    ("eth_getBlockReceipts", (hex(number),)),
                ]
            )
        except AnswerTooLarge:
            return await self._block_from_logs(number)
        if isinstance(answers[1], RpcError):
            self._block_receipts = answers[1].code != METHOD_NOT_FOUND
            return await self._block_from_logs(number)
        block = _numbered(header(answers[0]), number)
        if block is None:
            return None
        if answers[1] is None:
            raise RailUnavailable(f"{self._chain.name}: a block came without its receipts")
        receipts = records(answers[1])
        of_block = all(hash_text(one.get("blockHash")) == block.hash for one in receipts)
        if len(receipts) != block.transactions or not of_block:
            raise RailUnavailable(f"{self._chain.name}: a block changed while it was read")
        logs = [log for receipt in receipts for log in records(receipt.get("logs"))]
        ours = [one for one in receipts if address_text(one.get("from")) in self._ours]
        return _view(block, self._paid_in(logs), _mined(ours))

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Our transactions that are in blocks; one batched read."""
        receipts = await self._receipts(tx_hashes)
        return {one.tx_hash: one for one in _mined(receipts) if one.tx_hash in tx_hashes}

    async def paid(self, references: Sequence[str], from_block: int) -> list[Paid]:
        """Settlement events of the references, up to the newest block."""
        newest = await self._node.head()
        if from_block > newest + 1:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind what was seen before")
        found: list[Paid] = []
        for first in range(0, len(references), REFERENCES_MAX):
            wanted = references[first : first + REFERENCES_MAX]
            found += await self._paid_between(wanted, from_block, newest)
        return found

    async def paid_between(self, first: int, last: int) -> list[Paid]:
        """All settlement events of a range of blocks."""
        return await self._paid_between(None, first, last)

    async def spent_or_lapsed(self, option: Option) -> str | None:
        """Why the option is unpayable at the newest final block; None while it is not."""
        terms = Terms.of(option)
        final = await self._node.final_block(self._chain.confirmations)
        if final is None or terms.route.settler not in self._chain.settlers:
            return None  # without its contract's events nothing is known of the payment
        state, newest_final = await self._node.batch(
            [
                _ask_nonce(terms, bare(option.payer), hex(final)),
                ("eth_getBlockByNumber", (hex(final), False)),
            ]
        )
        block = _numbered(header(newest_final), final)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: a final block is missing")
        if _is_used(terms, uint(state)):
            if terms.method == DIRECT_METHOD:
                return None  # nothing but the payment itself uses it: there is an event
            return "The authorization was used or cancelled elsewhere"
        if block.time > terms.last_second:
            return "The authorization lapsed before it was settled"
        return None

    async def is_paid(self, option: Option) -> bool:
        """True if the contract says at the newest final block that the payer itself paid."""
        terms = Terms.of(option)
        final = await self._node.final_block(self._chain.confirmations)
        if terms.method != DIRECT_METHOD or final is None:
            return False
        (state,) = await self._node.batch([_ask_nonce(terms, bare(option.payer), hex(final))])
        return bool(uint(state))

    async def hash_of(self, number: int) -> str | None:
        """The hash of a block; None if the node has none."""
        answer = await self._node.ask("eth_getBlockByNumber", hex(number), False)
        block = _numbered(header(answer), number)
        return None if block is None else block.hash

    async def testify(self, wanted: frozenset[Fact]) -> Testimony:
        """Which facts the node tells at final depth; one batched read."""
        hashes = sorted({one.tx_hash for one in wanted})
        numbers = sorted({one.block_number for one in wanted})
        newest, *answers = await self._node.batch(
            [
                ("eth_blockNumber", ()),
                *(("eth_getBlockByNumber", (hex(one), False)) for one in numbers),
                *(("eth_getTransactionReceipt", (one,)) for one in hashes),
            ]
        )
        final = quantity(newest) - self._chain.confirmations + 1
        blocks = [header(one) for one in answers[: len(numbers)]]
        canonical = {one.hash for one in blocks if one is not None and one.number <= final}
        told: set[Fact] = set()
        receipts = [record(one) for one in answers[len(numbers) :]]
        for receipt in receipts:
            if receipt is not None and hash_text(receipt.get("blockHash")) in canonical:
                told.update(self._paid_in(records(receipt.get("logs"))))
                told.update(_mined([receipt]))
        # a receipt that is missing may only be late, for a while
        needed = max(numbers) + (_INDEX_BLOCKS if None in receipts else 0)
        return Testimony(wanted & told, far_enough=needed <= final)

    async def _block_from_logs(self, number: int) -> BlockView | None:
        """The same from the block's logs and transactions, for nodes without block receipts."""
        answer = await self._node.ask("eth_getBlockByNumber", hex(number), True)
        block = _numbered(header(answer), number)
        if block is None:
            return None
        logs = await self._node.ask("eth_getLogs", {"blockHash": block.hash, **self._filter()})
        transactions = records(answer["transactions"])
        ours = [
            hash_text(one.get("hash"))
            for one in transactions
            if address_text(one.get("from")) in self._ours
        ]
        receipts = await self._receipts(ours)
        if len(receipts) != len(ours):
            raise RailUnavailable(f"{self._chain.name}: a receipt is missing")
        if any(hash_text(one.get("blockHash")) != block.hash for one in receipts):
            raise RailUnavailable(f"{self._chain.name}: a block changed while it was read")
        return _view(block, self._paid_in(records(logs)), _mined(receipts))

    async def _receipts(self, tx_hashes: Sequence[str]) -> list[Mapping[str, Any]]:
        calls: list[Call] = [("eth_getTransactionReceipt", (one,)) for one in tx_hashes]
        answers = [record(one) for one in await self._node.batch(calls)]
        return [one for one in answers if one is not None and one.get("blockHash") is not None]

    async def _paid_between(
        self, references: Sequence[str] | None, first: int, last: int
    ) -> list[Paid]:
        """Asks for a range, and for its halves when the node refuses so many blocks at once."""
        if first > last:
            return []
        wanted = {"fromBlock": hex(first), "toBlock": hex(last), **self._filter(references)}
        try:
            # the block shows that the node really is as far as the range goes
            logs, block = await self._node.batch(
                [
                    ("eth_getLogs", (wanted,)),
                    ("eth_getBlockByNumber", (hex(last), False)),
                ]
            )
        except AnswerTooLarge as fault:
            logs, block = fault, None
        if isinstance(logs, (RpcError, AnswerTooLarge)):
            if first == last:
                raise RailUnavailable(f"{self._chain.name}: {logs}") from logs
            middle = (first + last) // 2
            return [
                *await self._paid_between(references, first, middle),
                *await self._paid_between(references, middle + 1, last),
            ]
        if header(block) is None:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind its own head")
        found = self._paid_in(records(logs))
        return found if references is None else [one for one in found if one.ref in references]

    def _filter(self, references: Sequence[str] | None = None) -> dict[str, Any]:
        """A log filter for the Paid event."""
        topics: list[Any] = [settler.PAID]
        if references is not None:
            topics.append(list(references))
        return {"address": sorted(self._chain.settlers), "topics": topics}

    def _paid_in(self, logs: Sequence[Mapping[str, Any]]) -> list[Paid]:
        settlers = self._chain.settlers
        return [settler.paid(one) for one in logs if settler.is_event(one, settlers, settler.PAID)]


async def nonce_used(node: Node, chain: EvmChain, sender: str, nonce: int) -> bool:
    """True if a transaction of an address with the nonce is final."""
    final = await node.final_block(chain.confirmations)
    if final is None:
        return False
    return quantity(await node.ask("eth_getTransactionCount", sender, hex(final))) > nonce


def _ask_nonce(terms: Terms, payer: str, block: str) -> Call:
    """Asks for the state of a nonce; Permit2 keeps those of 256 nonces in one word."""
    if terms.method == PERMIT2_METHOD:
        word = abi.number(int.from_bytes(terms.nonce, "big") >> 8)
        return call_to(PERMIT2, NONCE_BITMAP + abi.address(payer) + word, block=block)
    if terms.method == DIRECT_METHOD:
        asked = settler.IS_PAID + abi.address(payer) + terms.nonce
        return call_to(terms.route.settler, asked, block=block)
    asked = AUTHORIZATION_STATE + abi.address(payer) + terms.nonce
    return call_to(terms.route.token, asked, block=block)


def _is_used(terms: Terms, state: int) -> bool:
    if terms.method == PERMIT2_METHOD:
        return bool(state >> terms.nonce[-1] & 1)
    return bool(state)


def _numbered(block: Header | None, number: int) -> Header | None:
    if block is not None and block.number != number:
        raise RailUnavailable("the node answered another block")
    return block


def _view(block: Header, paid: Sequence[Paid], mined: Sequence[Mined]) -> BlockView:
    return BlockView(
        number=block.number,
        hash=block.hash,
        parent_hash=block.parent_hash,
        time=block.time,
        paid=tuple(paid),
        mined=tuple(mined),
    )


def _mined(receipts: Sequence[Mapping[str, Any]]) -> list[Mined]:
    return [
        Mined(
            tx_hash=hash_text(one.get("transactionHash")),
            block_number=quantity(one.get("blockNumber")),
            block_hash=hash_text(one.get("blockHash")),
            success=quantity(one.get("status")) == 1,
            gas_cost=quantity(one.get("gasUsed")) * quantity(one.get("effectiveGasPrice"))
            # rollups charge for posting the data, on top
            + quantity(one.get("l1Fee") or "0x0"),
            gas_used=quantity(one.get("gasUsed")),
        )
        for one in receipts
    ]
