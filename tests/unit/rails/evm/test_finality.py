"""Test finality by time, by the chain's tag and by count, against false claims of a node."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import floor
from statistics import median

import pytest
from florin_server.rails.evm.reading.finality import FinalityTracker
from florin_server.rails.evm.settings import EvmChainSettings
from florin_server.rails.networks.known_networks import NETWORKS
from florin_server.rails.pace import BLOCK_S_MIN, PaceMeter

SETTLER, TREASURY = "0x" + "ab" * 20, "0x" + "fe" * 20
BASE = 8453
EVM = [network for network in NETWORKS if network.id.startswith("eip155:")]


def settings(chain_id: int = BASE, **changes) -> EvmChainSettings:
    values = {"chain_id": chain_id, "settler": SETTLER, "treasury": TREASURY, "name": "Test"}
    return EvmChainSettings(**{**values, **changes})


@dataclass
class Profile:
    """A chain with a pace in seconds, and a node that reads it; all times are real seconds."""

    chain: EvmChainSettings
    block_s: float
    look_s: float = 0.2
    started: float = 1_000_000.0
    skew_s: float = 0.0  # how far the node's timestamps are ahead
    tag_depth: int | None = None
    now: float = 1_000_000.0
    finals: list[tuple[float, int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.finality = FinalityTracker(self.chain, lambda: self.now)

    @property
    def head(self) -> int:
        return floor((self.now - self.started) / self.block_s + 1e-6)

    def made_at(self, number: int) -> float:
        return self.started + number * self.block_s

    def look(self, *, head: int | None = None, tagged: int | None = None) -> int:
        number = self.head if head is None else head
        if tagged is None and self.tag_depth is not None:
            tagged = max(0, number - self.tag_depth)
        stamp = floor(self.made_at(number) + self.skew_s)
        final = self.finality.record_head(number, f"0x{number}", stamp, tagged)
        self.finals.append((self.now, final))
        return final

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += self.look_s
            self.look()

    def depth_s(self) -> float:
        """Return the smallest real age of a final block."""
        return round(
            min(now - self.made_at(number) for now, number in self.finals if number >= 0), 6
        )


def test_base_at_200_ms_is_final_after_10_seconds_and_not_after_5_blocks():
    base = Profile(settings(), block_s=0.2)
    base.run(60)
    assert base.depth_s() >= 10
    assert base.finality.get_depth in {51, 52}
    # and hardly later: by at most two looks
    steady = [now - base.made_at(final) for now, final in base.finals[150:]]
    assert median(steady) <= 10 + 2 * base.look_s


@pytest.mark.parametrize("look_s", [0.151, 0.2125, 0.233])
def test_pace_of_base_is_measured_to_the_block_by_looks_of_any_pace(look_s):
    base = Profile(settings(), block_s=0.2, look_s=look_s)
    base.run(90)
    assert base.finality.get_depth == 51
    steady = base.finals[300:]
    assert min(now - base.made_at(final) for now, final in steady) >= 10 - 1e-6


def test_pause_of_the_chain_makes_no_depth_shallower():
    base = Profile(settings(), block_s=0.2)
    base.run(40)
    # ten seconds without a block
    base.now += 10
    base.started += 10
    base.run(20)
    assert base.finality.get_depth >= 51


@pytest.mark.parametrize("network", EVM, ids=lambda item: item.name)
@pytest.mark.parametrize("block_s", [0.2, 2.0, 12.0])
def test_every_network_is_as_deep_in_seconds_at_any_pace(network, block_s):
    pace = network.pace
    assert pace.final_after_s > 0
    tag_depth = 1 if pace.finality_tag != "none" else None
    chain = settings(int(network.id[7:]))
    profile = Profile(chain, block_s, look_s=max(0.2, block_s / 3), tag_depth=tag_depth)
    profile.run(3 * pace.final_after_s + 40 * block_s)
    assert profile.finals[-1][1] > 0
    # timestamps are whole seconds; the settings cover that second
    assert profile.depth_s() >= pace.final_after_s
    results = [(now, final) for now, final in profile.finals if final >= 0]
    blocks = min(floor((now - profile.started) / block_s + 1e-6) - final for now, final in results)
    assert blocks >= pace.confirmations - 1


@pytest.mark.parametrize("block_s", [0.2, 2.0])
def test_reorg_depth_is_not_underestimated_before_the_pace_is_measured(block_s):
    base = Profile(settings(), block_s)
    base.look()
    assert (base.finality.pace.block_s, base.finality.get_depth) == (None, 5)
    # the fastest pace that is accepted, for 10 s
    assert base.finality.get_reorg_depth == 201
    base.run(60)
    assert base.finality.get_reorg_depth == base.finality.get_depth >= 10 / block_s


def test_blocks_above_a_tag_that_stays_behind_may_be_replaced():
    base = Profile(settings(finality_tag="safe"), block_s=2, tag_depth=90)
    base.run(600)
    assert (base.finality.get_depth, base.finality.get_reorg_depth) == (6, 90)
    base.tag_depth = 10**6
    base.run(10_000)
    assert base.finality.get_reorg_depth == 1000
    counted = Profile(settings(998_877, confirmations=3), block_s=2)
    counted.look()
    assert counted.finality.get_reorg_depth == 3


def test_old_settings_keep_the_count_and_get_the_seconds_of_the_network():
    chain = settings(confirmations=5)
    assert (chain.confirmations, chain.final_after_s) == (5, 10)
    chain = settings(confirmations=200)
    profile = Profile(chain, block_s=0.2)
    profile.run(60)
    assert profile.finals[-1][1] == profile.head - 199


def test_unregistered_chain_with_a_count_alone_is_decided_by_the_count():
    profile = Profile(settings(424_242, confirmations=3), block_s=2)
    assert not profile.finality.is_timed
    profile.now += 20
    assert profile.look() == 8
    assert FinalityTracker(profile.chain).get_final_block(1) == -1


def test_node_that_claims_fast_blocks_gets_no_shallow_depth():
    """Within a second the node claims a thousand blocks with timestamps far ahead."""
    base = Profile(settings(), block_s=2)
    base.run(30)
    final = base.finals[-1][1]
    head = base.head
    for step in range(1, 20):
        base.now += 0.05
        number = head + 100 * step
        result = base.finality.record_head(
            number, f"0xf{number}", floor(base.now) + 100 * step, None
        )
        # claims of this second are not final; blocks seen 9 s ago can be
        assert final <= result <= head
        assert base.now - base.made_at(result) >= 9


def test_claimed_pace_is_bounded():
    base = Profile(settings(), block_s=0.001, look_s=2.5)
    base.run(60)
    assert base.finality.pace.block_s == BLOCK_S_MIN
    assert base.finality.get_depth == 201


def test_node_that_claims_slow_blocks_leaves_seconds_and_floor():
    base = Profile(settings(), block_s=500, look_s=500)
    base.run(10_000)
    assert base.finality.get_depth == 5
    assert base.depth_s() >= 10


def test_timestamps_ahead_of_time_make_nothing_final_sooner():
    base = Profile(settings(), block_s=0.2)
    base.run(5)
    base.skew_s = 3600
    base.run(3)
    assert {final for _, final in base.finals} == {-1}


def test_timestamps_that_stand_still_make_nothing_final():
    base = Profile(settings(), block_s=0.2)
    for _ in range(100):
        base.now += 0.2
        assert base.finality.record_head(base.head, f"0x{base.head}", 5, None) == -1


def test_single_outlier_hardly_changes_the_pace():
    base = Profile(settings(), block_s=0.2)
    base.run(40)
    base.now += 1  # a late look at older blocks
    base.look()
    base.run(20)
    assert base.finality.pace.block_s == pytest.approx(0.2, rel=0.1)


def test_tag_above_the_head_is_not_believed():
    chain = settings(finality_tag="finalized", final_after_s=2)
    profile = Profile(chain, block_s=0.2, tag_depth=60)
    profile.run(30)
    before = profile.look()
    assert before == profile.head - 60
    profile.now += 1
    assert profile.look(tagged=profile.head + 1) == before


def test_tag_that_goes_back_takes_finality_back():
    profile = Profile(settings(finality_tag="safe"), block_s=0.2)
    profile.tag_depth = 60
    profile.run(30)
    assert profile.look(tagged=40) == 40


def test_tag_at_the_head_is_as_deep_as_the_seconds():
    profile = Profile(settings(finality_tag="finalized"), block_s=0.2, tag_depth=0)
    profile.run(60)
    assert profile.depth_s() >= 10


def test_node_without_the_tag_makes_nothing_final():
    profile = Profile(settings(finality_tag="finalized"), block_s=0.2)
    profile.run(30)
    assert {final for _, final in profile.finals} == {-1}
    assert "name no `finalized` block" in profile.finality.get_problem
    # a node that has the tag again, or never needed it, has no problem
    profile.finality.record_head(10**6, "0x1", 10**9, 5)
    assert profile.finality.get_problem == ""
    untagged = Profile(settings(), block_s=0.2)
    untagged.run(30)
    assert untagged.finality.get_problem == ""


def test_replaced_blocks_wait_anew():
    base = Profile(settings(), block_s=0.2)
    base.run(30)
    final = base.finals[-1][1]
    fork = final + 5
    base.finality.forget_replaced(fork, "0xother")
    base.now += 1
    assert base.look() == fork - 1
    assert final < fork - 1 < base.head - 40


def test_lagging_node_does_not_move_finality_back():
    base = Profile(settings(), block_s=0.2)
    base.run(30)
    final = base.finals[-1][1]
    assert base.look(head=base.head - 3) in range(final - 3, final + 1)
    assert base.look() == final


def test_half_an_hour_of_fast_blocks_is_final_too():
    profile = Profile(settings(final_after_s=1800), block_s=0.2)
    profile.run(2000)
    assert profile.finals[-1][1] > 0
    late = profile.now - profile.made_at(profile.finals[-1][1])
    assert 1800 <= late <= 1803


def restarted(before: Profile, away_s: float) -> Profile:
    """Return another process on the same chain, with the stored heads of the one before."""
    heads = before.finality.list_observed_heads()
    after = replace(before, now=before.now + away_s, finals=[])
    after.finality.restore_observed_heads(
        [replace(head, age_s=head.age_s + away_s) for head in heads]
    )
    return after


@pytest.mark.parametrize("chain_id", [BASE, 1])
def test_restart_makes_payments_wait_for_no_longer(chain_id):
    chain = settings(chain_id)
    base = Profile(chain, block_s=0.2)
    base.run(3 * chain.final_after_s)
    after = restarted(base, away_s=1)
    after.finality.pace.restore(0.2)
    after.run(chain.final_after_s)
    assert after.depth_s() >= chain.final_after_s
    # final blocks stay final; later ones are late by the step between the stored heads
    late = [now - after.made_at(final) for now, final in after.finals]
    assert max(late) <= chain.final_after_s * (1 + 1 / 12) + 1 + 3 * base.look_s


def test_restart_without_stored_heads_waits_again():
    base = Profile(settings(), block_s=0.2)
    base.run(30)
    after = replace(base, now=base.now + 1, finals=[])
    after.run(8)
    assert {final for _, final in after.finals} == {-1}


def test_restored_heads_make_nothing_final_without_timestamps_and_blocks():
    base = Profile(settings(), block_s=0.2)
    base.run(30)
    after = restarted(base, away_s=100)
    head = base.head
    # stopped timestamps are not enough, nor is a head without blocks above it
    final = base.finals[-1][1]
    assert after.finality.record_head(head + 1, "0x1", floor(base.now), None) <= final
    result = after.finality.record_head(head + 2, "0x2", floor(base.now) + 100, None)
    assert final < result <= head - 2


def test_restored_heads_never_replace_observed_heads():
    base = Profile(settings(), block_s=0.2)
    base.run(30)
    heads = base.finality.list_observed_heads()
    before = base.look()
    base.finality.restore_observed_heads([replace(head, age_s=head.age_s + 1000) for head in heads])
    assert base.look() == before


def test_stored_heads_are_few_and_cover_the_finality_time():
    base = Profile(settings(), block_s=0.2)
    base.run(60)
    heads = base.finality.list_observed_heads()
    assert len(heads) <= 16
    assert heads[0].age_s >= 9
    assert heads[-1].number == base.head
    assert [head.number for head in heads] == sorted({head.number for head in heads})
    assert Profile(settings(999), block_s=0.2).finality.list_observed_heads() == []


def test_restored_pace_counts_until_a_pace_is_measured():
    base = Profile(settings(), block_s=0.2)
    base.finality.pace.restore(2.0)
    assert (base.finality.pace.block_s, base.finality.pace.measured_s) == (2.0, None)
    assert base.finality.get_depth == 6
    base.run(20)
    assert base.finality.pace.block_s == pytest.approx(0.2, rel=0.1)
    base.finality.pace.restore(0.0)
    assert PaceMeter().block_s is None


def test_larger_amounts_are_final_in_their_own_time_at_any_pace():
    steps = [{"from_amount": {"USDC": "1000"}, "final_after_s": 60}]
    chain = settings(tokens=["USDC"], larger_amounts=steps)
    base = Profile(chain, block_s=0.2)
    base.run(100)
    finality = base.finality
    assert finality.depth_of(60) in {300, 301}
    assert finality.get_reorg_depth == finality.depth_of(60)
    larger = finality.get_final_block(base.head, 60)
    assert 60 <= round(base.now - base.made_at(larger), 6) <= 60 + 3 * base.look_s
    usual = base.finals[-1][1]
    assert 10 <= round(base.now - base.made_at(usual), 6) <= 10 + 3 * base.look_s
    # replaced blocks make the larger amounts in them wait again
    fork = larger + 5
    finality.forget_replaced(fork, "0xother")
    base.now += 0.2
    base.look()
    assert finality.get_final_block(base.head, 60) < fork


def test_restart_assumes_the_fastest_blocks_for_no_longer_than_the_usual_rule():
    steps = [{"from_amount": {"USDC": "1000"}, "final_after_s": 3600}]
    finality = Profile(settings(tokens=["USDC"], larger_amounts=steps), block_s=0.2).finality
    assert finality.get_reorg_depth == 72_001
    finality.pace.restore(2.0)
    assert finality.get_reorg_depth == 1801
