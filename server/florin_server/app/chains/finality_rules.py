"""Sentences about what makes payments final on each chain, for `doctor` and `chain list`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from florin_server.rails.evm.larger_amounts import LargerAmounts
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.networks.chain_files import AnyChainSettings


def list_missing(chains: Iterable[AnyChainSettings]) -> Iterator[str]:
    """Yield a sentence for each chain with real money that has no finality rule but a count."""
    for chain in chains:
        if not isinstance(chain, EvmChainSettings) or not chain.live:
            continue
        if not chain.final_after_s and chain.finality_tag == "none":
            yield (
                f"{chain.name}: {chain.confirmations} blocks alone make a payment final, no "
                "matter how fast the chain produces them: set final_after_s, finality_tag or both"
            )


def list_larger_amounts(chains: Iterable[AnyChainSettings]) -> Iterator[str]:
    """Yield a sentence for each chain on which larger amounts are final later."""
    for chain in chains:
        if isinstance(chain, EvmChainSettings) and chain.larger_amounts:
            steps = (
                f"from {_format_amounts(step)} after {step.final_after_s} s"
                for step in chain.larger_amounts
            )
            usual = f"{chain.name}: payments are final after {chain.final_after_s} s of blocks"
            yield "; ".join((usual, *steps))


def _format_amounts(step: LargerAmounts) -> str:
    return " or ".join(f"{amount} {symbol}" for symbol, amount in step.from_amount.items())
