"""The chain's evidence: blocks, our transactions, settlement events, used authorizations.

Absence is never proof here: a missing receipt or a refused call leaves everything open. A block is
final if it has the chain's confirmations.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from florin_server.domain.chains.evm import abi
from florin_server.domain.chains.evm.typed_data import PERMIT2
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.payments.payment import PaymentOption
from florin_server.rails.connection.jsonrpc import (
    METHOD_NOT_FOUND,
    AnswerTooLarge,
    RpcCall,
    RpcError,
)
from florin_server.rails.connection.quorum_reader import Attestation
from florin_server.rails.evm import settler
from florin_server.rails.evm.paying.terms import (
    DIRECT_METHOD,
    PERMIT2_METHOD,
    EvmOptionTerms,
    to_address,
)
from florin_server.rails.evm.reading.coin_deposits import parse_coin_deposit
from florin_server.rails.evm.reading.deposit_logs import parse_deposits, parse_home_transfers
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.reading.log_reader import LogReader
from florin_server.rails.evm.reading.node import (
    LATEST,
    BlockHeader,
    EvmNode,
    build_call,
    parse_hash,
    parse_header,
    parse_object,
    parse_objects,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.receipts import parse_block_receipts, parse_transactions
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import (
    FORWARD_METHOD,
    BlockView,
    ChainHead,
    ConfirmableFact,
    HeadUpdate,
    HomeTransfer,
    MinedTransaction,
    RailUnavailable,
    SettlementEvent,
)

NONCE_BITMAP = abi.encode_selector("nonceBitmap(address,uint256)")
AUTHORIZATION_STATE = abi.encode_selector("authorizationState(address,bytes32)")
REFERENCES_MAX = 100  # in one log filter
_log = logging.getLogger(__name__)

# blocks, and seconds, after which a node has the receipts of a block
_INDEX_BLOCKS, _INDEX_S = 3, 6.0


class EvmEvidenceReader:
    """Read one chain's facts. `own_addresses` are the addresses whose transactions are reported."""

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        own_addresses: Collection[str],
        finality: FinalityTracker | None = None,
    ) -> None:
        self._node = node
        self._finality = finality or FinalityTracker(chain)
        self._chain = chain
        self._own_addresses = own_addresses
        self._block_receipts = True
        self._logs = LogReader(chain.name)
        self._polls = 0

    async def get_head(self) -> ChainHead:
        """Return the newest block."""
        tag = self._chain.finality_tag
        if tag == "none":
            newest, tagged = await self._node.call("eth_getBlockByNumber", LATEST, False), None
        else:
            newest, tagged = await self._node.batch(
                [("eth_getBlockByNumber", (block_tag, False)) for block_tag in (LATEST, tag)]
            )
        block = self._parse_newest(newest)
        return self._record_head(block, None if tag == "none" else self._parse_named_block(tagged))

    async def poll_head(self, since: int) -> HeadUpdate:
        """Return the newest block, and whether blocks after `since` have settlement events.

        Two calls in one batch. Where a tag decides too, every other call reads the tag instead of
        the events.
        """
        self._polls += 1
        tag = self._chain.finality_tag
        if tag != "none" and self._polls % 2:
            newest, tagged = await self._node.batch(
                [("eth_getBlockByNumber", (block_tag, False)) for block_tag in (LATEST, tag)]
            )
            block = self._parse_newest(newest)
            return HeadUpdate(
                self._record_head(block, self._parse_named_block(tagged)), block.parent_hash, None
            )
        # nodes refuse a range that starts above their head: it starts with the known block
        log_filter = {"fromBlock": hex(since), "toBlock": LATEST, **self._build_filter()}
        newest, logs = await self._node.batch(
            [("eth_getBlockByNumber", (LATEST, False)), ("eth_getLogs", (log_filter,))]
        )
        block = self._parse_newest(newest)
        quiet = self._is_quiet(logs, since)
        return HeadUpdate(self._record_head(block, None), block.parent_hash, quiet)

    def _is_quiet(self, logs: Any, since: int) -> bool:
        """Return whether the logs have no events after a block; False if the node refused."""
        try:
            return all(
                event.block_number <= since for event in self._parse_events(parse_objects(logs))
            )
        except RailUnavailable as problem:
            _log.info("%s: logs since block %d: %s", self._chain.name, since, problem)
            return False

    def _parse_newest(self, answer: Any) -> BlockHeader:
        block = parse_header(answer)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: the node has no newest block")
        return block

    def _record_head(self, block: BlockHeader, named: int | None) -> ChainHead:
        """Record the newest block, and the block that the node names by the tag."""
        final = self._finality.record_head(block.number, block.hash, block.time, named)
        is_timed = self._finality.is_timed
        return ChainHead(block.number, block.hash, block.time, final if is_timed else None)

    def _parse_named_block(self, answer: Any) -> int | None:
        """Return the number of the block behind a node's tag; None if the node names none."""
        try:
            block = parse_header(answer)
        except RailUnavailable as problem:
            _log.warning("%s: block %r: %s", self._chain.name, self._chain.finality_tag, problem)
            return None
        return None if block is None else block.number

    async def find_block(self, number: int) -> BlockView | None:
        """Return a block with its settlements and our transactions; None if it does not exist.

        One batched read. If the node's receipts do not match the block, its logs are read too.
        """
        if not self._block_receipts:
            return await self._find_block_from_logs(number)
        try:
            answers = await self._node.batch(
                [
                    ("eth_getBlockByNumber", (hex(number), False)),
                    ("eth_getBlockReceipts", (hex(number),)),
                ]
            )
        except AnswerTooLarge:
            return await self._find_block_from_logs(number)
        if isinstance(answers[1], RpcError):
            self._block_receipts = answers[1].code != METHOD_NOT_FOUND
            return await self._find_block_from_logs(number)
        block = _require_number(parse_header(answers[0]), number)
        if block is None:
            return None
        try:
            receipts = parse_block_receipts(block, answers[1])
            logs = [log for receipt in receipts for log in parse_objects(receipt.get("logs"))]
            events = self._parse_events(logs)
        except RailUnavailable as problem:
            # some nodes lack receipts of a block although they have its logs
            _log.warning("%s: block %d: %s", self._chain.name, number, problem)
            view = await self._find_block_from_logs(number)
            return view and replace(view, is_complete=False)
        return _build_block_view(
            block,
            events,
            parse_transactions(
                (receipt for receipt in receipts if self._is_ours(receipt)), self._chain
            ),
        )

    async def find_mined(self, tx_hashes: Sequence[str]) -> dict[str, MinedTransaction]:
        """Return our transactions that are in blocks, by hash; one batched read."""
        receipts = await self._read_receipts(tx_hashes)
        return {
            mined_transaction.tx_hash: mined_transaction
            for mined_transaction in parse_transactions(receipts, self._chain)
            if mined_transaction.tx_hash in tx_hashes
        }

    async def list_settlement_events(
        self, references: Sequence[str], from_block: int
    ) -> list[SettlementEvent]:
        """Return settlement events of the references, up to the newest block."""
        newest = await self._node.get_head()
        if from_block > newest + 1:
            raise RailUnavailable(f"{self._chain.name}: the node lags behind what was seen before")
        events: list[SettlementEvent] = []
        for first in range(0, len(references), REFERENCES_MAX):
            reference = references[first : first + REFERENCES_MAX]
            events += await self._list_events_between(reference, from_block, newest)
        return events

    async def list_settlement_events_between(self, first: int, last: int) -> list[SettlementEvent]:
        """Return all settlement events of a range of blocks."""
        return await self._list_events_between(None, first, last)

    async def find_unpayable_reason(self, option: PaymentOption) -> str | None:
        """Return why the option is unpayable at the newest final block; None if it is payable."""
        terms = EvmOptionTerms.from_option(option)
        final = await self._node.find_final_block(self._finality)
        if final is None or terms.route.settler not in self._chain.settlers:
            return None  # without its contract's events the payment's state is unknown
        if terms.method == FORWARD_METHOD:
            return await self._find_forwarding_end(terms, final)
        state, newest_final = await self._node.batch(
            [
                _build_nonce_call(terms, to_address(option.payer), hex(final)),
                ("eth_getBlockByNumber", (hex(final), False)),
            ]
        )
        block = _require_number(parse_header(newest_final), final)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: a final block is missing")
        if _is_used(terms, parse_uint(state)):
            if terms.method == DIRECT_METHOD:
                return None  # only the payment itself uses it, so there is an event
            return "The authorization was used or cancelled elsewhere"
        if block.time > terms.last_second:
            return "The authorization lapsed before it was settled"
        return None

    async def _find_forwarding_end(self, terms: EvmOptionTerms, final: int) -> str | None:
        """Return why nothing can be forwarded any more, by the time of a final block.

        Until then an address that was swept has code as a paid one has, so code says nothing.
        """
        answer = await self._node.call("eth_getBlockByNumber", hex(final), False)
        block = _require_number(parse_header(answer), final)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: a final block is missing")
        late = block.time > terms.last_second
        return "The money at the address was not forwarded before its end" if late else None

    async def is_paid(self, option: PaymentOption) -> bool:
        """Return True if the contract records at the newest final block that the payer paid."""
        terms = EvmOptionTerms.from_option(option)
        final = await self._node.find_final_block(self._finality)
        if terms.method != DIRECT_METHOD or final is None:
            return False
        (state,) = await self._node.batch(
            [_build_nonce_call(terms, to_address(option.payer), hex(final))]
        )
        return bool(parse_uint(state))

    async def find_block_hash(self, number: int) -> str | None:
        """Return the hash of a block; None if the node does not have the block."""
        answer = await self._node.call("eth_getBlockByNumber", hex(number), False)
        block = _require_number(parse_header(answer), number)
        return None if block is None else block.hash

    async def attest(self, facts: frozenset[ConfirmableFact]) -> Attestation:
        """Return which facts the node confirms at final depth; one batched read."""
        hashes = sorted({fact.tx_hash for fact in facts})
        numbers = sorted({fact.block_number for fact in facts})
        # only transactions themselves say how much coin they sent
        coin_hashes = sorted(
            {
                fact.tx_hash
                for fact in facts
                if isinstance(fact, Deposit) and fact.asset == self._chain.coin_asset
            }
        )
        is_timed = self._finality.is_timed
        newest, *answers = await self._node.batch(
            [
                ("eth_getBlockByNumber", (LATEST, False)) if is_timed else ("eth_blockNumber", ()),
                *(("eth_getBlockByNumber", (hex(number), False)) for number in numbers),
                *(("eth_getTransactionReceipt", (tx_hash,)) for tx_hash in hashes),
                *(("eth_getTransactionByHash", (tx_hash,)) for tx_hash in coin_hashes),
            ]
        )
        receipt_answers = answers[len(numbers) : len(numbers) + len(hashes)]
        coin_answers = answers[len(numbers) + len(hashes) :]
        head = parse_header(newest) if is_timed else None
        events = [fact for fact in facts if isinstance(fact, SettlementEvent)]
        # the caller asks for facts that are final by its own node, so the longest wait covers all
        after_s = max(
            (self._chain.final_after(event.token, event.value) for event in events), default=None
        )
        final = self._finality.get_final_block(
            head.number if head else parse_quantity(newest), after_s
        )
        blocks = [parse_header(answer) for answer in answers[: len(numbers)]]
        canonical = {
            header.hash
            for header in blocks
            if header is not None
            and header.number <= final
            and (head is None or self._finality.is_old_enough(header.time, head.time, after_s))
        }
        observed_facts: set[ConfirmableFact] = set()
        receipts = [parse_object(answer) for answer in receipt_answers]
        addresses = frozenset(
            fact.address for fact in facts if isinstance(fact, (Deposit, HomeTransfer))
        )
        for receipt in receipts:
            if receipt is not None and parse_hash(receipt.get("blockHash")) in canonical:
                logs = parse_objects(receipt.get("logs"))
                observed_facts.update(self._parse_events(logs))
                observed_facts.update(parse_transactions([receipt], self._chain))
                if addresses:
                    observed_facts.update(parse_deposits(logs, self._chain, addresses))
                    observed_facts.update(parse_home_transfers(logs, self._chain, addresses))
        by_hash = dict(zip(hashes, receipts, strict=True))
        for tx_hash, answer in zip(coin_hashes, coin_answers, strict=True):
            transaction, receipt = parse_object(answer), by_hash[tx_hash]
            if transaction is None or receipt is None:
                continue
            deposit = parse_coin_deposit(transaction, receipt, self._chain.coin_asset)
            if deposit is not None and deposit.block_hash in canonical:
                observed_facts.add(deposit)
        # for a while, a missing receipt may only be late
        late = max(_INDEX_BLOCKS, self._finality.count_blocks(_INDEX_S))
        needed = max(numbers) + (late if None in receipts else 0)
        return Attestation(facts & observed_facts, is_caught_up=needed <= final)

    async def _find_block_from_logs(self, number: int) -> BlockView | None:
        """Return a block by its logs and transactions, for nodes without its receipts.

        A missing receipt of ours proves nothing: the transaction is read again later.
        """
        answer = await self._node.call("eth_getBlockByNumber", hex(number), True)
        block = _require_number(parse_header(answer), number)
        if block is None:
            return None
        if block.transaction_count == 0:
            return _build_block_view(block, (), ())
        logs = await self._node.call(
            "eth_getLogs", {"blockHash": block.hash, **self._build_filter()}
        )
        transactions = parse_objects(answer["transactions"])
        ours = [
            parse_hash(transaction.get("hash"))
            for transaction in transactions
            if self._is_ours(transaction)
        ]
        receipts = await self._read_receipts(ours)
        if any(parse_hash(receipt.get("blockHash")) != block.hash for receipt in receipts):
            raise RailUnavailable(f"{self._chain.name}: a block changed while it was read")
        return _build_block_view(
            block,
            self._parse_events(parse_objects(logs)),
            parse_transactions(receipts, self._chain),
        )

    async def _read_receipts(self, tx_hashes: Sequence[str]) -> list[Mapping[str, Any]]:
        calls: list[RpcCall] = [("eth_getTransactionReceipt", (tx_hash,)) for tx_hash in tx_hashes]
        answers = [parse_object(item) for item in await self._node.batch(calls)]
        return [
            answer
            for answer in answers
            if answer is not None and answer.get("blockHash") is not None
        ]

    async def _list_events_between(
        self, references: Sequence[str] | None, first: int, last: int
    ) -> list[SettlementEvent]:
        """Return the events of a range of blocks."""
        log_filter = self._build_filter(references)
        events = self._parse_events(await self._logs.list_logs(self._node, log_filter, first, last))
        return (
            events if references is None else [event for event in events if event.ref in references]
        )

    def _build_filter(self, references: Sequence[str] | None = None) -> dict[str, Any]:
        """Return a log filter for the Paid event."""
        topics: list[Any] = [settler.PAID_TOPIC]
        if references is not None:
            topics.append(list(references))
        return {"address": sorted(self._chain.settlers), "topics": topics}

    def _is_ours(self, sent: Mapping[str, Any]) -> bool:
        """Return whether one of our addresses sent a transaction, given it or its receipt."""
        sender = sent.get("from")
        return isinstance(sender, str) and sender.lower() in self._own_addresses

    def _parse_events(self, logs: Sequence[Mapping[str, Any]]) -> list[SettlementEvent]:
        settlers = self._chain.settlers
        return [
            settler.parse_paid_event(log)
            for log in logs
            if settler.is_event(log, settlers, settler.PAID_TOPIC)
        ]


