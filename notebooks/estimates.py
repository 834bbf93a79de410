"""Estimates of the notebooks with their uncertainty: shares, quantiles, durations, comparisons.

All intervals have 95 %. Rows that belong together, such as the payments of one batch or of one
buyer, are clusters: an interval then counts the effective sample size, which is the number of
independent rows that are as informative.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from target import missing

try:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray
except ModuleNotFoundError as error:
    raise missing(error) from None

Z95 = NormalDist().inv_cdf(0.975)
# expected rows of each outcome in a group, below which the chi-square test is not valid
_EXPECTED = 5


def wilson(count: float, total: float, z: float = Z95) -> tuple[float, float]:
    """Return the bounds of the true share, by Wilson's score; (0, 1) without data.

    Raise ValueError if the count is not part of the total.
    """
    if not 0 <= count <= total:
        raise ValueError(f"{count} is not part of {total}")
    if total == 0:
        return 0.0, 1.0
    share, z2 = count / total, z**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = z / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    return max(0.0, centre - half), min(1.0, centre + half)


@dataclass(frozen=True)
class Share:
    """An estimated share of `total` rows that are worth `effective` independent rows."""

    share: float
    total: int
    effective: float

    def get_bounds(self, z: float = Z95) -> tuple[float, float]:
        """Return the bounds of the true share, by Wilson's score of the effective size."""
        low, high = wilson(self.share * self.effective, self.effective, z)
        return min(low, self.share), max(high, self.share)


def estimate_share(outcomes: ArrayLike, clusters: Sequence[object] | None = None) -> Share:
    """Return the share of true outcomes; rows with one value of `clusters` belong together.

    The effective size follows Korn and Graubard (1998): the variance between clusters, with the
    quantile of Student's distribution for few clusters. If all outcomes are equal, the data shows
    no variance, and each cluster counts as if its rows always agreed. One cluster shows nothing.
    """
    hits = np.asarray(outcomes, dtype=float)
    total, share = hits.size, float(hits.mean()) if hits.size else 0.0
    if clusters is None or not total:
        return Share(share, total, float(total))
    _, places = np.unique(np.asarray([str(name) for name in clusters]), return_inverse=True)
    sizes = np.bincount(places)
    if sizes.size == total:
        return Share(share, total, float(total))
    if sizes.size == 1:
        return Share(share, total, 1.0)
    if share in (0.0, 1.0):
        return Share(share, total, total**2 / float((sizes**2).sum()))
    residues = np.bincount(places, hits) - share * sizes
    groups = sizes.size
    variance = groups / (groups - 1) * float((residues**2).sum()) / total**2
    effective = share * (1 - share) / variance if variance else float(total)
    effective *= (Z95 / student_quantile(groups - 1)) ** 2
    return Share(share, total, min(float(total), effective))


def student_quantile(freedom: int) -> float:
    """Return the quantile at 97.5 % of Student's distribution, within 1 % from 3 degrees on."""
    if freedom < 3:
        return (12.706, 4.303)[freedom - 1]
    z, v = Z95, freedom
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    )
    return z + sum(term / v**n for n, term in enumerate(terms, 1))


def difference(a: Share, b: Share, z: float = Z95) -> tuple[float, float, float]:
    """Return share a less share b with its bounds, by Newcombe's hybrid score (1998)."""
    (low_a, high_a), (low_b, high_b) = a.get_bounds(z), b.get_bounds(z)
    gap = a.share - b.share
    below = math.hypot(a.share - low_a, high_b - b.share)
    above = math.hypot(high_a - a.share, b.share - low_b)
    return gap, max(-1.0, gap - below), min(1.0, gap + above)


