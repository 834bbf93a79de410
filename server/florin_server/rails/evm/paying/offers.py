"""Offers for buyers on an EVM chain."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import (
    FreeNonce,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.rails.connection.coalesce import SharedRequests
from florin_server.rails.evm.paying import direct
from florin_server.rails.evm.paying.mismatches import SignatureMismatches
from florin_server.rails.evm.paying.payable import list_payable as means_of
from florin_server.rails.evm.paying.terms import build_option, outline_option, to_address
from florin_server.rails.evm.reading.guards import NO_GUARD
from florin_server.rails.evm.reading.reader import EvmReader
from florin_server.rails.evm.reading.refusals import TokenRefusals
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.evm.setup.discovery import EvmInspection
from florin_server.rails.option_offer import OptionOffer, OptionOutline
from florin_server.rails.types import (
    Asset,
    ChainHead,
    PayableAsset,
    Split,
)


class EvmOffers:
    """Implement the OptionOffers protocol.

    `get_inspection` returns the assets that are accepted now, `get_head` the newest block.
    """

    def __init__(  # noqa: PLR0917  (each of another type)
        self,
        chain: EvmChainSettings,
        reader: EvmReader,
        refusals: TokenRefusals,
        get_inspection: Callable[[], EvmInspection],
        get_head: Callable[[], Awaitable[ChainHead]],
        mismatches: SignatureMismatches,
    ) -> None:
        self._chain = chain
        self._reader = reader
        self._refusals = refusals
        self._get_inspection = get_inspection
        self._get_head = get_head
        self._mismatches = mismatches
        self._payable_requests: SharedRequests[list[PayableAsset]] = SharedRequests()

    def clear_reads(self) -> None:
        """Drop reads in progress, as accounts may hold more by now."""
        self._payable_requests.clear()

    async def list_payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        manual_payers: Collection[str] = (),
    ) -> list[PayableAsset]:
        """Return which accounts can pay which price from their balance, in one batched read."""
        inspection = self._get_inspection()
        assets = [inspection.assets[price] for price in prices if price in inspection.assets]
        if not payers or not assets:
            return []
        slow = frozenset(manual_payers)
        refused = self._mismatches.select_recorded([to_address(payer) for payer in payers])
        unsure = frozenset(payer for payer in payers if to_address(payer) in refused)
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets), slow, unsure)
        return await self._payable_requests(
            key,
            lambda: means_of(
                self._reader,
                self._chain,
                payers,
                assets,
                prices,
                manual_payers=slow,
                uncertain_payers=unsure,
                guards=inspection.guards,
                has_passkeys=inspection.has_passkeys,
            ),
        )

    async def check_receivable(
        self,
        asset: Asset,
        value: int,  # noqa: ARG002
        split: Split,
        openable_accounts: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> str | None:
        """Return which receiver the token blocks, if the token reports that; None otherwise.

        A dry run of the payment finds the other refusals of a destination's code.
        """
        guard = self._get_inspection().guards.get(asset.id, NO_GUARD)
        refusal = await self._refusals.find_receiver_refusal(asset, guard, split)
        return str(refusal) if refusal else None

    def outline_option(self, offer: OptionOffer) -> OptionOutline:
        """Return the id and the duration of the offer's option."""
        return outline_option(self._chain, offer)

    def build_option(self, offer: OptionOffer) -> PaymentOption:
        """Build an option; equal offers, except their `now_us`, give equal ids and actions."""
        return build_option(self._chain, offer)

    async def resolve_build(
        self,
        option: PaymentOption,
        resolved_builds: Sequence[ResolvedBuild],
        now_us: int,
        free_nonce: FreeNonce | None = None,  # noqa: ARG002
        openable_accounts: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> ResolvedBuild | None:
        """Resolve the option's build once; return None if it is already resolved."""
        if resolved_builds:
            return None
        return direct.resolve_build(option, (await self._get_head()).number, now_us)