async def is_nonce_used(node: EvmNode, finality: FinalityTracker, sender: str, nonce: int) -> bool:
    """Return True if a transaction of an address with the nonce is final."""
    final = await node.find_final_block(finality)
    if final is None:
        return False
    return parse_quantity(await node.call("eth_getTransactionCount", sender, hex(final))) > nonce


def _build_nonce_call(terms: EvmOptionTerms, payer: str, block: str) -> RpcCall:
    """Build the call that reads a nonce's state; Permit2 keeps 256 nonces in one word."""
    if terms.method == PERMIT2_METHOD:
        word = abi.encode_uint256(int.from_bytes(terms.nonce, "big") >> 8)
        return build_call(PERMIT2, NONCE_BITMAP + abi.encode_address(payer) + word, block=block)
    if terms.method == DIRECT_METHOD:
        call_data = settler.IS_PAID + abi.encode_address(payer) + terms.nonce
        return build_call(terms.route.settler, call_data, block=block)
    call_data = AUTHORIZATION_STATE + abi.encode_address(payer) + terms.nonce
    return build_call(terms.route.token, call_data, block=block)


def _is_used(terms: EvmOptionTerms, state: int) -> bool:
    if terms.method == PERMIT2_METHOD:
        return bool(state >> terms.nonce[-1] & 1)
    return bool(state)


def _require_number(block: BlockHeader | None, number: int) -> BlockHeader | None:
    if block is not None and block.number != number:
        raise RailUnavailable("the node returned another block")
    return block


def _build_block_view(
    block: BlockHeader, events: Sequence[SettlementEvent], transactions: Sequence[MinedTransaction]
) -> BlockView:
    return BlockView(
        number=block.number,
        hash=block.hash,
        parent_hash=block.parent_hash,
        time=block.time,
        events=tuple(events),
        transactions=tuple(transactions),
    )
