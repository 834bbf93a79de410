"""Token accounts that are opened before anybody pays into them: those of the treasury.

A merchant's is opened by its first payment, so that nobody has any opened for nothing. The owner of
an account may close it and keep the rent: callers see to it that none is opened twice, and not too
many a day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.pubkey import Pubkey

from florin_server.chains.solana import spl
from florin_server.domain.accounts.destinations import AssetAccount, DailyCaps
from florin_server.rails.solana.paying.check import submission
from florin_server.rails.solana.paying.message import compile_message, lapse_note
from florin_server.rails.solana.paying.terms import bare
from florin_server.rails.solana.paying.verify import RELAYER_LAMPORTS_MIN
from florin_server.rails.solana.reading.node import Node, fresh_blockhash, require_coin
from florin_server.rails.solana.reading.receivers import not_a_wallet, opened_by
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChain
from florin_server.rails.solana.setup.discovery import Inspection
from florin_server.rails.types import RailUnavailable, Signed

# what fits into one transaction, with some room: each names an owner and an account of 32 bytes
_PLACES_MAX = 6
_LAMPORTS_EACH = 2_100_000  # rent, also of the longer accounts of Token-2022
_UNITS_EACH = 50_000  # twice what opening takes with the longest search for the address


class SolanaTokenAccounts:
    """Implements the TokenAccounts protocol for one cluster; the relayer pays.

    `found` tells what is taken now.
    """

    def __init__(
        self,
        node: Node,
        chain: SolanaChain,
        relayer: SolanaSigner,
        found: Callable[[], Inspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._found = found

    @property
    def caps(self) -> DailyCaps:
        """How many accounts may be opened in a day."""
        chain = self._chain
        return DailyCaps(
            chain.accounts_a_day, chain.accounts_a_partner_day, chain.accounts_a_merchant_day
        )

    @property
    def at_once(self) -> int:
        """How many one transaction opens at most."""
        return _PLACES_MAX

    def needed(self, place: AssetAccount) -> bool:
        """True if the asset is a token that is taken now."""
        return self._mint(place) is not None

    def opened_by(self, outputs: Sequence[str]) -> Sequence[AssetAccount]:
        """The accounts that a buyer's transaction opens unless they are there."""
        return opened_by(self._chain.caip2, submission(outputs).message)

    async def missing(self, places: Sequence[AssetAccount]) -> list[AssetAccount]:
        """Those whose account is not there, and may be; one batched read."""
        known = [(place, mint) for place in places if (mint := self._mint(place)) is not None]
        owners = [spl.pubkey(bare(place.account)) for place, _ in known]
        held_at = [
            spl.associated(owner, *mint) for owner, (_, mint) in zip(owners, known, strict=True)
        ]
        accounts = await self._node.accounts([*owners, *held_at])
        found = zip(known, accounts[: len(owners)], accounts[len(owners) :], strict=True)
        return [
            place
            for (place, _), owner, held in found
            if held is None and not_a_wallet(place.account, owner) is None
        ]

    async def sign(self, places: Sequence[AssetAccount]) -> Signed:
        """Signs the one transaction that opens the accounts; those that exist stay as they are."""
        relayer = self._relayer.pubkey
        # what payments need comes first
        await require_coin(self._node, relayer, RELAYER_LAMPORTS_MIN + _LAMPORTS_EACH * len(places))
        recent = await fresh_blockhash(self._node)
        openings = [
            spl.create_associated(relayer, spl.pubkey(bare(place.account)), *mint)
            for place in places
            if (mint := self._mint(place)) is not None
        ]
        if not openings:
            raise RailUnavailable(f"{self._chain.name}: the tokens are not taken now")
        steps = [
            set_compute_unit_limit(_UNITS_EACH * len(openings)),
            set_compute_unit_price(self._chain.compute_price),
            *openings,
            lapse_note(recent.last_valid),
        ]
        return self._relayer.seal(compile_message(relayer, steps, recent.hash), recent)

    def _mint(self, place: AssetAccount) -> tuple[Pubkey, Pubkey] | None:
        """Mint and program of an asset; None if it is no token that is taken now."""
        found = self._found()
        asset = found.assets.get(place.asset)
        if asset is None or asset.address == str(spl.SYSTEM):
            return None
        return spl.pubkey(asset.address), spl.pubkey(found.programs[asset.address])
