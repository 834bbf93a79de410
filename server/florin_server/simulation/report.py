"""What happened, counted."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from florin_server.simulation.population import SECOND_US
from florin_server.simulation.story import Story


@dataclass(frozen=True, slots=True)
class Times:
    """How long payments of a chain took from the confirmation to the end, in seconds.

    `promised_s` is what their options said.
    """

    count: int
    promised_s: float
    p50_s: float
    p95_s: float


@dataclass(frozen=True, slots=True)
class Report:
    """All of one simulation. `story` is equal for equal seeds, knobs and beginnings."""

    payments: int
    outcomes: dict[str, int]
    funnel: dict[str, int]
    deeds: dict[str, int]
    assets: dict[str, int]
    refunds: dict[str, int]
    returned: int
    times: dict[str, Times]
    story: str

    def values(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)


def report_of(stories: Sequence[Story]) -> Report:
    """Counts; stories are in the order of their payments."""
    paid = [one for one in stories if one.status == "succeeded"]
    return Report(
        payments=len(stories),
        outcomes=_counted(one.status for one in stories),
        funnel={
            "created": len(stories),
            "opened": sum(one.offered is not None for one in stories),
            "could pay": sum(bool(one.asset) for one in stories),
            "confirmed": sum(bool(one.confirmed_us) for one in stories),
            "succeeded": len(paid),
        },
        deeds=_counted(str(one.order.deed) for one in stories),
        assets=_counted(one.asset for one in paid),
        refunds=_counted(one.refund for one in stories if one.refund),
        returned=sum(bool(one.returned_us) for one in stories),
        times={chain: _times(paid, chain) for chain in ("evm", "solana")},
        story=hashlib.sha256(b"\n".join(map(line_of, stories))).hexdigest(),
    )


def line_of(story: Story) -> bytes:
    """One payment's story as a line of JSON, without ids."""
    return orjson.dumps(story.line(), option=orjson.OPT_SORT_KEYS)


def _counted(values: Iterable[str]) -> dict[str, int]:
    return dict(Counter(values).most_common())


def _times(paid: Iterable[Story], chain: str) -> Times:
    there = [one for one in paid if one.order.purse.chain == chain and one.confirmed_us]
    took = sorted((one.ended_us - one.confirmed_us) / SECOND_US for one in there)
    promised = max((one.promised_s for one in there), default=0)
    return Times(len(took), float(promised), _quantile(took, 0.5), _quantile(took, 0.95))


def _quantile(ordered: Sequence[float], share: float) -> float:
    return ordered[math.ceil(share * len(ordered)) - 1] if ordered else 0.0
