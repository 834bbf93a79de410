"""Settings that every kind of chain has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol


class ChainSettings(Protocol):
    """The common part of the settings of every kind of chain."""

    @property
    def caip2(self) -> str:
        """Return the chain's CAIP-2 id."""

    @property
    def live(self) -> bool:
        """Return True if the chain's money is real."""

    @property
    def eta_s(self) -> int:
        """Return the seconds that a payment usually takes to be final."""

    @property
    def pegs(self) -> Mapping[str, str | None]:
        """Return the peg (ISO 4217) of every named asset, by CAIP-19."""

    @property
    def treasury_account(self) -> str:
        """Return the treasury's CAIP-10 id."""


class RailProperties:
    """The properties of a rail that follow from the settings."""

    def __init__(self, settings: ChainSettings) -> None:
        self.chain_id = settings.caip2
        self.live = settings.live
        self.eta_s = settings.eta_s
        self.treasury = settings.treasury_account
        self.pegs = settings.pegs

    def extra_wait_s(self, asset: str, value: int) -> int:  # noqa: ARG002
        """Return 0: all amounts wait equally long."""
        return 0
