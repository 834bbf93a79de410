"""What buyers on an EVM chain can be offered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from florin_server.domain.accounts.destinations import AssetAccount
from florin_server.domain.payments.payment import FreeNonce, Option, Payment, ResolvedBuild
from florin_server.pricing.prices import Quote
from florin_server.rails.connection.coalesce import Shared
from florin_server.rails.evm.paying import direct
from florin_server.rails.evm.paying.mismatches import Mismatches
from florin_server.rails.evm.paying.payable import means as means_of
from florin_server.rails.evm.paying.terms import bare, build_option
from florin_server.rails.evm.reading.guards import NO_GUARD
from florin_server.rails.evm.reading.reader import Reader
from florin_server.rails.evm.reading.refusals import Refusals
from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.evm.setup.discovery import Inspection
from florin_server.rails.offered import Offered
from florin_server.rails.types import Asset, Head, Payable, Split


class EvmOffers:
    """Implements the Offers protocol.

    `found` tells what is taken now, `head` the newest block.
    """

    def __init__(  # noqa: PLR0917  (one of each, none alike)
        self,
        chain: EvmChain,
        reader: Reader,
        refusals: Refusals,
        found: Callable[[], Inspection],
        head: Callable[[], Awaitable[Head]],
        mismatches: Mismatches,
    ) -> None:
        self._chain = chain
        self._reader = reader
        self._refusals = refusals
        self._found = found
        self._head = head
        self._mismatches = mismatches
        self._payable: Shared[list[Payable]] = Shared()

    def forget(self) -> None:
        """Accounts may hold more than what is being read."""
        self._payable.forget()

    async def payable(
        self,
        payers: Sequence[str],
        prices: Mapping[str, int],
        by_hand: Collection[str] = (),
    ) -> list[Payable]:
        """Who can pay what price: their balance covers it; one batched read."""
        found = self._found()
        assets = [found.assets[one] for one in prices if one in found.assets]
        if not payers or not assets:
            return []
        slow = frozenset(by_hand)
        refused = self._mismatches.select([bare(payer) for payer in payers])
        unsure = frozenset(payer for payer in payers if bare(payer) in refused)
        key = (*payers, *((asset.id, prices[asset.id]) for asset in assets), slow, unsure)
        return await self._payable(
            key,
            lambda: means_of(
                self._reader,
                self._chain,
                payers,
                assets,
                prices,
                by_hand=slow,
                unsure=unsure,
                guards=found.guards,
                passkeys=found.passkeys,
            ),
        )

    async def obstacle(
        self,
        asset: Asset,
        value: int,  # noqa: ARG002
        split: Split,
        openable: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> str | None:
        """Whom the token refuses of the receivers, if it tells that; None if it does not.

        What else a destination's code refuses is seen when a payment is tried out.
        """
        guard = self._found().guards.get(asset.id, NO_GUARD)
        refusal = await self._refusals.receivers(asset, guard, split)
        return str(refusal) if refusal else None

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
        return build_option(self._chain, offered, means)

    async def build(
        self,
        option: Option,
        issued: Sequence[ResolvedBuild],
        now_us: int,
        spare: FreeNonce | None = None,  # noqa: ARG002
        openable: Collection[AssetAccount] = (),  # noqa: ARG002
    ) -> ResolvedBuild | None:
        """Resolves the option's build, once and for all; None if it was."""
        if issued:
            return None
        return direct.issue(option, (await self._head()).number, now_us)
