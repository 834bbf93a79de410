"""The part of the application for users of the chains."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from florin_server.rails.chain_state import ChainState
from florin_server.rails.pricing.prices import PriceSource
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset


class ChainContext(Protocol):
    """The chains, and the prices of their assets."""

    @property
    def rails(self) -> Mapping[str, Rail]:
        """Return the rails, by CAIP-2."""

    @property
    def chains(self) -> Mapping[str, ChainState]:
        """Return the states of the chains, by CAIP-2."""

    @property
    def prices(self) -> PriceSource:
        """Return the source of prices."""

    def list_assets(self, *, live: bool) -> dict[str, tuple[Rail, Asset]]:
        """Return every asset that can be paid with in one mode, by CAIP-19."""

    def find_asset(self, asset_id: str) -> Asset | None:
        """Return one asset by CAIP-19, in either mode."""
