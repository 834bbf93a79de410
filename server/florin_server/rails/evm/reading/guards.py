"""What tokens tell of whom they refuse: paused ones, and lists of accounts that may not move money.

There is no standard for it. A token has those of the usual questions that it answers like one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from florin_server.chains.evm import abi
from florin_server.rails.connection.jsonrpc import Call
from florin_server.rails.evm.reading.node import call_to, returned
from florin_server.rails.types import RailUnavailable

PAUSED: Final = abi.selector("paused()")
# Circle's tokens, Tether's, Paxos', and Tether's on other chains
_BLOCKED: Final = tuple(
    abi.selector(f"{name}(address)")
    for name in ("isBlacklisted", "isBlackListed", "isFrozen", "isBlocked")
)
QUESTIONS: Final = 1 + len(_BLOCKED)


@dataclass(frozen=True, slots=True)
class Guard:
    """Which questions a token answers. `blocked` is the selector of the one about an account."""

    pauses: bool = False
    blocked: bytes | None = None


NO_GUARD: Final = Guard()
Guards: TypeAlias = Mapping[str, Guard]
"""By CAIP-19 of the token."""
UNGUARDED: Final[Guards] = {}


def asks(token: str, account: str) -> list[Call]:
    """Every question to a token, about an account that surely is not blocked unless all are."""
    about = abi.address(account)
    return [call_to(token, PAUSED), *(call_to(token, one + about) for one in _BLOCKED)]


def read(answers: Sequence[Any]) -> tuple[Guard, bool, bool]:
    """What a token answers, whether it is paused, and whether the account of `asks` is blocked."""
    paused, *blocked = map(_verdict, answers)
    known = [(ask, one) for ask, one in zip(_BLOCKED, blocked, strict=True) if one is not None]
    guard = Guard(paused is not None, known[0][0] if known else None)
    return guard, bool(paused), any(one for _, one in known)


def is_true(told: bytes) -> bool:
    """True if a token answered yes."""
    return told == abi.number(1)


def _verdict(answer: Any) -> bool | None:
    try:
        told = returned(answer)
    except RailUnavailable:
        return None
    return is_true(told) if told in {abi.number(0), abi.number(1)} else None
