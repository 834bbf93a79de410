"""Count the outcomes of a simulation."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from florin_sandbox.simulation.population import SECOND_US
from florin_sandbox.simulation.scenario import PaymentScenario


@dataclass(frozen=True, slots=True)
class CompletionTimes:
    """The time of a chain's payments from the confirmation to the end, in seconds.

    `promised_s` is the time that their options promised.
    """

    count: int
    promised_s: float
    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class SimulationReport:
    """The report of one simulation.

    `story` is a hash of all scenarios, equal for equal seed, configuration and start time.
    """

    payments: int
    outcomes: dict[str, int]
    funnel: dict[str, int]
    deeds: dict[str, int]
    assets: dict[str, int]
    refunds: dict[str, int]
    returned: int
    times: dict[str, CompletionTimes]
    story: str

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON values."""
        return asdict(self)


def build_report(stories: Sequence[PaymentScenario]) -> SimulationReport:
    """Build the report; `stories` are in the order of their payments."""
    paid = [scenario for scenario in stories if scenario.last_status == "succeeded"]
    return SimulationReport(
        payments=len(stories),
        outcomes=_count_values(scenario.last_status for scenario in stories),
        funnel={
            "created": len(stories),
            "opened": sum(scenario.offered_count is not None for scenario in stories),
            "could pay": sum(bool(scenario.asset) for scenario in stories),
            "confirmed": sum(bool(scenario.confirmed_us) for scenario in stories),
            "succeeded": len(paid),
        },
        deeds=_count_values(str(scenario.order.behavior) for scenario in stories),
        assets=_count_values(scenario.asset for scenario in paid),
        refunds=_count_values(
            scenario.refund_status for scenario in stories if scenario.refund_status
        ),
        returned=sum(bool(scenario.returned_us) for scenario in stories),
        times={chain: _compute_times(paid, chain) for chain in ("evm", "solana")},
        story=hashlib.sha256(b"\n".join(map(encode_line, stories))).hexdigest(),
    )


def encode_line(story: PaymentScenario) -> bytes:
    """Encode one payment's scenario as a line of JSON, without ids."""
    return orjson.dumps(story.to_line(), option=orjson.OPT_SORT_KEYS)


def _count_values(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _compute_times(paid: Iterable[PaymentScenario], chain: str) -> CompletionTimes:
    there = [
        scenario
        for scenario in paid
        if scenario.order.wallet_kind.chain == chain and scenario.confirmed_us
    ]
    took = sorted((scenario.ended_us - scenario.confirmed_us) / SECOND_US for scenario in there)
    promised = max((scenario.promised_s for scenario in there), default=0)
    return CompletionTimes(
        len(took), float(promised), _compute_quantile(took, 0.5), _compute_quantile(took, 0.95)
    )


def _compute_quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
