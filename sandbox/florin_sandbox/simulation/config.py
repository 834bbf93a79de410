"""The configuration of a simulation, and its limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

CHAINS: Final = ("evm", "solana")
# lowest and highest value by name
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
# with more per day the clock would advance in steps of one block all day
PAYMENTS_PER_DAY_MAX: Final = 20_000


class InvalidSimulationConfig(ValueError):  # noqa: N818  (the message goes to the user as it is)
    """A value of the configuration is not allowed; the text says which, and the limits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulationConfig:
    """The configuration of a simulation. InvalidSimulationConfig if a value is not allowed.

    `abandoners` and `reorgs` are shares of all payments: of buyers who leave before they sign, and
    of EVM payments whose block is reorganized. `slow_chain` is slower than it promises;
    `outage_chain` stops once, for `outage_minutes`. `confirmations` is the confirmation depth on
    the EVM chain in blocks; 0 means that of the settings. `volatility` is the standard deviation of
    a coin's daily price change in percent, and `jump` one sudden change in percent; if both are 0,
    the price of the settings does not move.
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
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, type(least) | int):
                raise InvalidSimulationConfig(f"{name} is {value!r}, which is not a number")
            if not least <= value <= most:
                raise InvalidSimulationConfig(
                    f"{name} is {value}: it must be from {least} to {most}"
                )
        if self.slow_chain not in {"", *CHAINS}:
            raise InvalidSimulationConfig(
                f"slow_chain is {self.slow_chain!r}: it must be evm, solana or empty"
            )
        if self.outage_chain not in CHAINS:
            raise InvalidSimulationConfig(
                f"outage_chain is {self.outage_chain!r}: it must be evm or solana"
            )
        if self.payments > self.days * PAYMENTS_PER_DAY_MAX:
            raise InvalidSimulationConfig(
                f"payments is {self.payments}: at most {PAYMENTS_PER_DAY_MAX} per day are allowed"
            )
