"""The transaction that a buyer signs, built when the wallet fetches it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import orjson
from solders.hash import Hash
from solders.pubkey import Pubkey

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.chains.solana import spl
from florin_server.domain.payments.payment import (
    Action,
    FreeNonce,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.rails.solana.paying.check import IssuedMessage
from florin_server.rails.solana.paying.message import (
    compile_message,
    encode_unsigned,
    serialize_message,
)
from florin_server.rails.solana.paying.terms import METHOD, SolanaOptionTerms, to_address
from florin_server.rails.solana.reading import receivers
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    AccountView,
    RecentBlockhash,
    SolanaNode,
    build_accounts_call,
    parse_account_views,
    parse_blockhash,
    parse_number,
)
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.types import ReceiverUnavailable

# A wallet that fetches again at once gets the same transaction; later it gets a new transaction,
# and so the full time to read and approve it. A tenth of a blockhash's lifetime is 3 s at slots of
# 214 ms.
_REUSED_SHARE = 10


class TransactionIssuer:
    """Issue transactions whose fee one relayer pays."""

    def __init__(self, node: SolanaNode, chain: SolanaChainSettings, relayer: Pubkey) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer

    async def issue_build(  # noqa: PLR0917  (each of another type)
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        rent: int,
        now_us: int,
        free_nonce: FreeNonce | None = None,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """Return a transaction, valid as long as its blockhash or the nonce `free_nonce`.

        None if the newest issue is as good as a new transaction, and opens what it must and can.
        `rent` is the least that any account must hold, in lamports.
        """
        terms = SolanaOptionTerms.from_option(option)
        newest = IssuedMessage.from_resolved_build(resolved_builds[0]) if resolved_builds else None
        held = [spl.parse_pubkey(newest.nonce)] if newest is not None and newest.nonce else []
        slot, height, latest, accounts = await self._node.batch(
            [
                ("getSlot", ({"commitment": FINALIZED},)),
                ("getBlockHeight", ({"commitment": FINALIZED},)),
                ("getLatestBlockhash", ({"commitment": FINALIZED},)),
                build_accounts_call([*held, *receivers.list_receiver_accounts(terms)]),
            ]
        )
        views = parse_account_views(accounts)
        receiver_check = receivers.check_receivers(
            terms, views[len(held) :], rent, self._relayer, openable_accounts
        )
        if receiver_check.problem is not None:
            raise ReceiverUnavailable(f"{self._chain.name}: {receiver_check.problem}")
        recent = parse_blockhash(latest)
        blockhash = recent.hash
        if newest is not None and _is_good(newest, views[:1], recent, parse_number(height)):
            opens = set(receivers.list_opened_accounts(self._chain.caip2, newest.message))
            if opens.issuperset(
                receivers.list_missing_accounts(terms, receiver_check.ready_owners)
            ) and opens <= {*openable_accounts}:
                return None
        steps = terms.build_instructions(
            self._chain, self._relayer, to_address(option.payer), receiver_check.ready_owners
        )
        good: dict[str, object] = {"last_valid": recent.last_valid_height}
        if free_nonce is not None:
            steps.insert(0, spl.advance_nonce(spl.parse_pubkey(free_nonce.address), self._relayer))
            blockhash = Hash.from_string(free_nonce.value)
            good = {"nonce": free_nonce.address, "slot": free_nonce.slot}
        message = compile_message(self._relayer, steps, blockhash)
        params = orjson.dumps([{"transaction": encode_unsigned(message)}]).decode()
        return ResolvedBuild(
            payment_id=option.payment_id,
            option_id=option.id,
            n=len(resolved_builds),
            actions=(Action(self._chain.caip2, METHOD, params),),
            terms={"message": serialize_message(message), **good},
            head=parse_number(slot),
            issued_at_us=now_us,
        )


def _is_good(
    newest: IssuedMessage, nonce: Sequence[AccountView | None], recent: RecentBlockhash, height: int
) -> bool:
    """Return True if the last issue serves a wallet as well as the `recent` blockhash."""
    if newest.last_valid is not None:
        lasts = max(0, recent.last_valid_height - height)
        return recent.last_valid_height - newest.last_valid <= lasts // _REUSED_SHARE
    held = None if nonce[0] is None else spl.parse_nonce(nonce[0].data)
    return held is not None and held.value == newest.message.recent_blockhash
