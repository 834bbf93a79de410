"""The intervals and tests of the notebooks, compared with simulated truth and published results.

Each simulation has a seed and a fixed number of rounds. The limits of a coverage allow for the
chance of that number of rounds: three standard errors of 95 % in 400 rounds are 3.3 points.
"""

from __future__ import annotations

import math

import estimates
import numpy as np
import pytest

ROUNDS = 400
NOMINAL = 0.95
SLACK = 3 * math.sqrt(NOMINAL * (1 - NOMINAL) / ROUNDS)


def covers(low: float, truth: float, high: float) -> bool:
    return low <= truth <= high


# ---- Kaplan and Meier

# months of remission of 21 patients with 6-mercaptopurine (Freireich 1963), and who relapsed
MONTHS = [6, 6, 6, 6, 7, 9, 10, 10, 11, 13, 16, 17, 19, 20, 22, 23, 25, 32, 32, 34, 35]
RELAPSED = [1, 1, 1, 0, 1, 0, 1, 0, 0, 1, 1, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0]


def test_incidence_equals_the_published_remissions():
    result = estimates.incidence(MONTHS, RELAPSED)
    assert list(result.times) == [6, 7, 10, 13, 16, 22, 23]
    remaining = [0.857, 0.807, 0.753, 0.690, 0.627, 0.538, 0.448]
    assert 1 - result.shares == pytest.approx(remaining, abs=6e-4)
    # Greenwood's standard errors
    errors = np.sqrt(result.shares * (1 - result.shares) / result.effective)
    assert errors == pytest.approx([0.076, 0.087, 0.096, 0.107, 0.114, 0.128, 0.135], abs=6e-4)
    assert result.get_quantile(0.5)[0] == 23
    assert result.get_quantile(0.9) == (math.inf, math.inf, math.inf)
    assert result.get_share(5.9).share == 0


def test_incidence_without_censoring_is_the_share_of_the_sample():
    result = estimates.incidence([1, 2, 2, 4], [True] * 4)
    assert list(result.shares) == pytest.approx([0.25, 0.75, 1.0])
    assert result.get_share(2).get_bounds() == pytest.approx(estimates.wilson(3, 4))
    assert result.get_share(9).share == 1


def test_incidence_without_any_event_is_bounded_by_the_followed():
    result = estimates.incidence([5.0] * 20, [False] * 20)
    share = result.get_share(3)
    assert share.share == 0
    assert share.get_bounds()[1] == pytest.approx(0.1611, abs=5e-5)
    with pytest.raises(ValueError, match="nothing was followed for 6"):
        result.get_share(6)


@pytest.mark.parametrize(
    ("durations", "happened", "text"),
    [
        ([], [], "each subject needs"),
        ([1, 2], [True], "each subject needs"),
        ([1, -1], [True, True], "below zero"),
        ([1, math.nan], [True, True], "missing"),
    ],
)
def test_incidence_of_unusable_durations_is_refused(durations, happened, text):
    with pytest.raises(ValueError, match=text):
        estimates.incidence(durations, happened)


def test_censored_times_cover_the_truth_where_the_naive_median_is_too_short():
    """Buyers return after a mean of four days and are seen for up to seven."""
    rng, share, median, naive = np.random.default_rng(3), 0, 0, []
    truth = 4 * math.log(2)
    for _ in range(ROUNDS):
        waits, seen = rng.exponential(4, 150), rng.uniform(0, 7, 150)
        result = estimates.incidence(np.minimum(waits, seen), waits <= seen)
        share += covers(*insert(result.get_share(2).get_bounds(), 1 - math.exp(-0.5)))
        _, low, high = result.get_quantile(0.5)
        median += covers(low, truth, high)
        naive.append(np.median(waits[waits <= seen]))
    assert share / ROUNDS == pytest.approx(NOMINAL, abs=SLACK)
    assert median / ROUNDS == pytest.approx(NOMINAL, abs=SLACK)
    # the fault that the estimate removes
    assert max(naive) < truth


