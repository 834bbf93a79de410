"""Token accounts that are opened before any payment into them: the treasury's.

A merchant's account is opened by its first payment, so that no account is opened for nothing. An
account's owner can close it and keep the rent: callers make sure that none is opened twice, and not
too many a day.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.pubkey import Pubkey

from florin_server.domain.accounts.destinations import AssetAccount, DailyOpeningCaps
from florin_server.domain.chains.solana import spl
from florin_server.rails.solana.paying.check import parse_submission
from florin_server.rails.solana.paying.message import build_lapse_note, compile_message
from florin_server.rails.solana.paying.terms import to_address
from florin_server.rails.solana.paying.verify import RELAYER_LAMPORTS_MIN
from florin_server.rails.solana.reading.node import (
    FINALIZED,
    SolanaNode,
    get_blockhash,
    parse_number,
    require_coin,
)
from florin_server.rails.solana.reading.receivers import find_wallet_problem, list_opened_accounts
from florin_server.rails.solana.sending.signer import SolanaSigner
from florin_server.rails.solana.settings import SolanaChainSettings
from florin_server.rails.solana.setup.discovery import SolanaInspection
from florin_server.rails.types import RailUnavailable, SignedTransaction

# that fit into one transaction, with some room: each adds an owner and an account of 32 bytes
_ACCOUNTS_MAX = 6
_ACCOUNT_BYTES = 200  # an account of Token-2022 with the extensions that a token requires of it
_UNITS_EACH = 50_000  # twice what an opening needs with the longest search for the address


class SolanaTokenAccounts:
    """Implement the TokenAccounts protocol for one cluster; the relayer pays.

    `get_inspection` returns the assets that are accepted now.
    """

    def __init__(
        self,
        node: SolanaNode,
        chain: SolanaChainSettings,
        relayer: SolanaSigner,
        get_inspection: Callable[[], SolanaInspection],
    ) -> None:
        self._node = node
        self._chain = chain
        self._relayer = relayer
        self._get_inspection = get_inspection

    @property
    def caps(self) -> DailyOpeningCaps:
        """Return how many accounts can be opened in a day."""
        chain = self._chain
        return DailyOpeningCaps(
            chain.accounts_a_day, chain.accounts_a_partner_day, chain.accounts_a_merchant_day
        )

    @property
    def accounts_per_transaction(self) -> int:
        """Return how many accounts one transaction opens at most."""
        return _ACCOUNTS_MAX

    def is_needed(self, asset_account: AssetAccount) -> bool:
        """Return True if the asset is a token that is accepted now."""
        return self._find_mint(asset_account) is not None

    def list_opened_accounts(self, outputs: Sequence[str]) -> Sequence[AssetAccount]:
        """Return the accounts that a buyer's transaction opens if they do not exist."""
        return list_opened_accounts(self._chain.caip2, parse_submission(outputs).message)

    async def list_missing_accounts(
        self, asset_accounts: Sequence[AssetAccount]
    ) -> list[AssetAccount]:
        """Return the places whose account does not exist and can be opened; one batched read."""
        place_mints = [
            (place, mint)
            for place in asset_accounts
            if (mint := self._find_mint(place)) is not None
        ]
        owners = [spl.parse_pubkey(to_address(place.account)) for place, _ in place_mints]
        held_at = [
            spl.derive_associated_address(owner, *mint)
            for owner, (_, mint) in zip(owners, place_mints, strict=True)
        ]
        accounts = await self._node.get_accounts([*owners, *held_at])
        rows = zip(place_mints, accounts[: len(owners)], accounts[len(owners) :], strict=True)
        return [
            place
            for (place, _), owner, held in rows
            if held is None and find_wallet_problem(place.account, owner) is None
        ]

    async def sign(self, asset_accounts: Sequence[AssetAccount]) -> SignedTransaction:
        """Sign the single transaction that opens the accounts; existing accounts stay unchanged."""
        relayer = self._relayer.pubkey
        # payments have priority for the relayer's coin
        config = {"commitment": FINALIZED}
        rent = parse_number(
            await self._node.call("getMinimumBalanceForRentExemption", _ACCOUNT_BYTES, config)
        )
        await require_coin(self._node, relayer, RELAYER_LAMPORTS_MIN + rent * len(asset_accounts))
        recent = await get_blockhash(self._node)
        openings = [
            spl.create_associated_account(
                relayer, spl.parse_pubkey(to_address(place.account)), *mint
            )
            for place in asset_accounts
            if (mint := self._find_mint(place)) is not None
        ]
        if not openings:
            raise RailUnavailable(f"{self._chain.name}: the tokens are not accepted now")
        steps = [
            set_compute_unit_limit(_UNITS_EACH * len(openings)),
            set_compute_unit_price(self._chain.compute_price),
            *openings,
            build_lapse_note(recent.last_valid_height),
        ]
        return self._relayer.sign_transaction(compile_message(relayer, steps, recent.hash), recent)

    def _find_mint(self, asset_account: AssetAccount) -> tuple[Pubkey, Pubkey] | None:
        """Return an asset's mint and program; None if it is not a token that is accepted now."""
        inspection = self._get_inspection()
        asset = inspection.assets.get(asset_account.asset)
        if asset is None or asset.address == str(spl.SYSTEM):
            return None
        return spl.parse_pubkey(asset.address), spl.parse_pubkey(inspection.programs[asset.address])
