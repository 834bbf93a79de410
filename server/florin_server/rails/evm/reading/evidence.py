"""What the chain proves: blocks, our transactions, settlement events, spent authorizations.

Absence is never proof here: a missing receipt or a refused call leaves everything open. Final is
what has the chain's confirmations.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from florin_server.chains.evm import abi
from florin_server.chains.evm.typed_data import PERMIT2
from florin_server.domain.payments.payment import Option
from florin_server.rails.connection.jsonrpc import METHOD_NOT_FOUND, AnswerTooLarge, Call, RpcError
from florin_server.rails.connection.witness import Testimony
from florin_server.rails.evm import settler
from florin_server.rails.evm.gas_money import cost_of
from florin_server.rails.evm.paying.terms import DIRECT_METHOD, PERMIT2_METHOD, Terms, bare
from florin_server.rails.evm.reading.finality import Finality
from florin_server.rails.evm.reading.log_range import LogRange
from florin_server.rails.evm.reading.node import (
    LATEST,
    Header,
    Node,
    call_to,
    hash_text,
    header,
    optional_quantity,
    quantity,
    record,
    records,
    uint,
)
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import (
    BlockView,
    Fact,
    Glance,
    Head,
    Mined,
    Paid,
    RailUnavailable,
)

NONCE_BITMAP = abi.selector("nonceBitmap(address,uint256)")
AUTHORIZATION_STATE = abi.selector("authorizationState(address,bytes32)")
REFERENCES_MAX = 100  # in one log filter
_log = logging.getLogger(__name__)

# blocks, and seconds, after which a node has the receipts of a block
_INDEX_BLOCKS, _INDEX_S = 3, 6.0


class Evidence:
    """Reads one chain's facts. `ours` are the addresses whose transactions are told."""

    def __init__(
        self,
        node: Node,
        chain: EvmChain,
        ours: Collection[str],
        finality: Finality | None = None,
    ) -> None:
        self._node = node
        self._finality = finality or Finality(chain)
        self._chain = chain
        self._ours = ours
        self._block_receipts = True
        self._log_range = LogRange()
        self._glances = 0

    async def head(self) -> Head:
        """The newest block."""
        tag = self._chain.finality_tag
        if tag == "none":
            newest, tagged = await self._node.ask("eth_getBlockByNumber", LATEST, False), None
        else:
            newest, tagged = await self._node.batch(
                [("eth_getBlockByNumber", (one, False)) for one in (LATEST, tag)]
            )
        block = self._newest(newest)
        return self._head_of(block, None if tag == "none" else self._named_block(tagged))

    async def glance(self, since: int) -> Glance:
        """Return the newest block, and whether those after a known one have settlement events.

        Two calls in one batch; where a tag decides too, each other time it is asked for instead.
        """
        self._glances += 1
        tag = self._chain.finality_tag
        if tag != "none" and self._glances % 2:
            newest, tagged = await self._node.batch(
                [("eth_getBlockByNumber", (one, False)) for one in (LATEST, tag)]
            )
            block = self._newest(newest)
            return Glance(self._head_of(block, self._named_block(tagged)), block.parent_hash, None)
        # nodes refuse a range that begins above their head: it begins with the known block
        wanted = {"fromBlock": hex(since), "toBlock": LATEST, **self._filter()}
        newest, logs = await self._node.batch(
            [("eth_getBlockByNumber", (LATEST, False)), ("eth_getLogs", (wanted,))]
        )
        block = self._newest(newest)
        quiet = self._is_quiet(logs, since)
        return Glance(self._head_of(block, None), block.parent_hash, quiet)

    def _is_quiet(self, logs: Any, since: int) -> bool:
        """Return whether an answer tells of no events after a block; a refusal tells nothing."""
        try:
            return all(one.block_number <= since for one in self._paid_in(records(logs)))
        except RailUnavailable as problem:
            _log.info("%s: logs since block %d: %s", self._chain.name, since, problem)
            return False

    def _newest(self, answer: Any) -> Header:
        block = header(answer)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: the node has no newest block")
        return block

    def _head_of(self, block: Header, named: int | None) -> Head:
        """Record the newest block, and the one that the node names by the tag."""
        final = self._finality.record_head(block.number, block.hash, block.time, named)
        is_timed = self._finality.is_timed
        return Head(block.number, block.hash, block.time, final if is_timed else None)

    def _named_block(self, answer: Any) -> int | None:
        """Return the number of a block that a node names by a tag; None if it names none."""
        try:
            block = header(answer)
        except RailUnavailable as problem:
            _log.warning("%s: block %r: %s", self._chain.name, self._chain.finality_tag, problem)
            return None
        return None if block is None else block.number

    async def block(self, number: int) -> BlockView | None:
        """Return a block with the settlements and our transactions in it, None if there is none.

        One batched read; where the node's receipts do not fit the block, its logs are read too.
        """
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
        try:
            receipts = _receipts_of(block, answers[1])
            logs = [log for receipt in receipts for log in records(receipt.get("logs"))]
            paid = self._paid_in(logs)
        except RailUnavailable as problem:
            # some nodes lack a receipt, or have none, of a block whose logs they have
            _log.warning("%s: block %d: %s", self._chain.name, number, problem)
            view = await self._block_from_logs(number)
            return view and replace(view, complete=False)
        return _view(
            block, paid, _mined((one for one in receipts if self._is_ours(one)), self._chain)
        )

    async def mined(self, tx_hashes: Sequence[str]) -> dict[str, Mined]:
        """Our transactions that are in blocks; one batched read."""
        receipts = await self._receipts(tx_hashes)
        return {
            one.tx_hash: one for one in _mined(receipts, self._chain) if one.tx_hash in tx_hashes
        }

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
        final = await self._node.final_block(self._finality)
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
        final = await self._node.final_block(self._finality)
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
        is_timed = self._finality.is_timed
        newest, *answers = await self._node.batch(
            [
                ("eth_getBlockByNumber", (LATEST, False)) if is_timed else ("eth_blockNumber", ()),
                *(("eth_getBlockByNumber", (hex(one), False)) for one in numbers),
                *(("eth_getTransactionReceipt", (one,)) for one in hashes),
            ]
        )
        head = header(newest) if is_timed else None
        paid = [one for one in wanted if isinstance(one, Paid)]
        # the caller asks for what is final by its own node: the longest wait is that of all
        after_s = max((self._chain.final_after(one.token, one.value) for one in paid), default=None)
        final = self._finality.final_at(head.number if head else quantity(newest), after_s)
        blocks = [header(one) for one in answers[: len(numbers)]]
        canonical = {
            one.hash
            for one in blocks
            if one is not None
            and one.number <= final
            and (head is None or self._finality.is_old_enough(one.time, head.time, after_s))
        }
        told: set[Fact] = set()
        receipts = [record(one) for one in answers[len(numbers) :]]
        for receipt in receipts:
            if receipt is not None and hash_text(receipt.get("blockHash")) in canonical:
                told.update(self._paid_in(records(receipt.get("logs"))))
                told.update(_mined([receipt], self._chain))
        # a receipt that is missing may only be late, for a while
        late = max(_INDEX_BLOCKS, self._finality.count_blocks(_INDEX_S))
        needed = max(numbers) + (late if None in receipts else 0)
        return Testimony(wanted & told, far_enough=needed <= final)

    async def _block_from_logs(self, number: int) -> BlockView | None:
        """Return a block by its logs and transactions, for nodes without its receipts.

        A receipt of ours that is missing says nothing: transactions are asked for again.
        """
        answer = await self._node.ask("eth_getBlockByNumber", hex(number), True)
        block = _numbered(header(answer), number)
        if block is None:
            return None
        if block.transactions == 0:
            return _view(block, (), ())
        logs = await self._node.ask("eth_getLogs", {"blockHash": block.hash, **self._filter()})
        transactions = records(answer["transactions"])
        ours = [hash_text(one.get("hash")) for one in transactions if self._is_ours(one)]
        receipts = await self._receipts(ours)
        if any(hash_text(one.get("blockHash")) != block.hash for one in receipts):
            raise RailUnavailable(f"{self._chain.name}: a block changed while it was read")
        return _view(block, self._paid_in(records(logs)), _mined(receipts, self._chain))

    async def _receipts(self, tx_hashes: Sequence[str]) -> list[Mapping[str, Any]]:
        calls: list[Call] = [("eth_getTransactionReceipt", (one,)) for one in tx_hashes]
        answers = [record(one) for one in await self._node.batch(calls)]
        return [one for one in answers if one is not None and one.get("blockHash") is not None]

    async def _paid_between(
        self, references: Sequence[str] | None, first: int, last: int
    ) -> list[Paid]:
        """Return the events of a range, in calls for as many blocks as the node answers at once."""
        found: list[Paid] = []
        while first <= last:
            size = self._log_range.size(last - first + 1)
            events = await self._paid_in_range(references, first, first + size - 1)
            if events is not None:
                self._log_range.took(size)
                found += events
                first += size
        return found if references is None else [one for one in found if one.ref in references]

    async def _paid_in_range(
        self, references: Sequence[str] | None, first: int, last: int
    ) -> list[Paid] | None:
        """Return the events of one call for logs; None if the node refuses so many blocks."""
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
            self._log_range.refused(last - first + 1)
            if first == last:
                raise RailUnavailable(f"{self._chain.name}: {logs}") from logs
            return None
        if header(block) is None:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind its own head")
        return self._paid_in(records(logs))

    def _filter(self, references: Sequence[str] | None = None) -> dict[str, Any]:
        """A log filter for the Paid event."""
        topics: list[Any] = [settler.PAID]
        if references is not None:
            topics.append(list(references))
        return {"address": sorted(self._chain.settlers), "topics": topics}

    def _is_ours(self, sent: Mapping[str, Any]) -> bool:
        """Return whether a transaction or its receipt is of one of our addresses."""
        sender = sent.get("from")
        return isinstance(sender, str) and sender.lower() in self._ours

    def _paid_in(self, logs: Sequence[Mapping[str, Any]]) -> list[Paid]:
        settlers = self._chain.settlers
        return [settler.paid(one) for one in logs if settler.is_event(one, settlers, settler.PAID)]


