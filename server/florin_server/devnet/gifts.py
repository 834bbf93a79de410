"""How much test money a faucet gives away: to one account, in one call, in a day.

Whoever asks for options may name as many accounts as he likes, and a merchant may ask for any
price. Without bounds one of them could have so much minted that nothing is left for others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from florin_server.devnet.errors import RpcFault

# usual gifts in a day: for everybody who tries something out, however many tests he runs
USUAL_A_DAY: Final = 100_000
# the most that a payment may be asked for, in whole units of a currency with two decimals
DEAREST: Final = 100_000_000
# one call may take this part of a day's money
_CALLS_A_DAY: Final = 4
_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class Kind:
    """A coin or token: what is usually given of it, and the most that an account is filled up to.

    Minor units. What is asked for beyond the usual has a day's budget of its own, as large.
    """

    name: str
    usual: int
    account_max: int

    @property
    def a_day(self) -> int:
        """What is given away of it in a day, of each budget."""
        return self.usual * USUAL_A_DAY

    @property
    def a_call(self) -> int:
        """What one call may take of that."""
        return self.a_day // _CALLS_A_DAY


@dataclass(frozen=True, slots=True)
class Gift:
    """What an account lacks of a kind, to have `wanted` minor units."""

    kind: Kind
    wanted: int
    lacking: int

    @property
    def is_usual(self) -> bool:
        """True if the account is filled up no further than any other."""
        return self.wanted <= self.kind.usual


@dataclass(slots=True)
class _Pot:
    """What was given away lately: it is forgotten at the pace of a day's budget a day."""

    used: int = 0
    at_ns: int = 0


class Gifts:
    """The budgets of one faucet, whole at its start.

    `now_ns` is the machine's own time: the chain's can be moved on by those who ask for money.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._pots: dict[tuple[Kind, bool], _Pot] = {}

    def take(self, gifts: Sequence[Gift]) -> None:
        """Takes the gifts of one call out of the budgets; RpcFault, and nothing is taken, if not.

        There are as many budgets as kinds, twice.
        """
        asked: Counter[tuple[Kind, bool]] = Counter()
        for gift in gifts:
            if gift.wanted > gift.kind.account_max:
                most = f"{gift.kind.account_max} minor units of {gift.kind.name}"
                raise RpcFault(f"the faucet fills no account up to more than {most}")
            asked[gift.kind, gift.is_usual] += gift.lacking
        for (kind, is_usual), amount in asked.items():
            if amount > kind.a_call:
                most = f"{kind.a_call} minor units of {kind.name}"
                raise RpcFault(f"the faucet gives no more than {most} in one call")
            left = kind.a_day - self._pot(kind, is_usual=is_usual).used
            if amount > left:
                what = "usual gifts" if is_usual else "what is more than usual"
                raise RpcFault(
                    f"the faucet has {left} minor units of {kind.name} left for {what}, and gets "
                    f"{kind.a_day} in a day: ask for less, or later"
                )
        for (kind, is_usual), amount in asked.items():
            self._pot(kind, is_usual=is_usual).used += amount

    def _pot(self, kind: Kind, *, is_usual: bool) -> _Pot:
        now_ns = self._now_ns()
        pot = self._pots.setdefault((kind, is_usual), _Pot(0, now_ns))
        pot.used = max(0, pot.used - (now_ns - pot.at_ns) * kind.a_day // _DAY_NS)
        pot.at_ns = now_ns
        return pot


def missing(has: int, asked: int | None, gift: int, *, rarely: bool = False) -> int:
    """What to add to what an account has; nothing if it has enough."""
    wanted = gift if asked is None else asked
    if asked is None or rarely:
        return wanted - has if has < (wanted + 1) // 2 else 0
    return max(0, wanted - has)
