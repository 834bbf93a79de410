"""Chains with real money on which a count of blocks alone decides what is final."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from florin_server.rails.evm.settings import EvmChain
from florin_server.rails.networks.chain_files import Chain


def list_missing(chains: Iterable[Chain]) -> Iterator[str]:
    """Yield a sentence for each chain with real money that has no finality rule but a count."""
    for chain in chains:
        if not isinstance(chain, EvmChain) or not chain.live:
            continue
        if not chain.final_after_s and chain.finality_tag == "none":
            yield (
                f"{chain.name}: {chain.confirmations} blocks alone make a payment final, however "
                "fast they come: set final_after_s, finality_tag or both"
            )
