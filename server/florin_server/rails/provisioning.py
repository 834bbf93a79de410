"""Objects that some chains require before payments: accounts, and durable nonces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.accounts.destinations import AssetAccount, DailyOpeningCaps
from florin_server.rails.types import SignedTransaction


@dataclass(frozen=True, slots=True)
class NonceValues:
    """The values of durable nonces in the newest final block, by existing account."""

    slot: int
    by_account: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AffordableAccounts:
    """The number of missing accounts that can be paid for now, and what the others lack.

    `problem` is a sentence, empty if all can be paid for.
    """

    count: int
    problem: str


class DurableNonces(Protocol):
    """Durable nonces: a transaction with such a nonce expires when it advances, not by time."""

    @property
    def addresses(self) -> Sequence[str]:
        """Return the nonce accounts to use, created or not."""

    def is_preparation(self, raw: bytes, addresses: Collection[str]) -> bool:
        """Return True if a transaction of ours creates or advances one of the accounts."""

    async def get_values(self, addresses: Sequence[str]) -> NonceValues:
        """Return the values of accounts at final depth; one read."""

    async def get_affordable(self, missing_count: int) -> AffordableAccounts:
        """Return how many of `missing_count` accounts can be paid for; one batched read."""

    async def sign_creation(self, addresses: Sequence[str]) -> SignedTransaction:
        """Sign the single transaction that creates accounts; it fails if an account exists."""

    async def sign_advance(self, addresses: Sequence[str]) -> SignedTransaction:
        """Sign the single transaction that advances accounts to new values."""


class TokenAccounts(Protocol):
    """Accounts that must be opened on a chain before an account can hold an asset."""

    @property
    def caps(self) -> DailyOpeningCaps:
        """Return how many accounts can be opened per day in total; 0 if none."""

    @property
    def accounts_per_transaction(self) -> int:
        """Return how many accounts one transaction opens at most."""

    def is_needed(self, asset_account: AssetAccount) -> bool:
        """Return True if a place must be opened at all."""

    def list_opened_accounts(self, outputs: Sequence[str]) -> Sequence[AssetAccount]:
        """Return the places that a wallet's verified outputs open if they do not exist."""

    async def list_missing_accounts(
        self, asset_accounts: Sequence[AssetAccount]
    ) -> list[AssetAccount]:
        """Return the places that must and can be opened; one batched read."""

    async def sign(self, asset_accounts: Sequence[AssetAccount]) -> SignedTransaction:
        """Sign the single transaction that opens places."""
