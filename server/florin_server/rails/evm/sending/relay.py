"""Turning accepted payments into one transaction, and handing it to the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from florin_server.domain.settlement.chain_txs import Accepted, ChainTx, PayerKind, Share
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import (
    ask_choice,
    ask_held,
    choice_problem,
    cost_of,
    held_of,
    name_of,
    unit_of,
)
from florin_server.rails.evm.paying.terms import PERMIT2_METHOD, Terms, bare
from florin_server.rails.evm.paying.verify import signature_bytes
from florin_server.rails.evm.reading.dry_run import DryRun, DryRuns
from florin_server.rails.evm.reading.evidence import nonce_used
from florin_server.rails.evm.reading.finality import Finality
from florin_server.rails.evm.reading.node import LATEST, Node, header, quantity, record, uint
from florin_server.rails.evm.reading.reader import Reader
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    KEY_GAS,
    base_fee_of,
    current_fees,
    payment_share,
    raised,
)
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.past_transactions import find_transfer
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.submission import Item, cut, few, item, submission
from florin_server.rails.evm.sending.transactions import Signer, fees_of, transaction_hash
from florin_server.rails.evm.sending.trial import coded
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.types import RailUnavailable, SentTransfer, Shortage, Signed

BATCH_MAX = 50  # the service's own limit; a transaction of so many stays below every gas limit
_SIZE = 512  # bytes of a payment as most are


class EvmRelay:
    """Implements the Relay, Gas and AccountNonces protocols. Who calls it keeps the nonces.

    The first of the signers sends what is tried. The treasury's payouts are not submitted here,
    but its nonces are.
    """

    def __init__(
        self,
        node: Node,
        chain: EvmChain,
        signers: Sequence[Signer],
        runs: DryRuns,
        reader: Reader,
        *,
        refusals: Refusals,
        treasury: EvmPayouts | None,
        finality: Finality,
        learner: GasLearner,
    ) -> None:
        self._learner = learner
        self._shares = learner.shares
        self._finality = finality
        self._refusals = refusals
        self._treasury = treasury
        self._first = signers[0].address
        self._fees = runs.fees
        self._runs = runs
        self._reader = reader
        self._node = node
        self._chain = chain
        self._signers = {signer.address: signer for signer in signers}

    async def look(self, items: Sequence[Accepted]) -> list[Accepted]:
        """The items with what their payers are now, one batched read."""
        payers = list(dict.fromkeys(bare(one.option.payer) for one in items))
        found = dict(zip(payers, await coded(self._node, self._reader, payers), strict=True))
        if None in found.values():
            raise RailUnavailable(f"{self._chain.name}: the node does not tell the payers' code")
        return [
            replace(one, kind=PayerKind.CODE if found[bare(one.option.payer)] else self._kind(one))
            for one in items
        ]

    async def simulate(self, items: Sequence[Accepted], sender: str | None = None) -> list[bool]:
        """Tells for each item whether it would settle if submitted now, with as many as fit.

        What fails is tried again if payments get more gas after that than it had.
        """
        settled = await self._simulate_parts(items, sender)
        failed = [self._item(one) for one, ok in zip(items, settled, strict=True) if not ok]
        if failed and await self._learner.learn(failed):
            settled = await self._simulate_parts(items, sender)
        await self._refusals.explain(
            [item for item, ok in zip(items, settled, strict=True) if not ok]
        )
        return settled

    async def _simulate_parts(self, items: Sequence[Accepted], sender: str | None) -> list[bool]:
        settled: list[bool] = []
        for part in self._cut(items, len(items)):
            settled += await self._simulate(part, sender or self._first)
        return settled

    async def _simulate(self, items: Sequence[Accepted], sender: str) -> list[bool]:
        mask = await self._tried(items, sender)
        if mask is not None:
            # bits stand in the order of the calldata: first all of one kind, then the others
            order = sorted(range(len(items)), key=lambda at: _by_permit2(items[at]))
            return [bool(mask >> order.index(index) & 1) for index in range(len(items))]
        # the node does not run so much at once, say: some of it is tried
        if len(items) == 1:
            return [False]
        first, second = items[: len(items) // 2], items[len(items) // 2 :]
        settled = await self._simulate(first, sender)
        if any(settled):
            return settled + [False] * len(second)
        return settled + await self._simulate(second, sender)

    def batches(self, items: Sequence[Accepted]) -> list[Sequence[Accepted]]:
        """Cuts items, as they stand, into what one transaction settles each."""
        return self._cut(items, BATCH_MAX)

    def _cut(self, items: Sequence[Accepted], most: int) -> list[Sequence[Accepted]]:
        """The same, at most so many."""
        if not items:
            return []
        alike = len({one.option.terms["settler"] for one in items}) == 1
        if alike and len(items) <= min(most, few(self._chain, self._shares)):
            return [items]
        parts, first = [], 0
        for count in cut(self._chain, [self._item(one) for one in items], most):
            parts.append(items[first : first + count])
            first += count
        return parts

    async def next_nonce(self, sender: str) -> int:
        """A sender's next nonce as the chain knows it, pending transactions included."""
        return quantity(await self._node.ask("eth_getTransactionCount", sender, "pending"))

    async def transfer_at(self, sender: str, nonce: int) -> SentTransfer | None:
        """Return a sender's transaction in a block with a nonce; None if none can be found."""
        return await find_transfer(self._node, self._chain, sender, nonce)

    async def sign(self, sender: str, nonce: int, items: Sequence[Accepted]) -> Signed:
        """Signs, with a sender's key, the one transaction that settles the items."""
        forms = [self._item(one) for one in items]
        call = submission(self._chain, forms, self._shares)
        signed = self._signers[sender].sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await self._fees.current(),
            gas=call.gas,
            to=call.to,
            data=call.data,
        )
        return replace(signed, shares=tuple(map(_share, forms)))

    async def fill(self, sender: str, nonce: int) -> Signed:
        """Signs, with a sender's or the treasury's key, what does nothing but use a nonce."""
        if self._treasury is not None and sender == self._treasury.sender:
            return await self._treasury.fill(nonce)
        return await self.sign(sender, nonce, ())

    async def nonce_used(self, sender: str, nonce: int) -> bool:
        """True if a transaction with a sender's nonce is final."""
        return await nonce_used(self._node, self._finality, sender, nonce)

    def share(self, accepted: Accepted) -> Share:
        """The most gas that an item may use of a transaction, as it stands."""
        return _share(self._item(accepted))

    async def had_too_little_gas(self, accepted: Accepted, had: Share) -> bool:
        """Return whether an item failed with a share smaller than what it needs now."""
        as_sent = replace(accepted, kind=had.kind)
        await self._learner.learn([self._item(as_sent)])
        return had.gas < self.share(as_sent).gas

    def new_block(self) -> None:
        """What gas cost before it may not be what it costs now."""
        self._fees.forget()
        self._learner.new_block()

    async def bump(self, tx: ChainTx) -> Signed:
        """Signs the newest variant again for a higher fee; RailUnavailable above the limits."""
        if self._treasury is not None and tx.sender == self._treasury.sender:
            return await self._treasury.bump(tx)
        raw = tx.variants[-1].raw
        asked = await current_fees(self._node, self._chain)
        return self._signers[tx.sender].sign_again(raw, raised(fees_of(raw), asked, self._chain))

    async def shortages(self) -> tuple[Shortage, ...]:
        """Which keys hold less than what the next settlements may cost; one batched read."""
        senders = list(self._signers)
        charged = senders if self._chain.fee_token else []
        newest, *answers = await self._node.batch(
            [
                ("eth_getBlockByNumber", (LATEST, False)),
                *(ask_held(self._chain, one) for one in senders),
                *map(ask_choice, charged),
            ]
        )
        block = header(newest)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: the node has no newest block")
        count = self._chain.gas_reserve
        share = payment_share(KEY_GAS + self._shares.surplus_max, _SIZE)
        price = min(2 * await base_fee_of(block, self._node), self._chain.fee_max)
        wanted = max(price * (GAS_BASE + share * count), 1)
        one = max(price * (GAS_BASE + share), 1)
        held, choices = answers[: len(senders)], answers[len(senders) :]
        found = [self._shortage(*each, wanted, one) for each in zip(senders, held, strict=True)]
        for each in zip(charged, choices, strict=True):
            problem = choice_problem(self._chain, *each)
            found.append(Shortage(problem, is_empty=False) if problem else None)
        return tuple(
            replace(told, text=f"{self._chain.name}: {told.text}") for told in found if told
        )

    def _shortage(self, sender: str, answer: Any, wanted: int, one: int) -> Shortage | None:
        """Return how a key lacks money for so many wei of gas; None if it does not.

        It is empty if it lacks even the gas of `one` payment, in wei.
        """
        held, unit = held_of(self._chain, answer), unit_of(self._chain)
        if held >= wanted:
            return None
        coin, units = ("coin", "wei")
        if unit != 1:
            coin, units = f"of {name_of(self._chain)}", "minor units"
        return Shortage(
            f"{sender} has too little {coin} to pay for gas: {held // unit} {units},"
            f" {self._chain.gas_reserve} payments may cost {cost_of(self._chain, wanted)}",
            is_empty=held < one,
        )

    async def broadcast(self, raw: bytes) -> None:
        """Hands a transaction to the chain; one that it already knows is fine."""
        self._finality.await_transaction()
        try:
            await self._node.rpc.call("eth_sendRawTransaction", "0x" + raw.hex())
        except RpcError as refusal:
            self._fees.drop()
            # nodes have many words for "I have it": only having it counts
            if not await self.knows(transaction_hash(raw)):
                raise RailUnavailable(f"{self._chain.name}: {refusal}") from refusal

    async def knows(self, tx_hash: str) -> bool:
        """True if the chain or its pool has the transaction now."""
        return record(await self._node.ask("eth_getTransactionByHash", tx_hash)) is not None

    async def _tried(self, items: Sequence[Accepted], sender: str) -> int | None:
        """The contract's answer to a settlement if sent now; None if all of it would revert."""
        forms = [self._item(one) for one in items]
        sent = submission(self._chain, forms, self._shares)
        (answer,) = await self._runs.ask([DryRun(sent.to, sent.data, sent.gas)], sender)
        return None if isinstance(answer, RpcError) and answer.is_revert else uint(answer)

    def _item(self, accepted: Accepted) -> Item:
        """A payment as it is submitted, for a payer that is what it was at the last look."""
        form = self._signed(accepted)
        return form.by_code(self._shares) if accepted.kind is PayerKind.CODE else form

    def _kind(self, accepted: Accepted) -> PayerKind:
        return self._signed(accepted).kind

    def _signed(self, accepted: Accepted) -> Item:
        option = accepted.option
        given = signature_bytes(option, accepted.confirmation.outputs)
        return item(self._chain, Terms.of(option), bare(option.payer), given, self._shares)


def _share(form: Item) -> Share:
    return Share(form.kind, form.gas)


def _by_permit2(item: Accepted) -> bool:
    return item.option.method == PERMIT2_METHOD
