"""Accounts that are not served, whatever chain of their namespace they turn up on."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Self, TypeAlias

from florin_server.chains.solana.spl import pubkey
from florin_server.domain.caip import canonical_account, evm_address, parse_account

# CAIP-2 namespace, and the address as it compares
Address: TypeAlias = tuple[str, str]

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
        """Whole days since it was published, or since it was imported if nobody knows that."""
        since_us = self.imported_at_us if self.published_at_us is None else self.published_at_us
        return (now_us - since_us) // _DAY_US


class Blocklist:
    """Blocked accounts from any number of lists; an account that was added stays blocked."""

    def __init__(self, accounts: Iterable[str] = ()) -> None:
        self._keys: set[Address] = set()
        self.add(accounts)

    @classmethod
    def of(cls, addresses: Iterable[Address]) -> Self:
        """Everybody with one of these addresses."""
        made = cls()
        made._keys.update(addresses)
        return made

    def add(self, accounts: Iterable[str]) -> None:
        """Blocks more accounts, each as for `blocked_account`. ValueError if one is malformed."""
        self._keys.update([_listed(account) for account in accounts])

    def blocks(self, account: str) -> bool:
        """True for a blocked CAIP-10 account on any chain; False for text that is no account.

        Capitals that are no checksum do not hide an address.
        """
        if not self._keys:
            return False
        try:
            return _key(account, checksum=False) in self._keys
        except ValueError:
            return False


def blocked_account(text: str) -> str:
    """Gives back the entry of a list: CAIP-10, or a bare EVM address. ValueError if it is neither.

    An entry with a wrong checksum is refused: it was mistyped, and would block somebody else.
    """
    _listed(text)
    return text


def address_of(text: str) -> Address | None:
    """Where an address can be, told from its form alone; None if on no chain that can be served.

    Lists name tickers, but the key behind an address is the same on every chain of a namespace.
    Capitals mean nothing: in a public list, a wrong checksum is no reason to let somebody pass.
    """
    if _EVM.fullmatch(lower := text.lower()):
        return "eip155", lower
    if _is_key(text):
        return "solana", text
    return None


def problem_of(lists: Sequence[ScreeningList], now_us: int, days_max: int, *, needed: bool) -> str:
    """What is wrong with the lists that there are; empty if nothing.

    A list is too old after more than `days_max` days; with `needed` there has to be one.
    """
    if not lists:
        return "no screening list was imported: florin sanctions import FILE" if needed else ""
    ages = [(one.name, one.age_days(now_us)) for one in lists]
    return "; ".join(
        f"screening list {name} is {days} days old" for name, days in ages if days > days_max
    )


def _is_key(text: str) -> bool:
    try:
        pubkey(text)
    except ValueError:
        return False
    return True


def _listed(text: str) -> Address:
    if ":" in text:
        return _key(text, checksum=True)
    try:
        return "eip155", evm_address(text)
    except ValueError as error:
        if "checksum" in str(error):
            raise
        raise ValueError(f"neither a CAIP-10 account nor an EVM address: {text[:80]!r}") from error


def _key(account: str, *, checksum: bool) -> Address:
    found = parse_account(canonical_account(account, checksum=checksum))
    return found.chain.namespace, found.address
