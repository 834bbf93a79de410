"""Tokens' reports of whom they block: pauses, and lists of blocked accounts.

No standard exists for them. A token supports each usual query that it answers properly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from florin_server.domain.chains.evm import abi
from florin_server.rails.connection.jsonrpc import RpcCall
from florin_server.rails.evm.reading.node import build_call, parse_returned
from florin_server.rails.types import RailUnavailable

PAUSED_SELECTOR: Final = abi.encode_selector("paused()")
# the tokens of Circle, Tether and Paxos, and of Tether on other chains
_BLOCKLIST_SELECTORS: Final = tuple(
    abi.encode_selector(f"{name}(address)")
    for name in ("isBlacklisted", "isBlackListed", "isFrozen", "isBlocked")
)
QUESTIONS: Final = 1 + len(_BLOCKLIST_SELECTORS)


@dataclass(frozen=True, slots=True)
class TokenGuard:
    """The queries that a token answers.

    `blocklist_selector` is the selector of the query about an account.
    """

    is_pausable: bool = False
    blocklist_selector: bytes | None = None


NO_GUARD: Final = TokenGuard()
TokenGuards: TypeAlias = Mapping[str, TokenGuard]
"""By CAIP-19 of the token."""
UNGUARDED: Final[TokenGuards] = {}


def build_guard_calls(token: str, account: str) -> list[RpcCall]:
    """Build every query to a token, about an account that is blocked only if all accounts are."""
    about = abi.encode_address(account)
    return [
        build_call(token, PAUSED_SELECTOR),
        *(build_call(token, selector + about) for selector in _BLOCKLIST_SELECTORS),
    ]


def parse_guard(answers: Sequence[Any]) -> tuple[TokenGuard, bool, bool]:
    """Return a token's guard, whether it is paused, and whether the queried account is blocked."""
    paused, *blocked = map(_parse_verdict, answers)
    blocklists = [
        (ask, verdict)
        for ask, verdict in zip(_BLOCKLIST_SELECTORS, blocked, strict=True)
        if verdict is not None
    ]
    guard = TokenGuard(paused is not None, blocklists[0][0] if blocklists else None)
    return guard, bool(paused), any(verdict for _, verdict in blocklists)


def is_true(returned: bytes) -> bool:
    """Return True if a token answered yes."""
    return returned == abi.encode_uint256(1)


def _parse_verdict(answer: Any) -> bool | None:
    try:
        returned = parse_returned(answer)
    except RailUnavailable:
        return None
    return is_true(returned) if returned in {abi.encode_uint256(0), abi.encode_uint256(1)} else None
