"""The profile that the labs of a run take on, by an option of pytest or an environment variable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.chainlab import own_pace
from tests.support.chainlab.profiles import BY_NAME, ChainProfile, EvmProfile, SolanaProfile

VARIABLE: Final = "FLORIN_CHAIN_PROFILE"


def selected() -> ChainProfile | None:
    """Return the profile that was selected, None for the labs' own chain.

    KeyError if there is none of that name.
    """
    name = os.environ.get(VARIABLE)
    return BY_NAME[name] if name else None


def selected_evm() -> EvmProfile | None:
    """Return the selected profile if it is one of an EVM chain."""
    profile = selected()
    return profile if isinstance(profile, EvmProfile) else None


def selected_solana() -> SolanaProfile | None:
    """Return the selected profile if it is one of a Solana cluster."""
    profile = selected()
    return profile if isinstance(profile, SolanaProfile) else None


def skip_own_pace(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under a profile, skip tests that cannot be run so, and leave out chains that have none.

    What a test does on anvil is the same under each profile, and so is what the store does.
    """
    profile = selected()
    if profile is None:
        return
    elsewhere = [one for one in items if "anvil" in one.nodeid or "postgres" in one.nodeid]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = [one for one in items if one not in elsewhere]
    suites = Path(config.rootpath, "tests", "contract")
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(suites):
            path = item.path.relative_to(suites).as_posix()
            if reason := own_pace.reason_to_skip(profile.name, path, item.function.__name__):
                item.add_marker(pytest.mark.skip(reason=reason))
