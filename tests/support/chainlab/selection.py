"""The profile that a run's harnesses take on, by a pytest option or an environment variable."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.chainlab import own_pace
from tests.support.chainlab.profiles import BY_NAME, ChainProfile, EvmProfile, SolanaProfile

VARIABLE: Final = "FLORIN_CHAIN_PROFILE"


def get_selected_profile() -> ChainProfile | None:
    """Return the selected profile, or None for the harnesses' own chain.

    Raise KeyError if no profile has that name.
    """
    name = os.environ.get(VARIABLE)
    return BY_NAME[name] if name else None


def get_selected_evm_profile() -> EvmProfile | None:
    """Return the selected profile if it is for an EVM chain."""
    profile = get_selected_profile()
    return profile if isinstance(profile, EvmProfile) else None


def get_selected_solana_profile() -> SolanaProfile | None:
    """Return the selected profile if it is for a Solana cluster."""
    profile = get_selected_profile()
    return profile if isinstance(profile, SolanaProfile) else None


def skip_own_pace(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Under a profile, skip tests that cannot run with it; deselect chains that take no profile.

    Tests on anvil and tests of the store do not depend on the profile.
    """
    profile = get_selected_profile()
    if profile is None:
        return
    elsewhere = [
        each_item
        for each_item in items
        if "anvil" in each_item.nodeid or "postgres" in each_item.nodeid
    ]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = [each_item for each_item in items if each_item not in elsewhere]
    suites = Path(config.rootpath, "tests", "contract")
    for item in items:
        if isinstance(item, pytest.Function) and item.path.is_relative_to(suites):
            path = item.path.relative_to(suites).as_posix()
            if reason := own_pace.find_skip_reason(profile.name, path, item.function.__name__):
                item.add_marker(pytest.mark.skip(reason=reason))