def insert(bounds: tuple[float, float], truth: float) -> tuple[float, float, float]:
    return bounds[0], truth, bounds[1]


def test_follow_up_length_alone_shows_no_trend():
    """Older cohorts are seen longer: raw shares rise with age, the estimates do not."""
    rng = np.random.default_rng(4)
    rejected = raw_rejected = 0
    for _ in range(ROUNDS):
        groups, raw = {}, {}
        for cohort, seen in enumerate((3.0, 5.0, 7.0)):
            waits = rng.exponential(6, 120)
            happened = waits <= seen
            result = estimates.incidence(np.minimum(waits, seen), happened)
            groups[str(cohort)] = result.get_share(3)
            raw[str(cohort)] = estimates.estimate_share(happened)
        rejected += estimates.compare(groups).p < 0.05
        raw_rejected += estimates.compare(raw).p < 0.05
    assert rejected / ROUNDS <= 0.05 + SLACK
    assert raw_rejected / ROUNDS > 0.5


# ---- shares of clusters


def draw_clusters(rng: np.random.Generator, count: int, mean: float, spread: float):
    """Return outcomes of clusters with shares of their own (beta), and the clusters' names."""
    sizes = rng.integers(1, 9, count)
    chances = rng.beta(mean * spread, (1 - mean) * spread, count)
    clusters = np.repeat(np.arange(count), sizes)
    return rng.random(clusters.size) < chances[clusters], clusters


def test_intervals_of_clusters_cover_the_truth_where_independent_ones_do_not():
    rng, aware, naive = np.random.default_rng(5), 0, 0
    for _ in range(ROUNDS):
        outcomes, clusters = draw_clusters(rng, 40, 0.3, 1.0)
        aware += covers(*insert(estimates.estimate_share(outcomes, clusters).get_bounds(), 0.3))
        naive += covers(*insert(estimates.wilson(int(outcomes.sum()), outcomes.size), 0.3))
    assert aware / ROUNDS == pytest.approx(NOMINAL, abs=SLACK)
    assert naive / ROUNDS < 0.85


def test_clusters_that_do_not_matter_widen_nothing_much():
    rng, total, effective = np.random.default_rng(6), 0, 0.0
    for _ in range(100):
        outcomes, clusters = draw_clusters(rng, 60, 0.3, 1e6)
        share = estimates.estimate_share(outcomes, clusters)
        total, effective = total + share.total, effective + share.effective
    assert effective / total > 0.8


def test_effective_size_of_extreme_data():
    # each row a cluster of its own
    assert estimates.estimate_share([1, 0, 1], ["a", "b", "c"]).effective == 3
    # one cluster counts as one row
    assert estimates.estimate_share([1, 0, 1], ["a"] * 3).effective == 1
    # no variance: clusters count as if their rows always agreed
    assert estimates.estimate_share([0] * 6, list("aabbcc")).effective == 3
    assert estimates.estimate_share([]).get_bounds() == (0.0, 1.0)


def test_student_quantiles_equal_tables():
    table = {1: 12.706, 2: 4.303, 3: 3.182, 5: 2.571, 10: 2.228, 30: 2.042, 1000: 1.962}
    for freedom, value in table.items():
        assert estimates.student_quantile(freedom) == pytest.approx(value, rel=0.01)


def test_bands_and_quantiles_of_batches_cover_the_truth():
    """Payments of one batch are final together: forty batches, not two hundred payments."""
    rng, band, naive, median = np.random.default_rng(7), 0, 0, 0
    for _ in range(ROUNDS):
        sizes = rng.integers(1, 10, 40)
        batches = np.repeat(np.arange(40), sizes)
        values = rng.random(40)[batches]
        at, shares, half = estimates.ecdf(values, batches)
        far = np.abs(shares - at).max()
        band += far <= half + 10 / at.size
        naive += far <= estimates.ecdf(values)[2] + 10 / at.size
        _, low, high = estimates.quantile(values, 0.5, batches)
        median += covers(low, 0.5, high)
    assert band / ROUNDS >= NOMINAL - SLACK
    assert naive / ROUNDS < 0.85
    assert median / ROUNDS >= NOMINAL - SLACK


