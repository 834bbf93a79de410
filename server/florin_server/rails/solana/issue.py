"""Making the transaction that a buyer signs, when the wallet fetches it."""

from __future__ import annotations

from collections.abc import Sequence

import orjson
from solders.pubkey import Pubkey

from florin_server.domain.payment import Action, Issued, Option
from florin_server.rails.base import NotReceivable
from florin_server.rails.solana import receivers
from florin_server.rails.solana.message import compile_message, stored, unsigned
from florin_server.rails.solana.node import (
    CONFIRMED,
    FINALIZED,
    Node,
    account_views,
    accounts_call,
    blockhash_of,
    number,
)
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.terms import METHOD, Terms, bare

BLOCKHASH_BLOCKS = 150
# a wallet that fetches again gets the same transaction while half of its time is left
_GOOD_BLOCKS = BLOCKHASH_BLOCKS // 2


class Issuer:
    """Issues transactions whose fee one relayer pays."""

    def __init__(self, node: Node, chain: SolanaChain, relayer: Pubkey) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer

    async def issue(
        self, option: Option, issued: Sequence[Issued], rent: int, now_us: int
    ) -> Issued | None:
        """A transaction with a fresh blockhash; None if the newest one is good for long enough.

        `rent` is what any account must hold, in lamports.
        """
        terms = Terms.of(option)
        slot, latest, accounts = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getLatestBlockhash", ({"commitment": CONFIRMED},)),
                accounts_call(receivers.places(terms)),
            ]
        )
        found = receivers.judge(terms, account_views(accounts), rent, self._relayer)
        if found.problem is not None:
            raise NotReceivable(f"{self._chain.name}: {found.problem}")
        blockhash, last_valid = blockhash_of(latest)
        height = last_valid - BLOCKHASH_BLOCKS
        if issued and int(str(issued[0].terms["last_valid"])) - height >= _GOOD_BLOCKS:
            return None
        steps = terms.instructions(self._chain, self._relayer, bare(option.payer), found.ready)
        message = compile_message(self._relayer, steps, blockhash)
        params = orjson.dumps([{"transaction": unsigned(message)}]).decode()
        return Issued(
            payment_id=option.payment_id,
            option_id=option.id,
            n=len(issued),
            actions=(Action(self._chain.caip2, METHOD, params),),
            terms={"message": stored(message), "last_valid": last_valid},
            head=number(slot),
            issued_at_us=now_us,
        )
