"""Blocked accounts, on every chain of their namespace."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from florin_server.domain.caip import canonicalize_account, parse_account, parse_evm_address
from florin_server.domain.chains.solana.spl import parse_pubkey

# CAIP-2 namespace, and the address in the form to compare
BlockedAddress: TypeAlias = tuple[str, str]

_DAY_US = 86_400_000_000
_EVM = re.compile(r"0x[0-9a-f]{40}")


@dataclass(frozen=True, slots=True)
class ScreeningList:
    """A list of accounts that was imported from a file; `digest` is the file's SHA-256, in hex.

    `published_at_us` is None if the file does not say. `count` is the number of its addresses.
    """

    name: str
    digest: str
    published_at_us: int | None
    imported_at_us: int
    count: int

    def age_days(self, now_us: int) -> int:
        """Return the whole days since its publication, or since its import if that is unknown."""
        since_us = self.imported_at_us if self.published_at_us is None else self.published_at_us
        return (now_us - since_us) // _DAY_US


class Blocklist:
    """Blocked accounts from any number of lists; an account that was added stays blocked."""

    def __init__(self, accounts: Iterable[str] = ()) -> None:
        self._keys: set[BlockedAddress] = set()
        self.add(accounts)

    @classmethod
    def from_addresses(cls, addresses: Iterable[BlockedAddress]) -> Self:
        """Return the blocklist of these addresses."""
        blocklist = cls()
        blocklist._keys.update(addresses)
        return blocklist

    def add(self, accounts: Iterable[str]) -> None:
        """Block more accounts in the form of `validate_blocklist_entry`; ValueError otherwise."""
        self._keys.update([_parse_entry(account) for account in accounts])

    def is_blocked(self, account: str) -> bool:
        """Return whether a CAIP-10 account is blocked on any chain.

        False for text that is not an account. A wrong checksum in capitals does not hide an
        address.
        """
        if not self._keys:
            return False
        try:
            return _to_address(account, checksum=False) in self._keys
        except ValueError:
            return False


def validate_blocklist_entry(text: str) -> str:
    """Return the entry of a list unchanged: CAIP-10, or a plain EVM address.

    ValueError if it is neither. An entry with a wrong checksum is refused: it is mistyped, and
    would block another account.
    """
    _parse_entry(text)
    return text


def find_address(text: str) -> BlockedAddress | None:
    """Return the possible chains of an address, from its form alone; None for an unsupported chain.

    Lists name tickers, but the key of an address is the same on every chain of a namespace.
    Capitals have no meaning: a wrong checksum in a public list must not let an address pass.
    """
    if _EVM.fullmatch(lower := text.lower()):
        return "eip155", lower
    if _is_solana_address(text):
        return "solana", text
    return None


def describe_list_problem(
    lists: Sequence[ScreeningList], now_us: int, days_max: int, *, required: bool
) -> str:
    """Return what is wrong with the existing lists; empty if nothing is.

    A list is too old after more than `days_max` days; with `required` at least one is required.
    """
    if not lists:
        return "no screening list is imported: run florin sanctions import FILE" if required else ""
    ages = [(screening_list.name, screening_list.age_days(now_us)) for screening_list in lists]
    return "; ".join(
        f"screening list {name} is {days} days old" for name, days in ages if days > days_max
    )


def _is_solana_address(text: str) -> bool:
    try:
        parse_pubkey(text)
    except ValueError:
        return False
    return True


def _parse_entry(text: str) -> BlockedAddress:
    if ":" in text:
        return _to_address(text, checksum=True)
    try:
        return "eip155", parse_evm_address(text)
    except ValueError as error:
        if "checksum" in str(error):
            raise
        raise ValueError(f"neither a CAIP-10 account nor an EVM address: {text[:80]!r}") from error


def _to_address(account: str, *, checksum: bool) -> BlockedAddress:
    parsed_account = parse_account(canonicalize_account(account, checksum=checksum))
    return parsed_account.chain.namespace, parsed_account.address
