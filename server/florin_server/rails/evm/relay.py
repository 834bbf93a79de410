"""Turning accepted payments into one transaction, and handing it to the chain."""

from __future__ import annotations

from collections.abc import Sequence

from florin_server.domain.journal import Accepted
from florin_server.rails.base import RailUnavailable, Signed
from florin_server.rails.evm.fees import GAS_BASE, current_fees
from florin_server.rails.evm.node import Node, call_to, quantity, record, uint
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.submission import (
    GAS_ITEM_HEAVIEST,
    Item,
    Submission,
    cut,
    item,
    submission,
)
from florin_server.rails.evm.terms import PERMIT2_METHOD, Terms, bare
from florin_server.rails.evm.transactions import Signer, transaction_hash
from florin_server.rails.evm.verify import signature_bytes
from florin_server.rails.jsonrpc import RpcError


class Relay:
    """Submits for one chain and one key. Who calls it keeps the nonces."""

    def __init__(self, node: Node, chain: EvmChain, signer: Signer) -> None:
        self._node = node
        self._chain = chain
        self._signer = signer

    async def simulate(self, items: Sequence[Accepted]) -> list[bool]:
        """Tells for each item whether it would settle if submitted now, all in one transaction."""
        if not items:
            return []
        mask = await self._tried(items)
        if mask is not None:
            # bits stand in the order of the calldata: first all of one kind, then the others
            order = sorted(range(len(items)), key=lambda at: _by_permit2(items[at]))
            return [bool(mask >> order.index(index) & 1) for index in range(len(items))]
        # one of them takes the gas of the others: it is found by leaving out half of them
        if len(items) == 1:
            return [False]
        first, second = items[: len(items) // 2], items[len(items) // 2 :]
        settled = await self.simulate(first)
        if any(settled):
            return settled + [False] * len(second)
        return settled + await self.simulate(second)

    def batches(self, items: Sequence[Accepted], most: int) -> list[Sequence[Accepted]]:
        """Cuts items into what one transaction settles each, at most so many."""
        if not items:
            return []
        if len(items) <= most and GAS_BASE + len(items) * GAS_ITEM_HEAVIEST <= self._chain.gas_max:
            return [items]
        parts, first = [], 0
        for count in cut(self._chain, [self._item(one) for one in items], most):
            parts.append(items[first : first + count])
            first += count
        return parts

    async def next_nonce(self) -> int:
        """The sender's next nonce as the chain knows it, pending transactions included."""
        sender = self._signer.address
        return quantity(await self._node.ask("eth_getTransactionCount", sender, "pending"))

    async def sign(self, nonce: int, items: Sequence[Accepted]) -> Signed:
        """Signs the one transaction that settles the items."""
        call = self._submission(items)
        return self._signer.sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await current_fees(self._node, self._chain),
            gas=call.gas,
            to=call.to,
            data=call.data,
        )

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine."""
        try:
            await self._node.rpc.call("eth_sendRawTransaction", "0x" + raw.hex())
        except RpcError as refusal:
            # nodes have many words for "I have it": only having it counts
            if not await self.knows(transaction_hash(raw)):
                raise RailUnavailable(f"{self._chain.name}: {refusal}") from refusal

    async def knows(self, tx_hash: str) -> bool:
        """True if the chain or its pool has the transaction now."""
        return record(await self._node.ask("eth_getTransactionByHash", tx_hash)) is not None

    async def _tried(self, items: Sequence[Accepted]) -> int | None:
        """The contract's answer to a settlement if sent now; None if all of it would revert."""
        sent = self._submission(items)
        call = call_to(sent.to, sent.data, sender=self._signer.address, gas=sent.gas)
        (answer,) = await self._node.batch([call])
        return None if isinstance(answer, RpcError) and answer.is_revert else uint(answer)

    def _submission(self, items: Sequence[Accepted]) -> Submission:
        return submission(self._chain, [self._item(one) for one in items])

    def _item(self, accepted: Accepted) -> Item:
        option = accepted.option
        given = signature_bytes(option, accepted.confirmation.outputs)
        return item(self._chain, Terms.of(option), bare(option.payer), given)


def _by_permit2(item: Accepted) -> bool:
    return item.option.method == PERMIT2_METHOD
