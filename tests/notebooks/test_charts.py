"""The statistics that the notebooks draw, compared with known results."""

from __future__ import annotations

import random

import charts
import estimates
import matplotlib as mpl
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def canvas(monkeypatch):
    """Make charts without a screen, closed afterwards."""
    mpl.use("Agg")
    charts.use_style()
    yield
    charts.plt.close("all")


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    [
        # from Newcombe (1998), table I
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_shares_are_as_sure_as_published(count, total, low, high):
    assert estimates.wilson(count, total) == pytest.approx((low, high), abs=5e-5)


def test_empty_sample_has_no_bounds_and_an_excess_count_is_refused():
    assert estimates.wilson(0, 0) == (0.0, 1.0)
    for count, total in ((3, 2), (-1, 2)):
        with pytest.raises(ValueError, match="is not part of"):
            estimates.wilson(count, total)


def test_a_distribution_is_sorted_and_ends_at_all():
    at, shares, half = estimates.ecdf([3, 1, 2, 2])
    assert list(at) == [1, 2, 2, 3]
    assert list(shares) == [0.25, 0.5, 0.75, 1.0]
    # Massart: sqrt(ln(2 / 0.05) / (2 * 4))
    assert half == pytest.approx(0.67905, abs=1e-5)
    with pytest.raises(ValueError, match="nothing to draw"):
        estimates.ecdf([])


def test_bands_and_bounds_hold_the_truth_as_often_as_they_say():
    """Of 400 samples of a known distribution, at least nine in ten."""
    chance, bands, bounds = random.Random(11), 0, 0
    for _ in range(400):
        sample = [chance.random() for _ in range(120)]
        at, shares, half = estimates.ecdf(sample)
        bands += bool(np.all(np.abs(shares - at) <= half + 1 / at.size))
        _, low, high = estimates.quantile(sample, 0.5)
        bounds += low <= 0.5 <= high
    assert bands >= 360
    assert bounds >= 360


def test_a_quantile_of_a_small_sample_is_bounded_by_its_ends():
    assert estimates.quantile([1.0, 2.0, 9.0], 0.95) == (pytest.approx(8.3), 2.0, 9.0)


def test_band_bounds_hold_for_all_shares_and_are_infinite_for_small_samples():
    chance, held = random.Random(12), 0
    shares = [n / 20 for n in range(1, 20)]
    for _ in range(400):
        sample = [chance.random() for _ in range(120)]
        bounds = [(share, *estimates.band_quantile(sample, share)[1:]) for share in shares]
        held += all(low <= item <= high for item, low, high in bounds)
    assert held >= 380
    # of four, half a width of 0.68: only its existence is certain
    assert estimates.band_quantile([4, 1, 3, 2], 0.5) == (2.0, -np.inf, np.inf)
    assert estimates.band_quantile(range(1, 101), 0.5) == (50.0, 37.0, 64.0)


def texts(on) -> str:
    return " ".join(item.get_text() for item in on.texts)


def test_charts_say_how_many_and_how_sure():
    on = charts.axes("Half succeed", "share of payments", "", note="n = 4")
    charts.draw_shares(on, {"all": (2, 4), "none": (0, 0)})
    assert "2 of 4" in texts(on)
    assert "0 of 0" in texts(on)
    assert on.get_title(loc="left") == "Half succeed"
    on = charts.axes("Most end soon", "s", "share")
    charts.draw_ecdf(on, {"a": [1, 2], "b": [5]})
    result = [item.get_text() for item in on.get_legend().get_texts()]
    assert result == ["a (n = 2)", "b (n = 1, all 5)"]
    # equal values are a point: a step would be a line across the chart
    assert len(on.collections) == 1


def test_funnel_labels_shares_of_the_first_and_last_step():
    on = charts.axes("Who leaves", "payments", "")
    charts.draw_funnel(on, {"created": 200, "options": 100, "paid": 25})
    output = texts(on)
    assert "200  (100%)" in output
    assert "25  (12%; 25% of the previous step)" in output
    charts.draw_funnel(charts.axes("No payments", "payments", ""), {"created": 0, "paid": 0})


def test_charts_label_their_data():
    on = charts.axes("When", "hour", "weekday")
    charts.draw_grid(on, [[1, 2], [3, 4]], ["Mon", "Tue"], ["0", "1"], "payments an hour")
    assert [yticklabel.get_text() for yticklabel in on.get_yticklabels()] == ["Mon", "Tue"]
    on = charts.axes("Why", "day", "payments")
    charts.stacked(on, ["d1", "d2"], {"expired": [1, 2], "failed": [3, 4]})
    charts.mark(on, 3, "the promise", vertical=False)
    charts.mark(on, 1, "the start")
    assert "the promise" in texts(on)
    assert [item.get_text() for item in on.get_legend().get_texts()] == ["expired", "failed"]


def test_shares_show_effective_sizes_and_no_tick_above_all():
    on = charts.axes("Shares", "share", "")
    charts.draw_shares(on, {"batches": estimates.Share(0.5, 40, 8.0), "one": (1, 1)})
    assert "20 of 40; worth 8" in texts(on)
    assert "1 of 1" in texts(on)
    assert max(on.get_xticks()) <= 1


def test_grids_show_zero_in_white_numbers_in_fields_and_few_labels():
    on = charts.axes("Grid", "day", "")
    charts.draw_grid(on, [[0, 0.5, float("nan")]], ["a"], ["1", "2", "3"], "share", percent=True)
    assert texts(on) == "0% 50%"
    image = on.images[0]
    assert min(image.cmap(image.norm(0.0))[:3]) > 0.95
    many = charts.axes("Days", "day", "")
    days = [f"{n:02} Oct" for n in range(1, 32)]
    charts.draw_grid(many, [range(31)], ["a"], days, "payments")
    assert not many.texts
    assert len(many.get_xticks()) <= 12
    bars = charts.axes("Days", "day", "")
    charts.stacked(bars, days, {"a": range(31)})
    assert len(bars.get_xticks()) <= 12


def test_incidence_is_drawn_with_its_events_up_to_the_horizon():
    on = charts.axes("Returned", "days", "share")
    group = estimates.incidence([1, 2, 3, 9], [True, False, True, True])
    charts.draw_incidence(on, {"all": group}, until=5)
    assert [item.get_text() for item in on.get_legend().get_texts()] == ["all (3 of 4 so far)"]
    assert max(on.lines[0].get_xdata()) == 5