def test_bounds_of_several_quantiles_cover_the_truth_together():
    """Notebook 11 reports three quantiles of one sample, whose batches are final together."""
    rng, held, shares = np.random.default_rng(13), 0, (0.5, 0.9, 0.95)
    for _ in range(ROUNDS):
        batches = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        values = rng.random(60)[batches]
        bounds = [estimates.band_quantile(values, share, batches)[1:] for share in shares]
        held += all(covers(*insert(b, share)) for b, share in zip(bounds, shares, strict=True))
    assert held / ROUNDS >= NOMINAL - SLACK


def test_bounds_of_an_average_order_cover_the_truth():
    """Orders of one buyer are alike and skewed: each buyer has a level, drawn once."""
    rng, held = np.random.default_rng(12), 0
    for _ in range(ROUNDS):
        sizes = rng.integers(1, 4, 120)
        buyers = np.repeat(np.arange(120), sizes)
        levels = rng.lognormal(0, 0.7, 120)
        _, low, high = estimates.bound_mean(levels[buyers], buyers, rounds=300)
        held += covers(low, math.exp(0.7**2 / 2), high)
    # bootstraps of skewed values are slightly too narrow
    assert held / ROUNDS == pytest.approx(NOMINAL, abs=SLACK + 0.01)
    with pytest.raises(ValueError, match="nothing to average"):
        estimates.bound_mean([], [])


# ---- prices


def test_volatility_covers_the_truth_whether_quotes_come_alone_or_in_pairs():
    """Quotes of one moment show no move: as steps they would make half of all steps zero."""
    rng, held, without = np.random.default_rng(13), 0, 0
    for _ in range(ROUNDS):
        days = np.sort(rng.random(60))
        walk = np.cumsum(rng.normal(0, 0.06 * np.sqrt(np.diff(days, prepend=days[0]))))
        twice = np.repeat(np.arange(60), rng.integers(1, 3, 60))
        estimate = estimates.estimate_volatility(days[twice], walk[twice], 1 / 1_440)
        held += covers(estimate.low, 0.06, estimate.high)
        close = estimates.estimate_volatility(
            days[twice] + np.arange(twice.size) / 1e9, walk[twice], 0
        )
        without += covers(close.low, 0.06, close.high)
    assert held / ROUNDS >= NOMINAL - SLACK
    assert without / ROUNDS < 0.5


def test_volatility_is_not_widened_by_a_jump():
    rng = np.random.default_rng(14)
    days = np.arange(1_000) / 1_440
    walk = np.cumsum(rng.normal(0, 0.06 / math.sqrt(1_440), 1_000))
    jumped = walk - 0.1 * (days > days[500])
    before, after = (estimates.estimate_volatility(days, logs, 0) for logs in (walk, jumped))
    assert after.sigma == pytest.approx(before.sigma, rel=0.01)
    assert before.steps == 999


def test_volatility_of_too_little_is_unknown_or_refused():
    alone = estimates.estimate_volatility([0.5], [1.0], 0)
    assert math.isnan(alone.sigma)
    assert (alone.low, alone.high, alone.steps) == (0, math.inf, 0)
    for days in ([], [2.0, 1.0]):
        with pytest.raises(ValueError, match="missing or not sorted"):
            estimates.estimate_volatility(days, days, 0)


def test_bounds_of_a_gain_cover_the_truth_where_moves_overlap():
    """A move counts for each buyer who decided during it: their gains are alike."""
    rng, held, alone = np.random.default_rng(15), 0, 0
    for _ in range(ROUNDS):
        moves = rng.normal(0, 0.02, 25)
        shared = np.repeat(np.arange(25), rng.integers(1, 6, 25))
        gains = moves[shared] * rng.lognormal(3, 0.7, shared.size)
        _, low, high = estimates.bound_sum(gains, shared)
        held += covers(low, 0.0, high)
        _, low, high = estimates.bound_sum(gains, np.arange(gains.size))
        alone += covers(low, 0.0, high)
    assert held / ROUNDS >= NOMINAL - SLACK
    assert alone / ROUNDS < NOMINAL - 2 * SLACK
    assert estimates.bound_sum([3.0, 4.0], [1, 1]) == (7.0, -math.inf, math.inf)


