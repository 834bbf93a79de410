"""Accepted payments, combined into one transaction and sent to the chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from florin_server.domain.chains.evm.route import ForwardRoute
from florin_server.domain.settlement.chain_txs import (
    ChainTx,
    GasShare,
    PayerKind,
    SettlementItem,
)
from florin_server.rails.connection.jsonrpc import RpcError
from florin_server.rails.evm.gas_money import (
    build_balance_call,
    build_fee_token_call,
    find_fee_token_problem,
    get_gas_money_name,
    get_unit_wei,
    parse_balance,
    to_native_units,
)
from florin_server.rails.evm.paying.outputs import parse_signature
from florin_server.rails.evm.paying.terms import EvmOptionTerms, to_address
from florin_server.rails.evm.reading.dry_run import DryRun, DryRunner
from florin_server.rails.evm.reading.evidence import is_nonce_used
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.reading.node import (
    LATEST,
    EvmNode,
    parse_header,
    parse_object,
    parse_quantity,
    parse_uint,
)
from florin_server.rails.evm.reading.reader import EvmReader
from florin_server.rails.evm.reading.refusals import TokenRefusals
from florin_server.rails.evm.sending.fees import (
    GAS_BASE,
    KEY_GAS,
    compute_payment_share,
    raise_fees,
    read_base_fee,
    read_current_fees,
)
from florin_server.rails.evm.sending.gas_learner import GasLearner
from florin_server.rails.evm.sending.past_transactions import find_transfer
from florin_server.rails.evm.sending.payouts import EvmPayouts
from florin_server.rails.evm.sending.submission import (
    SubmissionItem,
    build_forward_item,
    build_item,
    build_settlement_call,
    count_items_that_fit,
    sort_items,
    split_items,
)
from florin_server.rails.evm.sending.transactions import (
    EvmSigner,
    compute_transaction_hash,
    parse_fees,
)
from florin_server.rails.evm.sending.trial import check_code
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.types import (
    GasShortage,
    RailUnavailable,
    SignedTransaction,
    TreasuryTransaction,
)

BATCH_MAX = 50  # our own limit; a transaction of this many payments is below every gas limit
_SIZE = 512  # bytes of a typical payment


class EvmRelay:
    """Implement the SettlementRelay, GasPlanner and AccountNonces protocols.

    The caller keeps the nonces.

    The first signer is the sender of dry runs. The treasury's payouts are not submitted here, but
    its nonces are read here.
    """

    def __init__(
        self,
        node: EvmNode,
        chain: EvmChainSettings,
        signers: Sequence[EvmSigner],
        runs: DryRunner,
        reader: EvmReader,
        *,
        refusals: TokenRefusals,
        treasury: EvmPayouts | None,
        finality: FinalityTracker,
        learner: GasLearner,
    ) -> None:
        self._learner = learner
        self._shares = learner.shares
        self._finality = finality
        self._refusals = refusals
        self._treasury = treasury
        self._first_sender = signers[0].address
        self._fees = runs.fees
        self._runs = runs
        self._reader = reader
        self._node = node
        self._chain = chain
        self._signers = {signer.address: signer for signer in signers}

    async def refresh_payers(self, items: Sequence[SettlementItem]) -> list[SettlementItem]:
        """Return the items with the current kinds of their payers, in one batched read."""
        payers = list(dict.fromkeys(to_address(item.option.payer) for item in items))
        has_code_by_payer = dict(
            zip(payers, await check_code(self._node, self._reader, payers), strict=True)
        )
        if None in has_code_by_payer.values():
            raise RailUnavailable(f"{self._chain.name}: the node does not return the payers' code")
        return [
            replace(
                item,
                payer_kind=PayerKind.CODE
                if has_code_by_payer[to_address(item.option.payer)]
                else self._get_payer_kind(item),
            )
            for item in items
        ]

    async def simulate(
        self, items: Sequence[SettlementItem], sender: str | None = None
    ) -> list[bool]:
        """Return for each item whether it would settle if submitted now, with as many as fit.

        Failed items are tried again if payments get more gas by then.
        """
        settled = await self._simulate_parts(items, sender)
        failed = [self._to_item(item) for item, ok in zip(items, settled, strict=True) if not ok]
        if failed and await self._learner.learn_gas(failed):
            settled = await self._simulate_parts(items, sender)
        await self._refusals.explain_items(
            [item for item, ok in zip(items, settled, strict=True) if not ok]
        )
        return settled

    async def _simulate_parts(
        self, items: Sequence[SettlementItem], sender: str | None
    ) -> list[bool]:
        settled: list[bool] = []
        for part in self._split_items(items, len(items)):
            settled += await self._simulate(part, sender or self._first_sender)
        return settled

    async def _simulate(self, items: Sequence[SettlementItem], sender: str) -> list[bool]:
        mask = await self._try_settlement(items, sender)
        if mask is not None:
            # bits follow the calldata
            submission_items = [self._to_item(item) for item in items]
            bits = {item: bit for bit, item in enumerate(sort_items(submission_items))}
            return [bool(mask >> bits[item] & 1) for item in submission_items]
        # the node may not run as much at once, so a part of it is tried
        if len(items) == 1:
            return [False]
        first, second = items[: len(items) // 2], items[len(items) // 2 :]
        settled = await self._simulate(first, sender)
        if any(settled):
            return settled + [False] * len(second)
        return settled + await self._simulate(second, sender)

    def split_into_batches(self, items: Sequence[SettlementItem]) -> list[Sequence[SettlementItem]]:
        """Split items, in their current state, into the batches of one transaction each."""
        return self._split_items(items, BATCH_MAX)

    def _split_items(
        self, items: Sequence[SettlementItem], items_max: int
    ) -> list[Sequence[SettlementItem]]:
        """Split items into batches of at most `items_max` items."""
        if not items:
            return []
        alike = len({item.option.terms["settler"] for item in items}) == 1
        if alike and len(items) <= min(items_max, count_items_that_fit(self._chain, self._shares)):
            return [items]
        parts, first = [], 0
        for count in split_items(self._chain, [self._to_item(item) for item in items], items_max):
            parts.append(items[first : first + count])
            first += count
        return parts

    async def get_next_nonce(self, sender: str) -> int:
        """Return a sender's next nonce on the chain, pending transactions included."""
        return parse_quantity(await self._node.call("eth_getTransactionCount", sender, "pending"))

    async def find_transfer(self, sender: str, nonce: int) -> TreasuryTransaction | None:
        """Return a sender's transaction in a block with a nonce; None if it cannot be found."""
        return await find_transfer(self._node, self._chain, sender, nonce)

    async def sign(
        self, sender: str, nonce: int, items: Sequence[SettlementItem]
    ) -> SignedTransaction:
        """Sign, with a sender's key, the single transaction that settles the items."""
        submission_items = [self._to_item(item) for item in items]
        call = build_settlement_call(self._chain, submission_items, self._shares)
        signed = self._signers[sender].sign_call(
            chain_id=self._chain.chain_id,
            nonce=nonce,
            fees=await self._fees.get_current(),
            gas=call.gas,
            to=call.to,
            data=call.data,
        )
        return replace(signed, shares=tuple(map(_compute_gas_share, submission_items)))

    async def sign_noop(self, sender: str, nonce: int) -> SignedTransaction:
        """Sign, with a sender's or the treasury's key, a transaction that only uses a nonce."""
        if self._treasury is not None and sender == self._treasury.sender:
            return await self._treasury.sign_noop(nonce)
        return await self.sign(sender, nonce, ())

    async def is_nonce_used(self, sender: str, nonce: int) -> bool:
        """Return True if a transaction with a sender's nonce is final."""
        return await is_nonce_used(self._node, self._finality, sender, nonce)

    def get_gas_share(self, item: SettlementItem) -> GasShare:
        """Return the most gas of a transaction that an item can use in its current state."""
        return _compute_gas_share(self._to_item(item))

    async def is_short_of_gas(self, item: SettlementItem, gas_share: GasShare) -> bool:
        """Return whether an item failed with a share smaller than what it needs now."""
        as_sent = replace(item, payer_kind=gas_share.kind)
        await self._learner.learn_gas([self._to_item(as_sent)])
        return gas_share.gas < self.get_gas_share(as_sent).gas

    def record_new_block(self) -> None:
        """Mark fees and gas prices as outdated."""
        self._fees.expire()
        self._learner.record_new_block()

    async def bump_fee(self, tx: ChainTx) -> SignedTransaction:
        """Sign the newest variant again with a higher fee; RailUnavailable above the limits."""
        if self._treasury is not None and tx.sender == self._treasury.sender:
            return await self._treasury.bump_fee(tx)
        raw = tx.variants[-1].raw
        fees = await read_current_fees(self._node, self._chain)
        return self._signers[tx.sender].sign_with_fees(
            raw, raise_fees(parse_fees(raw), fees, self._chain)
        )

    async def list_shortages(self) -> tuple[GasShortage, ...]:
        """Return which keys hold less than the next settlements may cost; one batched read."""
        senders = list(self._signers)
        charged = senders if self._chain.fee_token else []
        newest, *answers = await self._node.batch(
            [
                ("eth_getBlockByNumber", (LATEST, False)),
                *(build_balance_call(self._chain, sender) for sender in senders),
                *map(build_fee_token_call, charged),
            ]
        )
        block = parse_header(newest)
        if block is None:
            raise RailUnavailable(f"{self._chain.name}: the node has no newest block")
        count = self._chain.gas_reserve
        share = compute_payment_share(KEY_GAS + self._shares.surplus_max, _SIZE)
        price = min(2 * await read_base_fee(block, self._node), self._chain.fee_max)
        required_wei = max(price * (GAS_BASE + share * count), 1)
        payment_wei = max(price * (GAS_BASE + share), 1)
        held, choices = answers[: len(senders)], answers[len(senders) :]
        shortages = [
            self._find_shortage(*each, required_wei, payment_wei)
            for each in zip(senders, held, strict=True)
        ]
        for each in zip(charged, choices, strict=True):
            problem = find_fee_token_problem(self._chain, *each)
            shortages.append(GasShortage(problem, is_empty=False) if problem else None)
        return tuple(
            replace(shortage, text=f"{self._chain.name}: {shortage.text}")
            for shortage in shortages
            if shortage
        )

    def _find_shortage(
        self, sender: str, answer: Any, required_wei: int, payment_wei: int
    ) -> GasShortage | None:
        """Return a key's shortage for an amount of gas in wei; None if it has enough.

        The key is empty if it lacks even the gas of `payment_wei` payment, in wei.
        """
        held, unit = parse_balance(self._chain, answer), get_unit_wei(self._chain)
        if held >= required_wei:
            return None
        coin, units = ("coin", "wei")
        if unit != 1:
            coin, units = f"of {get_gas_money_name(self._chain)}", "minor units"
        return GasShortage(
            f"{sender} has too little {coin} to pay for gas: {held // unit} {units},"
            f" {self._chain.gas_reserve} payments may cost "
            f"{to_native_units(self._chain, required_wei)}",
            is_empty=held < payment_wei,
        )

    async def broadcast(self, raw: bytes) -> None:
        """Send a transaction to the chain; succeed if the chain already has it."""
        self._finality.await_transaction()
        try:
            await self._node.rpc.call("eth_sendRawTransaction", "0x" + raw.hex())
        except RpcError as refusal:
            self._fees.drop()
            # nodes report a known transaction in many ways, so it is looked up
            if not await self.has_transaction(compute_transaction_hash(raw)):
                raise RailUnavailable(f"{self._chain.name}: {refusal}") from refusal

    async def has_transaction(self, tx_hash: str) -> bool:
        """Return True if the chain or its pool has the transaction now."""
        return parse_object(await self._node.call("eth_getTransactionByHash", tx_hash)) is not None

    async def _try_settlement(self, items: Sequence[SettlementItem], sender: str) -> int | None:
        """Return the contract's answer to a settlement sent now; None if all of it would revert."""
        submission_items = [self._to_item(item) for item in items]
        sent = build_settlement_call(self._chain, submission_items, self._shares)
        (answer,) = await self._runs.run([DryRun(sent.to, sent.data, sent.gas)], sender)
        return None if isinstance(answer, RpcError) and answer.is_revert else parse_uint(answer)

    def _to_item(self, item: SettlementItem) -> SubmissionItem:
        """Return a payment in the form to submit, for its payer's kind at the last read."""
        submission_item = self._build_item(item)
        return (
            submission_item.to_contract_item(self._shares)
            if item.payer_kind is PayerKind.CODE
            else submission_item
        )

    def _get_payer_kind(self, item: SettlementItem) -> PayerKind:
        return self._build_item(item).kind

    def _build_item(self, item: SettlementItem) -> SubmissionItem:
        option = item.option
        terms = EvmOptionTerms.from_option(option)
        if isinstance(terms.route, ForwardRoute):
            if terms.route.forwarder not in self._chain.settlers:
                # its event would be missed, and the money could be forwarded unnoticed
                raise ValueError(f"{terms.route.forwarder} is not the chain's forwarder")
            return build_forward_item(terms.route, to_address(option.payer), self._shares)
        signature = parse_signature(option, item.confirmation.outputs)
        return build_item(
            self._chain,
            terms,
            to_address(option.payer),
            signature,
            self._shares,
        )


def _compute_gas_share(submission_item: SubmissionItem) -> GasShare:
    return GasShare(submission_item.kind, submission_item.gas)
