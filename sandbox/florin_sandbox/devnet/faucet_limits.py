"""The limits of a faucet: per account, per call and per day.

A caller that requests options can name any number of accounts, and a merchant can set any price.
Without limits, a single caller could have so much minted that nothing is left for others.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from florin_sandbox.devnet.errors import RpcFault

# usual gifts per day: enough for every user who tries something, however many tests run
USUAL_GIFTS_PER_DAY: Final = 100_000
# the highest amount of a payment, in whole units of a currency with two decimals
ACCOUNT_MAX_UNITS: Final = 100_000_000
# one call can take this fraction of a day's money
_CALLS_PER_DAY: Final = 4
_DAY_NS: Final = 86_400 * 10**9


@dataclass(frozen=True, slots=True)
class GiftKind:
    """A coin or token: its usual gift, and the most that an account is filled up to.

    In minor units. Amounts above the usual gift have a separate daily budget of equal size.
    """

    name: str
    usual_amount: int
    account_max: int

    @property
    def daily_budget(self) -> int:
        """Return the amount given per day, of each budget."""
        return self.usual_amount * USUAL_GIFTS_PER_DAY

    @property
    def call_max(self) -> int:
        """Return the most of that for one call."""
        return self.daily_budget // _CALLS_PER_DAY


@dataclass(frozen=True, slots=True)
class FaucetGift:
    """The amount that an account lacks of a kind, to have `target` minor units."""

    kind: GiftKind
    target: int
    amount: int

    @property
    def is_usual(self) -> bool:
        """Return True if the account is filled up to the usual gift at most."""
        return self.target <= self.kind.usual_amount


@dataclass(slots=True)
class _GiftBudget:
    """The amount given recently; it decays at the rate of one daily budget per day."""

    used_amount: int = 0
    at_ns: int = 0


class GiftBudgets:
    """The budgets of one faucet, full at its start.

    `now_ns` is the machine's own time: callers of the faucet can advance the chain's time.
    """

    def __init__(self, now_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._now_ns = now_ns
        self._budgets: dict[tuple[GiftKind, bool], _GiftBudget] = {}

    def take_gifts(self, gifts: Sequence[FaucetGift]) -> None:
        """Take the gifts of one call out of the budgets; raise RpcFault, and take nothing, if over.

        Each kind has two budgets.
        """
        counter: Counter[tuple[GiftKind, bool]] = Counter()
        for gift in gifts:
            if gift.target > gift.kind.account_max:
                most = f"{gift.kind.account_max} minor units of {gift.kind.name}"
                raise RpcFault(f"the faucet fills no account up to more than {most}")
            counter[gift.kind, gift.is_usual] += gift.amount
        for (kind, is_usual), amount in counter.items():
            if amount > kind.call_max:
                most = f"{kind.call_max} minor units of {kind.name}"
                raise RpcFault(f"the faucet gives no more than {most} in one call")
            left = kind.daily_budget - self._get_budget(kind, is_usual=is_usual).used_amount
            if amount > left:
                what = "usual gifts" if is_usual else "larger gifts"
                raise RpcFault(
                    f"the faucet has {left} minor units of {kind.name} left for {what}, of "
                    f"{kind.daily_budget} per day: request less, or try later"
                )
        for (kind, is_usual), amount in counter.items():
            self._get_budget(kind, is_usual=is_usual).used_amount += amount

    def _get_budget(self, kind: GiftKind, *, is_usual: bool) -> _GiftBudget:
        now_ns = self._now_ns()
        pot = self._budgets.setdefault((kind, is_usual), _GiftBudget(0, now_ns))
        pot.used_amount = max(
            0, pot.used_amount - (now_ns - pot.at_ns) * kind.daily_budget // _DAY_NS
        )
        pot.at_ns = now_ns
        return pot


def compute_gift(
    balance: int, requested: int | None, usual_amount: int, *, only_below_half: bool = False
) -> int:
    """Return the amount to add to an account's balance; 0 if it has enough."""
    target_balance = usual_amount if requested is None else requested
    if requested is None or only_below_half:
        return target_balance - balance if balance < (target_balance + 1) // 2 else 0
    return max(0, target_balance - balance)