# ---- differences


def test_difference_equals_published_bounds():
    # from Newcombe (1998), table II, method 10
    for (a, n), (b, m), low, high in (
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
    ):
        parts = (estimates.Share(a / n, n, n), estimates.Share(b / m, m, m))
        assert estimates.difference(*parts)[1:] == pytest.approx((low, high), abs=5e-5)


def test_overlapping_intervals_can_hide_a_clear_difference():
    a, b = estimates.Share(40 / 200, 200, 200), estimates.Share(58 / 200, 200, 200)
    assert a.get_bounds()[1] > b.get_bounds()[0]
    assert estimates.difference(b, a)[1] > 0
    assert estimates.compare({"a": a, "b": b}).p == pytest.approx(0.0367, abs=1e-3)


def test_interval_of_a_difference_covers_the_truth():
    rng, held = np.random.default_rng(8), 0
    for _ in range(ROUNDS):
        a, b = (estimates.estimate_share(rng.random(80) < share) for share in (0.25, 0.15))
        _, low, high = estimates.difference(a, b)
        held += covers(low, 0.1, high)
    assert held / ROUNDS == pytest.approx(NOMINAL, abs=SLACK)


def test_equal_groups_are_rarely_called_different_and_different_ones_often():
    """Six groups of clusters: the largest difference of a pair would often look significant."""
    rng = np.random.default_rng(9)
    rejected = excluded = detected = 0
    for _ in range(ROUNDS):
        shares = [0.3] * 6
        result = estimates.compare(draw_groups(rng, shares))
        rejected += result.p < 0.05
        excluded += result.low > 0
        shares[2] = 0.6
        different = estimates.compare(draw_groups(rng, shares))
        detected += different.p < 0.05 and different.highest == "2"
    assert rejected / ROUNDS <= 0.05 + SLACK
    assert excluded / ROUNDS <= 0.05 + SLACK
    assert detected / ROUNDS > 0.9


def draw_groups(rng: np.random.Generator, shares: list[float]) -> dict[str, estimates.Share]:
    drawn = [draw_clusters(rng, 40, share, 4.0) for share in shares]
    return {str(n): estimates.estimate_share(*part) for n, part in enumerate(drawn)}


def test_small_groups_are_left_out_of_a_comparison():
    big = estimates.Share(0.3, 100, 100)
    result = estimates.compare({"big": big, "tiny": estimates.Share(1.0, 2, 2), "other": big})
    assert result.left_out == ("tiny",)
    assert result.p == 1
    # 30 rows, but only 0.6 of them are expected to be of the rarer outcome
    rare = estimates.Share(0.02, 30, 30)
    assert estimates.compare({"a": rare, "b": rare}) is None


def test_chi_square_tails_equal_tables():
    # critical values at 5 % and 1 %
    for freedom, five, percent in ((1, 3.841, 6.635), (2, 5.991, 9.210), (5, 11.070, 15.086)):
        assert estimates.chi_square_tail(five, freedom) == pytest.approx(0.05, abs=1e-4)
        assert estimates.chi_square_tail(percent, freedom) == pytest.approx(0.01, abs=1e-4)
    assert estimates.chi_square_tail(0, 3) == 1


def test_holm_corrects_in_steps_and_keeps_the_family_rate():
    corrected = estimates.holm({"a": 0.04, "b": 0.01, "c": 0.03, "d": 0.005})
    assert corrected == pytest.approx({"a": 0.06, "b": 0.03, "c": 0.06, "d": 0.02})
    rng, wrong = np.random.default_rng(10), 0
    for _ in range(ROUNDS):
        chances = estimates.holm({str(n): p for n, p in enumerate(rng.random(5))})
        wrong += min(chances.values()) < 0.05
    assert wrong / ROUNDS <= 0.05 + SLACK
