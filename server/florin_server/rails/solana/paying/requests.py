"""Transactions of Solana Pay: wallets fetch them by a link, sign them and send them.

The message has the oldest version, which every wallet reads. Wallets replace its blockhash and its
fee payer, and add instructions, so nothing of it is compared with what the chain shows later. A key
without an owner is among its accounts: nodes list the transactions that name it.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence

from solders.instruction import AccountMeta, Instruction
from solders.message import Message
from solders.pubkey import Pubkey
from solders.transaction import Transaction

from florin_server.domain.chains.solana import spl
from florin_server.domain.chains.solana.limits import PACKET_BYTES
from florin_server.domain.payments.payment import Payment, PaymentOption
from florin_server.rails.solana.paying.terms import DIRECT_METHOD, SolanaOptionTerms, to_address
from florin_server.rails.solana.reading import receivers, referenced
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    build_accounts_call,
    parse_account_views,
    parse_blockhash,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup import discovery
from florin_server.rails.types import (
    AddressMention,
    MentionQuery,
    ReceiverUnavailable,
    RequestedEvents,
)


class SolanaTransactionRequests:
    """Implement the TransactionRequests protocol on one cluster."""

    method = DIRECT_METHOD
    page_size = referenced.PAGE_SIZE

    def __init__(
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        relayer: Pubkey,
        get_inspection: Callable[[], discovery.SolanaInspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._get_inspection = get_inspection

    def get_address(self, payment: Payment) -> str:
        """Return a key without an owner, derived from the payment's secret salt and its id."""
        return referenced.derive_address(payment)

    async def build_transaction(self, payment: Payment, option: PaymentOption) -> str:
        """Return the transaction as base64; the payer pays its fee, and it opens no account."""
        terms = SolanaOptionTerms.from_option(option)
        latest, accounts = await self._node.batch(
            [
                ("getLatestBlockhash", ({"commitment": FINALIZED},)),
                build_accounts_call(receivers.list_receiver_accounts(terms)),
            ]
        )
        rent = self._get_inspection().rent
        problem = receivers.check_receivers(
            terms, parse_account_views(accounts), rent, self._relayer, ()
        ).problem
        if problem is not None:
            raise ReceiverUnavailable(f"{self._chain.name}: {problem}")
        payer = to_address(option.payer)
        transfers = terms.build_transfers(payer)
        transfers[-1] = _add_account(transfers[-1], spl.parse_pubkey(self.get_address(payment)))
        message = Message.new_with_blockhash(
            [spl.create_memo(terms.ref), *transfers],
            spl.parse_pubkey(payer),
            parse_blockhash(latest).hash,
        )
        raw = bytes(Transaction.new_unsigned(message))
        if len(raw) > PACKET_BYTES:
            raise ValueError(f"a transaction of {len(raw)} bytes is longer than {PACKET_BYTES}")
        return base64.b64encode(raw).decode()

    async def list_mentions(
        self, queries: Sequence[MentionQuery]
    ) -> list[list[AddressMention] | None]:
        """Return pages of final transactions, the newest first; one batched read."""
        return await referenced.list_mentions(self._node, queries)

    async def find_events(self, candidates: Sequence[tuple[str, PaymentOption]]) -> RequestedEvents:
        """Return the settlement events of transactions that pay exactly their option."""
        return await referenced.find_events(self._node, self._chain, candidates)


def _add_account(instruction: Instruction, key: Pubkey) -> Instruction:
    """Return an instruction that also names a key, which its program ignores."""
    account = AccountMeta(key, is_signer=False, is_writable=False)
    return Instruction(
        instruction.program_id, bytes(instruction.data), [*instruction.accounts, account]
    )
