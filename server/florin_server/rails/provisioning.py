"""What some chains want to be made before anybody can pay: accounts, and nonces that last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from florin_server.domain.accounts.destinations import AssetAccount, DailyCaps
from florin_server.rails.types import Signed


@dataclass(frozen=True, slots=True)
class Values:
    """What durable nonces hold in the newest final block, by account, of those that are there."""

    slot: int
    held: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Affordable:
    """How many of the accounts that are missing can be paid for now, and what the others lack.

    `problem` is a sentence, empty if all can be paid for.
    """

    count: int
    problem: str


class DurableNonces(Protocol):
    """Durable nonces: a transaction with one lapses when it is advanced, and not by time."""

    @property
    def addresses(self) -> Sequence[str]:
        """The accounts that are to be used, made or not."""

    async def values(self, addresses: Sequence[str]) -> Values:
        """What accounts hold at final depth; one read."""

    async def affordable(self, missing: int) -> Affordable:
        """Return how many of so many missing accounts can be paid for; one batched read."""

    async def create(self, addresses: Sequence[str]) -> Signed:
        """Signs the one transaction that makes accounts; it fails if one is there."""

    async def advance(self, addresses: Sequence[str]) -> Signed:
        """Signs the one transaction that gives accounts other values."""


class TokenAccounts(Protocol):
    """What has to be opened on a chain before an account can hold an asset."""

    @property
    def caps(self) -> DailyCaps:
        """How many places may be opened in a day, whoever opens them; 0 if none."""

    @property
    def at_once(self) -> int:
        """How many places one transaction opens at most."""

    def needed(self, place: AssetAccount) -> bool:
        """True if a place has to be opened at all."""

    def opened_by(self, outputs: Sequence[str]) -> Sequence[AssetAccount]:
        """The places that a wallet's outputs, which were verified, open unless they are there."""

    async def missing(self, places: Sequence[AssetAccount]) -> list[AssetAccount]:
        """Those that have to be opened and can be; one batched read."""

    async def sign(self, places: Sequence[AssetAccount]) -> Signed:
        """Signs the one transaction that opens places."""
