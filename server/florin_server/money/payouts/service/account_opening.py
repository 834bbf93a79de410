"""Accounts to open for receivers: checked before an offer, claimed before the opening.

On some chains an account has to be opened before it can receive a token. Its owner can close it and
keep the deposit that Florin paid; so each is opened once, and the number per day is limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.accounts.destinations import AssetAccount, TokenAccountOpening
from florin_server.money.settlement.store import token_accounts
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Split


def list_receiving_accounts(asset: str, split: Split) -> list[AssetAccount]:
    """Return the receivers of an asset (CAIP-19) when it is paid."""
    owners = [split.dest] if split.fee_to is None else [split.dest, split.fee_to]
    return [AssetAccount(asset, owner) for owner in dict.fromkeys(owners)]


async def list_openable(
    app: StorageContext, rail: Rail, merchant_id: str, accounts: Iterable[AssetAccount]
) -> frozenset[AssetAccount]:
    """Return the accounts that can be opened now for a merchant; none where none is needed."""
    work = rail.token_accounts
    if work is None:
        return frozenset()
    needed = [
        create_opening(rail, merchant_id, asset_account)
        for asset_account in accounts
        if work.is_needed(asset_account)
    ]
    return await app.store.read(
        token_accounts.filter_openable(needed, work.caps, app.clock.now_us())
    )


@operation
def claim(
    app: StorageContext,
    rail: Rail,
    merchant_id: str,
    subject_id: str,
    accounts: Sequence[AssetAccount],
) -> Op[None]:
    """Claim openings, as part of an operation that releases work; or raise AccountNotOpenable."""
    if rail.token_accounts is not None and accounts:
        openings = [create_opening(rail, merchant_id, asset_account) for asset_account in accounts]
        yield from token_accounts.claim(
            openings, rail.token_accounts.caps, subject_id, app.clock.now_us()
        )


def create_opening(rail: Rail, merchant_id: str, account: AssetAccount) -> TokenAccountOpening:
    """Return an account that is opened for a merchant; the treasury's belongs to Florin alone."""
    return TokenAccountOpening(account, None if account.account == rail.treasury else merchant_id)