@dataclass(frozen=True)
class Comparison:
    """A test that the shares of groups are equal, and the largest difference of two of them.

    The bounds of the difference are valid for all pairs of groups together (Bonferroni), because
    the pair was chosen after a look at the data. `p` is the chance of such unequal shares if the
    true shares are equal. `left_out` are groups too small to compare.
    """

    statistic: float
    freedom: int
    p: float
    highest: str
    lowest: str
    gap: float
    low: float
    high: float
    left_out: tuple[str, ...]

    def describe(self) -> str:
        """Return the largest difference with its bounds, in percentage points, and the p value."""
        bounds = f"95 %: {100 * self.low:+.0f} to {100 * self.high:+.0f}"
        return (
            f"{self.highest} less {self.lowest} is {100 * self.gap:.0f} points ({bounds}), "
            f"chi-square p = {self.p:.3f}"
        )


def compare(groups: Mapping[str, Share], enough: int = 10) -> Comparison | None:
    """Test whether groups differ, by chi-square of the effective counts (Rao and Scott, 1992).

    Groups of fewer rows than `enough`, or with fewer than five expected rows of an outcome, are
    left out. Return None if fewer than two groups remain.
    """
    large = {name: share for name, share in groups.items() if share.total >= enough}
    while len(large) >= 2:
        size = sum(share.effective for share in large.values())
        pooled = sum(share.share * share.effective for share in large.values()) / size
        rarer = min(pooled, 1 - pooled)
        name = min(large, key=lambda key: large[key].effective)
        if rarer * large[name].effective >= _EXPECTED:
            break
        del large[name]
    if len(large) < 2:
        return None
    variance = pooled * (1 - pooled)
    statistic = sum(part.effective * (part.share - pooled) ** 2 for part in large.values())
    statistic /= variance
    highest = max(large, key=lambda key: large[key].share)
    lowest = min(large, key=lambda key: large[key].share)
    pairs = math.comb(len(large), 2)
    z = NormalDist().inv_cdf(1 - 0.025 / pairs)
    return Comparison(
        statistic,
        len(large) - 1,
        chi_square_tail(statistic, len(large) - 1),
        highest,
        lowest,
        *difference(large[highest], large[lowest], z),
        tuple(name for name in groups if name not in large),
    )