async def nonce_used(node: Node, finality: Finality, sender: str, nonce: int) -> bool:
    """True if a transaction of an address with the nonce is final."""
    final = await node.final_block(finality)
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


def _receipts_of(block: Header, answer: Any) -> list[Mapping[str, Any]]:
    """Return all receipts of a block; RailUnavailable if the answer does not fit the block."""
    if answer is None and block.transactions == 0:
        return []
    receipts = records(answer)
    if len(receipts) != block.transactions:
        raise RailUnavailable(f"{len(receipts)} receipts for {block.transactions} transactions")
    if any(hash_text(one.get("blockHash")) != block.hash for one in receipts):
        raise RailUnavailable("receipts of another block")
    return receipts


def _view(block: Header, paid: Sequence[Paid], mined: Sequence[Mined]) -> BlockView:
    return BlockView(
        number=block.number,
        hash=block.hash,
        parent_hash=block.parent_hash,
        time=block.time,
        paid=tuple(paid),
        mined=tuple(mined),
    )


def _mined(receipts: Iterable[Mapping[str, Any]], chain: EvmChain) -> list[Mined]:
    """Return the transactions of receipts; a receipt without what decides is left out.

    Absence proves nothing, so a transaction that is left out is asked for again.
    """
    found = []
    for receipt in receipts:
        try:
            found.append(_mined_by(receipt, chain))
        except RailUnavailable as problem:
            _log.warning("receipt of %.80r: %s", receipt.get("transactionHash"), problem)
    return found


def _mined_by(receipt: Mapping[str, Any], chain: EvmChain) -> Mined:
    gas_used = optional_quantity(receipt.get("gasUsed"))
    return Mined(
        tx_hash=hash_text(receipt.get("transactionHash")),
        block_number=quantity(receipt.get("blockNumber")),
        block_hash=hash_text(receipt.get("blockHash")),
        success=quantity(receipt.get("status")) == 1,
        gas_cost=_gas_cost(receipt, gas_used, chain),
        gas_used=gas_used,
    )


def _gas_cost(receipt: Mapping[str, Any], used: int | None, chain: EvmChain) -> int | None:
    """Return what a transaction cost in units of `native_asset`, None if no node reports it.

    A node that says that another token was charged does not report it either.
    """
    price = optional_quantity(receipt.get("effectiveGasPrice"))
    if used is None or price is None:
        return None
    charged = receipt.get("feeToken")
    if chain.fee_token and isinstance(charged, str) and charged.lower() != chain.fee_token:
        return None
    # rollups charge for posting the data, on top
    return cost_of(chain, used * price + (optional_quantity(receipt.get("l1Fee")) or 0))
