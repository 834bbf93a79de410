"""What the settings say of any chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ChainSettings(Protocol):
    """What settings of every kind of chain have in common."""

    @property
    def caip2(self) -> str:
        """The chain's CAIP-2 id."""

    @property
    def live(self) -> bool:
        """True if its money is real."""

    @property
    def eta_s(self) -> int:
        """Seconds that a payment usually takes to be final."""

    @property
    def pegs(self) -> Mapping[str, str | None]:
        """The peg (ISO 4217) of every asset that is named, by CAIP-19."""

    @property
    def treasury_account(self) -> str:
        """The treasury's CAIP-10 id."""


class Facts:
    """The part of a rail that the settings tell."""

    def __init__(self, settings: ChainSettings) -> None:
        self.chain_id = settings.caip2
        self.live = settings.live
        self.eta_s = settings.eta_s
        self.treasury = settings.treasury_account
        self.pegs = settings.pegs

    def extra_wait_s(self, asset: str, value: int) -> int:  # noqa: ARG002
        """Return 0: amounts wait for the same."""
        return 0