def chi_square_tail(statistic: float, freedom: int) -> float:
    """Return the chance of a chi-square variable of whole degrees of freedom above a value."""
    if statistic <= 0:
        return 1.0
    half = statistic / 2
    if freedom % 2:
        tail, powers = math.erfc(math.sqrt(half)), [n + 0.5 for n in range(freedom // 2)]
    else:
        tail, powers = 0.0, [float(n) for n in range(freedom // 2)]
    logs = (n * math.log(half) - half - math.lgamma(n + 1) for n in powers)
    return min(1.0, tail + sum(math.exp(log) for log in logs))


def holm(chances: Mapping[str, float]) -> dict[str, float]:
    """Return p values corrected for their number (Holm, 1979), in the given order.

    If no group differs, the chance that any corrected value is below 5 % is at most 5 %.
    """
    corrected: dict[str, float] = {}
    most = 0.0
    for rank, name in enumerate(sorted(chances, key=lambda key: chances[key])):
        most = max(most, min(1.0, (len(chances) - rank) * chances[name]))
        corrected[name] = most
    return {name: corrected[name] for name in chances}


def effective_size(values: ArrayLike, clusters: Sequence[object]) -> float:
    """Return the effective size of a sample for its distribution: the smallest of its deciles."""
    sample = np.asarray(values, dtype=float)
    if np.unique(sample).size == 1:
        return estimate_share(np.ones(sample.size), clusters).effective
    cuts = np.unique(np.quantile(sample, np.linspace(0.1, 0.9, 9)))
    parts = [sample <= cut for cut in cuts]
    sizes = [estimate_share(part, clusters).effective for part in parts if not part.all()]
    return min([float(sample.size), *sizes])


def ecdf(
    values: ArrayLike, clusters: Sequence[object] | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return sorted values, the share that is no larger than each, and the half width of the band.

    The width is that of the whole band, by Dvoretzky, Kiefer and Wolfowitz, with the constant of
    Massart (1990), for the effective size. Raise ValueError without values.
    """
    sample = np.asarray(values, dtype=float)
    if not sample.size:
        raise ValueError("there is nothing to draw")
    size = float(sample.size) if clusters is None else effective_size(sample, clusters)
    shares = np.arange(1, sample.size + 1) / sample.size
    return np.sort(sample), shares, math.sqrt(math.log(2 / 0.05) / (2 * size))


def quantile(
    values: ArrayLike, share: float, clusters: Sequence[object] | None = None
) -> tuple[float, float, float]:
    """Return a quantile of a sample, and the bounds of the true quantile.

    The bounds are values of the sample, by ranks of the binomial distribution (normal
    approximation) of the effective size; they are the ends of the sample if it is too small.
    """
    raw = np.asarray(values, dtype=float)
    sample, _, _ = ecdf(raw)
    at = float(np.quantile(sample, share))
    size = float(sample.size)
    if clusters is not None:
        size = min(estimate_share(raw <= at, clusters).effective, size)
    half = Z95 * math.sqrt(share * (1 - share) / size) * sample.size
    low = max(0, math.floor(sample.size * share - half) - 1)
    high = min(sample.size - 1, math.ceil(sample.size * share + half))
    return at, float(sample[low]), float(sample[high])


def band_quantile(
    values: ArrayLike, share: float, clusters: Sequence[object] | None = None
) -> tuple[float, float, float]:
    """Return a quantile of a sample, and its bounds by the band of `ecdf`, valid for all shares.

    The bounds are values of the sample, or infinite if it is too small to bound that share.
    """
    sample, _, half = ecdf(values, clusters)
    low, high = (math.ceil(sample.size * at) - 1 for at in (share - half, share + half))
    return (
        float(np.quantile(sample, share, method="inverted_cdf")),
        float(sample[low]) if low >= 0 else -math.inf,
        float(sample[high]) if high < sample.size else math.inf,
    )


def bound_mean(
    values: ArrayLike, clusters: Sequence[object], rounds: int = 1_000
) -> tuple[float, float, float]:
    """Return the mean with its bounds, by a bootstrap that draws whole clusters.

    The seed is fixed: equal data has equal bounds. They are too narrow for fewer than about 30
    clusters of skewed values. Raise ValueError without values.
    """
    sample = np.asarray(values, dtype=float)
    if not sample.size:
        raise ValueError("there is nothing to average")
    _, places = np.unique(np.asarray([str(name) for name in clusters]), return_inverse=True)
    sums, sizes = np.bincount(places, sample), np.bincount(places)
    picks = np.random.default_rng(7).integers(0, sums.size, (rounds, sums.size))
    low, high = np.quantile(sums[picks].sum(axis=1) / sizes[picks].sum(axis=1), [0.025, 0.975])
    return float(sample.mean()), float(low), float(high)


def bound_sum(values: ArrayLike, clusters: Sequence[object]) -> tuple[float, float, float]:
    """Return the sum, and bounds of its expected value, by Student's distribution of clusters.

    The bounds are infinite for fewer than two clusters.
    """
    sample = np.asarray(values, dtype=float)
    _, places = np.unique(np.asarray([str(name) for name in clusters]), return_inverse=True)
    sums, total = np.bincount(places, sample), float(sample.sum())
    if sums.size < 2:
        return total, -math.inf, math.inf
    half = student_quantile(sums.size - 1) * math.sqrt(sums.size) * float(sums.std(ddof=1))
    return total, total - half, total + half


@dataclass(frozen=True)
class Volatility:
    """The standard deviation of a day's move of a logarithm, with its bounds.

    `places` are those of the values that count, one more than `steps`.
    """

    sigma: float
    low: float
    high: float
    places: tuple[int, ...]

    @property
    def steps(self) -> int:
        """Return the number of moves that were measured."""
        return len(self.places) - 1


def estimate_volatility(days: ArrayLike, logs: ArrayLike, apart: float) -> Volatility:
    """Estimate the volatility of logarithms of a rate that was seen at some times, in days.

    A value counts if it is at least `apart` later than the one before that counts: the market does
    not move between values of one moment. The median of the absolute steps, each divided by the
    root of its time, is compared with that of a normal distribution, so that jumps do not widen it.
    The bounds are those of the median. Raise ValueError without values, or if the times are not
    sorted.
    """
    times, seen = np.asarray(days, dtype=float), np.asarray(logs, dtype=float)
    if not times.size or (np.diff(times) < 0).any():
        raise ValueError("the times are missing or not sorted")
    places = [0]
    for place in range(1, times.size):
        if times[place] - times[places[-1]] >= apart:
            places.append(place)
    steps = np.abs(np.diff(seen[places])) / np.sqrt(np.diff(times[places]))
    if not steps.size:
        return Volatility(math.nan, 0.0, math.inf, (0,))
    sigma, low, high = (bound / NormalDist().inv_cdf(0.75) for bound in quantile(steps, 0.5))
    return Volatility(sigma, low, high, tuple(places))


@dataclass(frozen=True)
class Incidence:
    """The share of subjects with an event by each time since their start, by Kaplan and Meier.

    `times` are the times of events, `shares` the estimates from then on, `effective` the sizes of
    independent samples that are as informative, `at_risk` the subjects that were followed so far.
    """

    times: NDArray[np.float64]
    shares: NDArray[np.float64]
    effective: NDArray[np.float64]
    followed: NDArray[np.float64]
    events: int

    @property
    def total(self) -> int:
        """Return the number of subjects."""
        return int(self.followed.size)

    def get_share(self, at: float) -> Share:
        """Return the share with an event by a time, with the bounds of Rothman (1978).

        Raise ValueError if no subject was followed for that time and did not have the event.
        """
        place = int(np.searchsorted(self.times, at, side="right")) - 1
        share = float(self.shares[place]) if place >= 0 else 0.0
        at_risk = int((self.followed >= at).sum())
        if not at_risk and share < 1:
            raise ValueError(f"nothing was followed for {at}")
        effective = float(self.effective[place]) if place >= 0 else float(at_risk)
        return Share(share, self.total, effective)

    def get_band(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the bounds at each time of an event; each is valid for its own time."""
        pairs = [
            Share(float(share), self.total, float(size)).get_bounds()
            for share, size in zip(self.shares, self.effective, strict=True)
        ]
        low, high = zip(*pairs, strict=True) if pairs else ((), ())
        return np.asarray(low, dtype=float), np.asarray(high, dtype=float)

    def get_quantile(self, share: float) -> tuple[float, float, float]:
        """Return the time by which a share had the event, with its bounds; infinite if unknown."""
        low, high = self.get_band()

        def first(curve: NDArray[np.float64]) -> float:
            (reached,) = np.nonzero(curve >= share - 1e-12)
            return float(self.times[reached[0]]) if reached.size else math.inf

        return first(self.shares), first(high), first(low)


def incidence(durations: ArrayLike, happened: ArrayLike) -> Incidence:
    """Estimate the time to an event from subjects of which some did not have it yet.

    `durations` are the times from the start to the event, or to the end of the data for subjects
    without it; `happened` says which. A subject without the event counts until the end of the data:
    leaving it out makes all times too short. The censoring must not depend on the event.

    Raise ValueError without subjects, for negative durations, or for columns of other lengths.
    """
    spans, had = np.asarray(durations, dtype=float), np.asarray(happened, dtype=bool)
    if not spans.size or spans.shape != had.shape:
        raise ValueError("each subject needs a duration and an outcome")
    if not (spans >= 0).all():
        raise ValueError("a duration is missing or below zero")
    times, events = np.unique(spans[had], return_counts=True)
    ordered = np.sort(spans)
    at_risk = spans.size - np.searchsorted(ordered, times, side="left")
    remaining = np.cumprod(1 - events / at_risk)
    shares = 1 - remaining
    left = at_risk - events
    with np.errstate(divide="ignore", invalid="ignore"):
        # of Greenwood; the last term has no variance if no subject remains
        terms = np.where(left > 0, events / (at_risk * np.maximum(left, 1)), np.inf)
        spread = remaining**2 * np.cumsum(terms)
        effective = np.where(remaining > 0, shares * remaining / spread, at_risk)
    return Incidence(times, shares, effective, spans, int(had.sum()))
