"""Making the transaction that a buyer signs, when the wallet fetches it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import orjson
from solders.hash import Hash
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import Action, FreeNonce, Option, ResolvedBuild
from florin_server.rails.solana.paying.check import IssuedMessage
from florin_server.rails.solana.paying.message import compile_message, stored, unsigned
from florin_server.rails.solana.paying.terms import METHOD, Terms, bare
from florin_server.rails.solana.reading import receivers
from florin_server.rails.solana.reading.node import (
    CONFIRMED,
    FINALIZED,
    AccountView,
    Node,
    account_views,
    accounts_call,
    blockhash_of,
    number,
)
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import NotReceivable

BLOCKHASH_BLOCKS = 150
# a wallet that fetches again gets the same transaction while half of its time is left
_GOOD_BLOCKS = BLOCKHASH_BLOCKS // 2


class Issuer:
    """Issues transactions whose fee one relayer pays."""

    def __init__(self, node: Node, chain: SolanaChain, relayer: Pubkey) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer

    async def issue(  # noqa: PLR0917  (one of each, none alike)
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        rent: int,
        now_us: int,
        spare: FreeNonce | None = None,
        openable: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """A transaction that is good for a minute, or with `spare` until its nonce is advanced.

        None if the newest one is good for long enough, and opens what it must and may. `rent` is
        what any account must hold, in lamports.
        """
        terms = Terms.of(option)
        newest = IssuedMessage.of(issued[0]) if issued else None
        held = [spl.pubkey(newest.nonce)] if newest is not None and newest.nonce else []
        slot, latest, accounts = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getLatestBlockhash", ({"commitment": CONFIRMED},)),
                accounts_call([*held, *receivers.places(terms)]),
            ]
        )
        views = account_views(accounts)
        found = receivers.judge(terms, views[len(held) :], rent, self._relayer, openable)
        if found.problem is not None:
            raise NotReceivable(f"{self._chain.name}: {found.problem}")
        recent = blockhash_of(latest)
        blockhash, height = recent.hash, recent.last_valid - BLOCKHASH_BLOCKS
        if newest is not None and _is_good(newest, views[:1], height):
            opens = set(receivers.opened_by(self._chain.caip2, newest.message))
            if opens.issuperset(receivers.wanting(terms, found.ready)) and opens <= {*openable}:
                return None
        steps = terms.instructions(self._chain, self._relayer, bare(option.payer), found.ready)
        good: dict[str, object] = {"last_valid": recent.last_valid}
        if spare is not None:
            steps.insert(0, spl.advance_nonce(spl.pubkey(spare.address), self._relayer))
            blockhash = Hash.from_string(spare.value)
            good = {"nonce": spare.address, "slot": spare.slot}
        message = compile_message(self._relayer, steps, blockhash)
        params = orjson.dumps([{"transaction": unsigned(message)}]).decode()
        return ResolvedBuild(
            payment_id=option.payment_id,
            option_id=option.id,
            n=len(issued),
            actions=(Action(self._chain.caip2, METHOD, params),),
            terms={"message": stored(message), **good},
            head=number(slot),
            issued_at_us=now_us,
        )


def _is_good(newest: IssuedMessage, nonce: Sequence[AccountView | None], height: int) -> bool:
    """True if a wallet may still sign what it was told last."""
    if newest.last_valid is not None:
        return newest.last_valid - height >= _GOOD_BLOCKS
    held = None if nonce[0] is None else spl.nonce_of(nonce[0].data)
    return held is not None and held.value == newest.message.recent_blockhash
