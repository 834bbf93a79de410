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
    FINALIZED,
    AccountView,
    Blockhash,
    Node,
    account_views,
    accounts_call,
    blockhash_of,
    number,
)
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.types import NotReceivable

# a wallet that fetches again at once gets the same transaction, and a new one later on: the time
# to read and approve it begins anew. A tenth of what a blockhash lasts, 3 s at slots of 214 ms
_REUSED_SHARE = 10


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
        """Return a transaction that is good as long as its blockhash, or as the nonce `spare`.

        None if the newest one is as good as a new one, and opens what it must and may. `rent` is
        what any account must hold, in lamports.
        """
        terms = Terms.of(option)
        newest = IssuedMessage.of(issued[0]) if issued else None
        held = [spl.pubkey(newest.nonce)] if newest is not None and newest.nonce else []
        slot, height, latest, accounts = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getBlockHeight", ({"commitment": FINALIZED},)),
                ("getLatestBlockhash", ({"commitment": FINALIZED},)),
                accounts_call([*held, *receivers.places(terms)]),
            ]
        )
        views = account_views(accounts)
        found = receivers.judge(terms, views[len(held) :], rent, self._relayer, openable)
        if found.problem is not None:
            raise NotReceivable(f"{self._chain.name}: {found.problem}")
        recent = blockhash_of(latest)
        blockhash = recent.hash
        if newest is not None and _is_good(newest, views[:1], recent, number(height)):
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


def _is_good(
    newest: IssuedMessage, nonce: Sequence[AccountView | None], recent: Blockhash, height: int
) -> bool:
    """Return True if what was issued last serves a wallet as well as the `recent` blockhash."""
    if newest.last_valid is not None:
        lasts = max(0, recent.last_valid - height)
        return recent.last_valid - newest.last_valid <= lasts // _REUSED_SHARE
    held = None if nonce[0] is None else spl.nonce_of(nonce[0].data)
    return held is not None and held.value == newest.message.recent_blockhash
