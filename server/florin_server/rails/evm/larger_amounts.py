"""Amounts that need blocks of more seconds to be final than the chain's usual rule."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from florin_server.rails.networks.network import NetworkPace, PublicNetwork

STEPS_MAX: Final = 4
# each start reads again the blocks that can be replaced: one hour of them at most
_AFTER_S_MAX: Final = 3_600
_TAGS: Final = ("none", "safe", "finalized")

WholeUnits = Annotated[str, Field(pattern=r"^[0-9]{1,18}(\.[0-9]{1,18})?$")]


def to_minor_units(amount: str, decimals: int) -> int:
    """Return an amount in whole units as minor units, rounded down."""
    total, _, fraction = amount.partition(".")
    return int(total + fraction[:decimals].ljust(decimals, "0"))


class LargerAmounts(BaseModel):
    """Amounts that wait longer until they are final.

    Each asset of the chain must be named, so that none waits for less than the operator meant.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    from_amount: dict[str, WholeUnits] = Field(
        min_length=1,
        description="the least amount of each asset of the chain, by symbol in whole units: "
        '`{ USDC = "1000", EURC = "900" }`. A payment of this amount or more waits that long',
    )
    final_after_s: int = Field(
        gt=0,
        le=_AFTER_S_MAX,
        description="seconds of blocks that make such a payment final: more than those of the "
        "chain and of the entry before",
    )

    def least_units(self, symbol: str, decimals: int) -> int | None:
        """Return the least amount in minor units, rounded down.

        None for an asset that is not named.
        """
        amount = self.from_amount.get(symbol)
        if amount is None:
            return None
        return to_minor_units(amount, decimals)


def require_deeper(
    steps: Sequence[LargerAmounts],
    symbols: Iterable[str],
    usual: NetworkPace,
    network: PublicNetwork | None,
) -> None:
    """Require that each step waits longer than those before it, and at least as long as is safe.

    `usual` is the chain's own rule, `symbols` are the symbols of its assets. Raise ValueError
    otherwise.
    """
    if not steps:
        return
    if not usual.final_after_s:
        raise ValueError("larger_amounts wait longer than final_after_s, which is not set")
    if network is not None:
        _require_safe(usual, network)
    expected = set(symbols)
    before_s = usual.final_after_s
    before: dict[str, int] = {}
    for step in steps:
        if step.final_after_s <= before_s:
            raise ValueError(
                f"larger_amounts: final_after_s is {step.final_after_s}, and {before_s} for "
                "smaller amounts; larger amounts need a longer time"
            )
        named = set(step.from_amount)
        if missing := sorted(expected - named):
            raise ValueError(f"larger_amounts: from_amount names no amount of {missing[0]}")
        if unknown := sorted(named - expected):
            raise ValueError(f"larger_amounts: the chain has no asset {unknown[0]}")
        # compared in the smallest units that can be written
        amounts = {asset_symbol: step.least_units(asset_symbol, 18) or 0 for asset_symbol in named}
        for symbol, amount in amounts.items():
            if amount <= before.get(symbol, 0):
                raise ValueError(
                    f"larger_amounts: the amount of {symbol} must be above 0 and that of the "
                    "entry before"
                )
        before_s, before = step.final_after_s, amounts


def _require_safe(usual: NetworkPace, network: PublicNetwork) -> None:
    """Raise ValueError if the rule for small amounts is weaker than the network's own."""
    safe = network.pace
    for name in ("confirmations", "final_after_s"):
        value, least = getattr(usual, name), getattr(safe, name)
        if value < least:
            raise ValueError(
                f"with larger_amounts {name} is that of the smallest amounts, and {network.name} "
                f"takes {least} at least, not {value}"
            )
    if _TAGS.index(usual.finality_tag) < _TAGS.index(safe.finality_tag):
        raise ValueError(
            f"with larger_amounts finality_tag is that of the smallest amounts, and {network.name} "
            f"takes {safe.finality_tag!r}, not {usual.finality_tag!r}"
        )
