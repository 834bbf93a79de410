"""Accounts that are not served, whatever chain of their namespace they turn up on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from florin_server.domain.caip import canonical_account, evm_address, parse_account

# CAIP-2 namespace, and the address as it compares
_Key: TypeAlias = tuple[str, str]


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


class Blocklist:
    """Blocked accounts from any number of lists; an account that was added stays blocked."""

    def __init__(self, accounts: Iterable[str] = ()) -> None:
        self._keys: set[_Key] = set()
        self.add(accounts)

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


def _listed(text: str) -> _Key:
    if ":" in text:
        return _key(text, checksum=True)
    try:
        return "eip155", evm_address(text)
    except ValueError as error:
        if "checksum" in str(error):
            raise
        raise ValueError(f"neither a CAIP-10 account nor an EVM address: {text[:80]!r}") from error


def _key(account: str, *, checksum: bool) -> _Key:
    found = parse_account(canonical_account(account, checksum=checksum))
    return found.chain.namespace, found.address
