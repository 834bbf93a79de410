"""Offers for buyers on a Solana cluster."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from solders.pubkey import Pubkey

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import (
    FreeNonce,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.rails.connection.coalesce import RequestCoalescer, SharedRequests
from florin_server.rails.option_offer import OptionOffer, OptionOutline
from florin_server.rails.solana.paying.issue import TransactionIssuer
from florin_server.rails.solana.paying.terms import build_option, build_terms, outline_option
from florin_server.rails.solana.reading import receivers
from florin_server.rails.solana.reading.node import AccountView, SolanaNode
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup import discovery
from florin_server.rails.types import Asset, PayableAsset, Split


class SolanaOffers:
    """Implement the OptionOffers protocol for the assets that `get_inspection` returns."""

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
        self._issuer = TransactionIssuer(node, chain, relayer)
        self._payable_requests: SharedRequests[list[PayableAsset]] = SharedRequests()
        self._receiver_reads: RequestCoalescer[Sequence[Pubkey], Sequence[AccountView | None]] = (
            RequestCoalescer(self._read_accounts)
        )

    async def close(self) -> None:
        """Wait for the running reads."""
        await self._receiver_reads.close()

    def clear_reads(self) -> None:
        """Drop reads in progress, as accounts may hold more by now."""
        self._payable_requests.clear()

    async def list_payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        manual_payers: Collection[str] = (),
    ) -> list[PayableAsset]:
        """Return which accounts can pay which price from their balance, in one batched read.

        Accounts in `manual_payers` cannot pay at all: every payment needs the relayer's signature.
        """
        payers = [payer for payer in payers if payer not in manual_payers]
        inspection = self._get_inspection()
        assets = [inspection.assets[price] for price in prices if price in inspection.assets]
        if not payers or not assets:
            return []
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets))
        able = discovery.list_payable
        return await self._payable_requests(
            key, lambda: able(self._node, payers, assets, prices, inspection)
        )

    async def check_receivable(
        self,
        asset: Asset,
        value: int,
        split: Split,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> str | None:
        """Return why the receivers of a split cannot take a value now; None if they can.

        Any amount of a token can be received, and a receiver without an account may get an account
        opened. The chain is therefore read only for other receivers, for all concurrent offers
        together.
        """
        inspection = self._get_inspection()
        terms = build_terms(self._chain, asset, inspection.programs[asset.address], value, split)
        if not terms.is_coin and set(receivers.list_missing_accounts(terms, ())).issubset(
            openable_accounts
        ):
            return None
        accounts = await self._receiver_reads(receivers.list_receiver_accounts(terms))
        return receivers.check_receivers(
            terms, accounts, inspection.rent, self._relayer, openable_accounts
        ).problem

    def outline_option(self, offer: OptionOffer) -> OptionOutline:
        """Return the id and the duration of the offer's option."""
        return outline_option(self._chain, offer)

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build an option; equal offers, except their `now_us`, give equal ids and actions."""
        program = self._get_inspection().programs[offer.asset.address]
        return build_option(self._chain, offer, program)

    async def resolve_build(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        now_us: int,
        free_nonce: FreeNonce | None = None,
        openable_accounts: Collection[AssetAccount] = (),
    ) -> ResolvedBuild | None:
        """Return a transaction to sign; None if the newest issue is valid for long enough."""
        rent = self._get_inspection().rent
        return await self._issuer.issue_build(
            option, resolved_builds, rent, now_us, free_nonce, openable_accounts
        )

    async def _read_accounts(
        self, questions: Sequence[Sequence[Pubkey]]
    ) -> list[Sequence[AccountView | None]]:
        keys = list(dict.fromkeys(key for keys in questions for key in keys))
        accounts = dict(zip(keys, await self._node.get_accounts(keys), strict=True))
        return [[accounts[key] for key in keys] for keys in questions]
