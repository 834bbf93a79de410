"""What somebody who simulates may choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHAINS: Final = ("evm", "solana")
# by name: the least, the most
_BOUNDS: Final = {
    "seed": (0, 2**63 - 1),
    "payments": (1, 100_000),
    "days": (1, 365),
    "merchants": (1, 50),
    "abandoners": (0.0, 0.9),
    "reorgs": (0.0, 1.0),
    "outage_minutes": (0, 1_440),
    "confirmations": (0, 30),
    "volatility": (0.0, 20.0),
    "jump": (-15.0, 15.0),
}
# more in a day would need the clock to go by in steps of a block, all day
A_DAY_MAX: Final = 20_000


class BadKnob(ValueError):  # noqa: N818  (told to whoever chose it, as it is)
    """Something was chosen that cannot be simulated; the text says what, and what can."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Knobs:
    """What is simulated. BadKnob if it cannot be.

    Shares are of all payments: of buyers who leave before they sign, and of payments on the EVM
    chain whose block is replaced. What is planted is for those who look for it: a chain that is
    slower than it promises, and one that stops for a while, once. `confirmations` are the blocks
    that make a payment final on the EVM chain; 0 leaves that to the settings. `volatility`
    is by how many percent a coin's price moves in a day, as a standard deviation, and `jump` by how
    many it changes at once, besides; a price of the settings stands still if both are 0.
    """

    seed: int = 1
    payments: int = 1_000
    days: int = 7
    merchants: int = 5
    abandoners: float = 0.15
    reorgs: float = 0.02
    slow_chain: str = ""
    outage_chain: str = "evm"
    outage_minutes: int = 0
    confirmations: int = 0
    volatility: float = 0.0
    jump: float = 0.0

    def __post_init__(self) -> None:
        for name, (least, most) in _BOUNDS.items():
            found = getattr(self, name)
            if isinstance(found, bool) or not isinstance(found, type(least) | int):
                raise BadKnob(f"{name} is {found!r}, which is no number")
            if not least <= found <= most:
                raise BadKnob(f"{name} is {found}: it must be from {least} to {most}")
        if self.slow_chain not in {"", *CHAINS}:
            raise BadKnob(f"slow_chain is {self.slow_chain!r}: it must be evm, solana or empty")
        if self.outage_chain not in CHAINS:
            raise BadKnob(f"outage_chain is {self.outage_chain!r}: it must be evm or solana")
        if self.payments > self.days * A_DAY_MAX:
            raise BadKnob(f"payments is {self.payments}: there are at most {A_DAY_MAX} a day")
