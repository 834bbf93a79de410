"""Profiles of chains as of November 2026: pace, timestamps, finality, prices and accidents.

`docs/chains.md` has the sources and dates. Times are in seconds, depths in blocks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from florin_sandbox.devnet.evm.block_rules import BlockRules
from florin_sandbox.devnet.evm.schedule import (
    PRAGUE_ACCOUNT,
    PRAGUE_FLOOR,
    PRAGUE_SLOT,
    GasSchedule,
)
from florin_server.rails.networks.network import NetworkPace
from florin_server.rails.networks.registry import NETWORKS_BY_ID

# what a harness's payment takes without a profile: final with the second block on top of its own
_STEPS: Final = 2


@dataclass(frozen=True, slots=True)
class ChainAccident:
    """An accident of a chain that recurs after a fixed number of blocks.

    No block comes for `silent_s`; then the newest `replaced` blocks are replaced, and their
    transactions are mined again in the new ones.
    """

    every: int
    silent_s: float = 0.0
    replaced: int = 0


@dataclass(frozen=True, slots=True)
class GasPrices:
    """Gas for a new slot and a new account, and the minimum for a byte of calldata."""

    slot: int = PRAGUE_SLOT
    account: int = PRAGUE_ACCOUNT
    floor: int = PRAGUE_FLOOR

    @property
    def dearer_slots(self) -> int:
        """Return how much more four new slots cost than with Prague's prices."""
        return 4 * (self.slot - PRAGUE_SLOT)

    def schedule(self) -> GasSchedule:
        """Return the prices in the form that the embedded chain takes."""
        return GasSchedule(self.slot, self.account, self.floor)


@dataclass(frozen=True, slots=True)
class EvmProfile:
    """An EVM chain. Finality is that of the registry's entry of `network`, else `pace`."""

    name: str
    block_s: float
    network: str | None = None
    pace: NetworkPace = field(
        default_factory=lambda: NetworkPace(confirmations=3, poll_ms=500, eta_s=5)
    )
    rules: BlockRules = field(default_factory=BlockRules)
    gas: GasPrices = field(default_factory=GasPrices)
    accident: ChainAccident | None = None
    payment_gas_max: int = 1_000_000  # the settings' default, unless an operator has to raise it

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings of the chain as its operator would write them."""
        return {"payment_gas_max": self.payment_gas_max, **self.finality}

    @property
    def finality(self) -> dict[str, Any]:
        """Return the settings that decide when a payment is final."""
        pace = self.pace if self.network is None else NETWORKS_BY_ID[self.network].pace
        names = ("confirmations", "final_after_s", "finality_tag")
        return {name: getattr(pace, name) for name in names}

    @property
    def depth(self) -> int:
        """Return the least number of blocks, its own included, that a final block has."""
        after, least = self.finality["final_after_s"], self.finality["confirmations"]
        return max(least, ceil(after / self.block_s) + 1 if after else 0)

    @property
    def promise_s(self) -> float:
        """Return the least age of a final block in seconds, from its depth and `final_after_s`."""
        return max(self.finality["final_after_s"], (self.depth - 1) * self.block_s)

    @property
    def parts(self) -> tuple[int, ...]:
        """Return the numbers of blocks between two polls, for the blocks of one step.

        Two steps make a payment final, as two blocks do without a profile, and one step does not.
        Harnesses see a block only when they poll, so the first one is polled alone.
        """
        after = self.finality["final_after_s"]
        if not after:
            return (ceil((self.depth - 1) / _STEPS),)
        # timestamps can lag, and blocks that a harness seals at once make the pace seem a little
        # faster
        lagging = ceil((after + self.rules.timestamp_s) / self.block_s) + 1
        total = ceil((max(self.depth, lagging) + 4) / _STEPS)
        # a block with only these on top of it is not final yet
        return 1, min(total, self.depth - 2) - 1


@dataclass(frozen=True, slots=True)
class SolanaProfile:
    """A Solana cluster: slots on top that make a slot confirmed, and final."""

    name: str
    slot_s: float
    confirmed_slots: int
    finalized_slots: int


ChainProfile = EvmProfile | SolanaProfile

_BASE: Final = "eip155:8453"
# about five blocks share a second; two system transactions begin each
_DENIM: Final = BlockRules(system_transactions=2)

PROFILES: Final[tuple[ChainProfile, ...]] = (
    EvmProfile("base-before-denim", 2.0, _BASE, rules=BlockRules(system_transactions=1)),
    EvmProfile("base", 0.2, _BASE, rules=_DENIM),
    EvmProfile("arbitrum", 0.25, "eip155:42161"),
    EvmProfile("bsc", 0.45, "eip155:56", rules=BlockRules(safe_depth=1, final_depth=2)),
    EvmProfile("monad", 0.4, "eip155:143", rules=BlockRules(safe_depth=1, final_depth=2)),
    EvmProfile(
        "ethereum-glamsterdam",
        12.0,
        "eip155:1",
        rules=BlockRules(safe_depth=32, final_depth=64),
        gas=GasPrices(slot=97_920, account=183_600, floor=64),
    ),
    # not in the registry: an operator's count of blocks decides
    EvmProfile("tempo", 0.5, gas=GasPrices(slot=250_000), payment_gas_max=2_000_000),
    EvmProfile(
        "sequencer-restart",
        0.2,
        _BASE,
        rules=_DENIM,
        accident=ChainAccident(every=40, silent_s=8.0, replaced=3),
    ),
    EvmProfile("halt", 0.2, _BASE, rules=_DENIM, accident=ChainAccident(every=150, silent_s=240.0)),
    EvmProfile(
        "deep-reorganization",
        0.2,
        _BASE,
        rules=_DENIM,
        accident=ChainAccident(every=160, replaced=45),
    ),
    EvmProfile(
        "repeated-timestamps",
        0.2,
        _BASE,
        rules=BlockRules(timestamp_s=4, system_transactions=2),
    ),
    SolanaProfile("solana-tower", 0.4, confirmed_slots=1, finalized_slots=32),
    # final by certificate some 150 ms after its block, which is within the next slot
    SolanaProfile("solana-alpenglow", 0.214, confirmed_slots=1, finalized_slots=1),
)

EVM: Final = tuple(item for item in PROFILES if isinstance(item, EvmProfile))
SOLANA: Final = tuple(item for item in PROFILES if isinstance(item, SolanaProfile))
BY_NAME: Final = {item.name: item for item in PROFILES}
