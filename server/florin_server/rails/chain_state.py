"""Shared state of one chain in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from florin_server.domain.health import ConditionTracker
from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.runway import Runway, format_runway
from florin_server.domain.settlement.settle_times import SettleTimes, compute_promise_s
from florin_server.rails.recent_head import RecentHead
from florin_server.rails.types import GasShortage, is_unfunded

# signatures of the meantime can lapse before the chain answers again
_FAILING_S: Final = 180


@dataclass(frozen=True, slots=True)
class WalletBalance:
    """The balance of an account (CAIP-10) of Florin in an asset (CAIP-19), in minor units."""

    account: str
    asset: str
    chain_balance: int
    booked_balance: int


@dataclass(slots=True)
class ChainState:
    """State of one chain that services and workers share.

    `conditions` has the conditions that are found on request. Nothing is sent from its wallets
    before their ledger is open. `shortfall` says in a sentence how much less they have than the
    ledger says, and `balances` what each had when they were last compared, at `reconciled_at_us`
    (0 if never). `paying_blocks` are the
    blocks that pay open payments, final or not, by payment id, as far as the settler of this
    process has read them. `failing_since_us` is the time (steady µs) since when the settler could
    not reach the chain; None while it works. `shortages` are keys that run out of coin, as of
    `funds_read_at_us` (steady µs; None if they were not checked), `funds_refresh` is the latest
    check, and `funding_problem` says in a sentence that none of them can pay for another payment.
    `pace` is the pace of its blocks (None before a measurement), `settle_times` the durations of
    its newest payments. `runways` say by executor (CAIP-10) how long its coin lasts, as of
    `runways_read_at_us` (steady µs; None if they were not read). `recent_head` is the head where
    the settler of this process has not read it.
    """

    conditions: ConditionTracker
    failing_since_us: int | None = None
    shortages: Sequence[GasShortage] = ()
    funds_read_at_us: int | None = None
    funds_refresh: asyncio.Future[None] | None = None
    funding_problem: str = ""
    has_opening_balances: bool = False
    shortfall: str = ""
    balances: Sequence[WalletBalance] = ()
    reconciled_at_us: int = 0
    paying_blocks: Mapping[str, int] = field(default_factory=dict)
    pace: ChainPace | None = None
    settle_times: SettleTimes = field(default_factory=SettleTimes)
    runways: Mapping[str, Runway] = field(default_factory=dict)
    runways_read_at_us: int | None = None
    recent_head: RecentHead = field(default_factory=RecentHead)

    def get_promised_s(self, eta_s: int, guess_s: int) -> float:
        """Return the seconds to promise where the settings promise `eta_s`.

        `guess_s` is what they promise for the chain's shortest way to pay.
        """
        return compute_promise_s(eta_s, guess_s, self.settle_times.median_s)

    def describe_shortages(self) -> list[str]:
        """Return which keys run out of coin, and how long the coin of the chain's keys lasts."""
        texts = [shortage.text for shortage in self.shortages]
        lasting = {
            runway.account: f"{runway.account} has coin for {format_runway(runway)}"
            for runway in self.runways.values()
            if runway.items_left is not None
        }
        return [*texts, *lasting.values()] if texts else []

    def record_funds(self, shortages: Sequence[GasShortage], senders: int, steady_us: int) -> None:
        """Store which of so many keys run out of coin, as of a time."""
        self.shortages, self.funds_read_at_us = shortages, steady_us
        problem = "; ".join(shortage.text for shortage in shortages)
        empty = is_unfunded(shortages, senders)
        self.funding_problem = (
            f"{problem}; not offered until a relayer key has native coin" if empty else ""
        )

    def describe_settlement_problem(self, steady_us: int) -> str:
        """Return why the chain is not offered, as nothing settled for minutes; empty otherwise."""
        since_us = self.failing_since_us
        if since_us is None or steady_us - since_us < _FAILING_S * 1_000_000:
            return ""
        minutes = (steady_us - since_us) // 60_000_000
        return f"settlement has failed for {minutes} min; not offered until it works again"
