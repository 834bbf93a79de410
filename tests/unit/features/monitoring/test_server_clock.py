"""Test the server clock against block times: large errors are reported, and no liar decides."""

from __future__ import annotations

import pytest
from florin_server.features.monitoring.service.server_clock import describe_offsets


@pytest.mark.parametrize("offsets", [[7200], [61, 7200], [7200, 7201, -3], [60, 60, 0, 60]])
def test_clock_behind_most_chains_is_reported(offsets):
    assert "behind the newest blocks" in describe_offsets(offsets, offsets)


@pytest.mark.parametrize(
    "offsets",
    [[], [59], [7200, 0], [7200, 0, -1], [7200, 7200, 0, 0], [-900, -1], [-900, -1, 7200]],
)
def test_clock_offset_without_a_majority_of_chains_reports_nothing(offsets):
    assert describe_offsets(offsets, offsets) == ""


def test_clock_ahead_of_chains_with_real_money_is_reported():
    assert "ahead of the newest blocks" in describe_offsets([-601, -7200], [-601, -7200])


def test_idle_test_chain_reports_no_clock_problem():
    assert describe_offsets([-7200], []) == ""
