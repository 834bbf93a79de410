"""Amounts for which blocks of more seconds make a payment final than a chain takes as a rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from florin_server.rails.networks.network import Network, Pace

STEPS_MAX: Final = 4
# blocks that may be replaced are looked for again at each start: an hour of them at most
_AFTER_S_MAX: Final = 3_600
_TAGS: Final = ("none", "safe", "finalized")

WholeUnits = Annotated[str, Field(pattern=r"^[0-9]{1,18}(\.[0-9]{1,18})?$")]


class LargerAmounts(BaseModel):
    """Amounts that wait longer until they are final.

    Every asset of the chain is named, so that none waits for less than was meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    from_amount: dict[str, WholeUnits] = Field(
        min_length=1,
        description="the least amount of each asset of the chain, by symbol in whole units: "
        '`{ USDC = "1000", EURC = "900" }`. A payment of as much or more waits so long',
    )
    final_after_s: int = Field(
        gt=0,
        le=_AFTER_S_MAX,
        description="blocks of so many seconds make such a payment final: more than those of the "
        "chain and of the entry before",
    )

    def least_units(self, symbol: str, decimals: int) -> int | None:
        """Return the least amount in minor units, rounded down; None for an asset not named."""
        amount = self.from_amount.get(symbol)
        if amount is None:
            return None
        whole, _, fraction = amount.partition(".")
        return int(whole + fraction[:decimals].ljust(decimals, "0"))


def require_deeper(
    steps: Sequence[LargerAmounts], symbols: Iterable[str], usual: Pace, known: Network | None
) -> None:
    """Require that each step waits longer than all before it, and for no less than is safe.

    `usual` is the chain's own rule, `symbols` are those of its assets. ValueError otherwise.
    """
    if not steps:
        return
    if not usual.final_after_s:
        raise ValueError("larger_amounts wait longer than final_after_s, which is not set")
    if known is not None:
        _require_safe(usual, known)
    expected = set(symbols)
    before_s = usual.final_after_s
    before: dict[str, int] = {}
    for step in steps:
        if step.final_after_s <= before_s:
            raise ValueError(
                f"larger_amounts: final_after_s is {step.final_after_s}, and {before_s} for "
                "smaller amounts: larger ones wait longer"
            )
        named = set(step.from_amount)
        if missing := sorted(expected - named):
            raise ValueError(f"larger_amounts: from_amount names no amount of {missing[0]}")
        if unknown := sorted(named - expected):
            raise ValueError(f"larger_amounts: the chain has no asset {unknown[0]}")
        # compared in the smallest units that can be written
        amounts = {one: step.least_units(one, 18) or 0 for one in named}
        for symbol, amount in amounts.items():
            if amount <= before.get(symbol, 0):
                raise ValueError(
                    f"larger_amounts: the amount of {symbol} must be above 0 and that of the "
                    "entry before"
                )
        before_s, before = step.final_after_s, amounts


def _require_safe(usual: Pace, known: Network) -> None:
    """Refuse a rule for small amounts that is weaker than the network's own."""
    safe = known.pace
    for name in ("confirmations", "final_after_s"):
        value, least = getattr(usual, name), getattr(safe, name)
        if value < least:
            raise ValueError(
                f"with larger_amounts {name} is that of the smallest amounts, and {known.name} "
                f"takes {least} at least, not {value}"
            )
    if _TAGS.index(usual.finality_tag) < _TAGS.index(safe.finality_tag):
        raise ValueError(
            f"with larger_amounts finality_tag is that of the smallest amounts, and {known.name} "
            f"takes {safe.finality_tag!r}, not {usual.finality_tag!r}"
        )
