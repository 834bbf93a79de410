"""The server's clock beside block times: wrong by minutes is reported, and no liar decides."""

from __future__ import annotations

import pytest
from florin_server.flows.operator.server_clock import compare


@pytest.mark.parametrize("offsets", [[7200], [61, 7200], [7200, 7201, -3], [60, 60, 0, 60]])
def test_clock_behind_most_chains_is_reported(offsets):
    assert "behind the newest blocks" in compare(offsets, offsets)


@pytest.mark.parametrize(
    "offsets",
    [[], [59], [7200, 0], [7200, 0, -1], [7200, 7200, 0, 0], [-900, -1], [-900, -1, 7200]],
)
def test_one_lying_chain_of_several_reports_nothing(offsets):
    assert compare(offsets, offsets) == ""


def test_clock_ahead_of_chains_with_real_money_is_reported():
    assert "ahead of the newest blocks" in compare([-601, -7200], [-601, -7200])


def test_resting_test_chain_does_not_tell_that_the_clock_is_ahead():
    assert compare([-7200], []) == ""
