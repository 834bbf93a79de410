"""What buyers on a Solana cluster can be offered."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from solders.pubkey import Pubkey

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import FreeNonce, Option, Payment, ResolvedBuild
from florin_server.pricing.prices import Quote
from florin_server.rails.connection.coalesce import Coalescer, Shared
from florin_server.rails.offered import Offered
from florin_server.rails.solana.paying.issue import Issuer
from florin_server.rails.solana.paying.terms import build_option, terms_of
from florin_server.rails.solana.reading import receivers
from florin_server.rails.solana.reading.node import AccountView, Node
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.setup import discovery
from florin_server.rails.types import Asset, Payable, Split


class SolanaOffers:
    """Implements the Offers protocol. `found` tells what is taken now."""

    def __init__(
        self,
        node: Node,
        chain: SolanaChain,
        relayer: Pubkey,
        found: Callable[[], discovery.Inspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._found = found
        self._issuer = Issuer(node, chain, relayer)
        self._payable: Shared[list[Payable]] = Shared()
        self._receivers: Coalescer[Sequence[Pubkey], Sequence[AccountView | None]] = Coalescer(
            self._look_at
        )

    async def close(self) -> None:
        """Waits for the reads under way."""
        await self._receivers.close()

    def forget(self) -> None:
        """Accounts may hold more than what is being read."""
        self._payable.forget()

    async def payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        by_hand: Collection[str] = (),
    ) -> list[Payable]:
        """Who can pay what price: their balance covers it; one batched read.

        Those `by_hand` cannot pay at all: every payment needs the relayer's signature.
        """
        payers = [payer for payer in payers if payer not in by_hand]
        found = self._found()
        assets = [found.assets[one] for one in prices if one in found.assets]
        if not payers or not assets:
            return []
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets))
        able = discovery.able
        return await self._payable(key, lambda: able(self._node, payers, assets, prices, found))

    async def obstacle(
        self, asset: Asset, value: int, split: Split, openable: Collection[AssetAccount] = ()
    ) -> str | None:
        """Why the receivers of a split cannot take a value now.

        Nothing can be too little of a token, and who has no account for it may have one opened:
        the chain is asked about others only, about all that are offered at a time together.
        """
        found = self._found()
        terms = terms_of(self._chain, asset, found.programs[asset.address], value, split)
        if not terms.is_coin and set(receivers.wanting(terms, ())).issubset(openable):
            return None
        accounts = await self._receivers(receivers.places(terms))
        return receivers.judge(terms, accounts, found.rent, self._relayer, openable).problem

    def offer(  # noqa: PLR0917  (one of each, none alike)
        self,
        payment: Payment,
        account: str,
        means: Payable,
        asset: Asset,
        value: int,
        split: Split,
        now_us: int,
        quote: Quote | None = None,
    ) -> Option:
        """Builds an option; equal arguments, but for `now_us`, give equal ids and actions."""
        offered = Offered(payment, account, means.payer, asset, value, split, now_us, quote)
        return build_option(self._chain, offered, self._found().programs[asset.address])

    async def build(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        now_us: int,
        spare: FreeNonce | None = None,
        openable: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """A transaction to sign; None if the newest one is good for long enough."""
        rent = self._found().rent
        return await self._issuer.issue(option, issued, rent, now_us, spare, openable)

    async def _look_at(
        self, questions: Sequence[Sequence[Pubkey]]
    ) -> list[Sequence[AccountView | None]]:
        keys = list(dict.fromkeys(key for keys in questions for key in keys))
        found = dict(zip(keys, await self._node.accounts(keys), strict=True))
        return [[found[key] for key in keys] for keys in questions]
