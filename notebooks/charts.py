"""One house style for all charts of the notebooks, and the statistics behind them.

Colors are those of Okabe and Ito (2008), which people with any color vision can distinguish; marks
or labels distinguish kinds as well. A share or a median of a sample always has its uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from target import missing

try:
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, PercentFormatter
    from numpy.typing import ArrayLike, NDArray
except ModuleNotFoundError as error:
    raise missing(error) from None

# of Okabe and Ito, the dark colors first; yellow is too light for lines on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
QUIET = "#8C8C8C"
_Z95 = 1.959964  # the normal distribution's quantile at 97.5 %


def use_style() -> None:
    """Set the house style for all later charts."""
    plt.rcParams.update(
        {
            "figure.figsize": (8.0, 4.2),
            "figure.dpi": 110,
            "figure.constrained_layout.use": True,
            "axes.prop_cycle": plt.cycler(color=COLOURS),
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.grid": True,
            "axes.axisbelow": True,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "grid.color": "#E6E6E6",
            "font.size": 10.5,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
        }
    )


def axes(title: str, x: str, y: str, note: str = "") -> Axes:
    """Return new axes. The title is a sentence about the content; x and y include their units.

    `note` is small text below: the source and number of the figures.
    """
    figure, new = plt.subplots()
    new.set(title=title, xlabel=x, ylabel=y)
    if note:
        figure.supxlabel(note, x=0.99, ha="right", fontsize=8.5, color=QUIET)
    return new


def wilson(count: int, total: int) -> tuple[float, float]:
    """Return the bounds of the true share at 95 %, by Wilson's score; (0, 1) without data.

    Raise ValueError if the count is not part of the total.
    """
    if not 0 <= count <= total:
        raise ValueError(f"{count} is not part of {total}")
    if total == 0:
        return 0.0, 1.0
    share, z2 = count / total, _Z95**2
    centre = (share + z2 / (2 * total)) / (1 + z2 / total)
    half = _Z95 / (1 + z2 / total) * math.sqrt(share * (1 - share) / total + z2 / (4 * total**2))
    return max(0.0, centre - half), min(1.0, centre + half)


def ecdf(values: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Return sorted values, the share that is no larger than each, and the half width at 95 %.

    The width is that of the whole band, by Dvoretzky, Kiefer and Wolfowitz, with the constant of
    Massart (1990). Raise ValueError without values.
    """
    sample = np.sort(np.asarray(values, dtype=float))
    if not sample.size:
        raise ValueError("there is nothing to draw")
    shares = np.arange(1, sample.size + 1) / sample.size
    return sample, shares, math.sqrt(math.log(2 / 0.05) / (2 * sample.size))


def quantile(values: ArrayLike, share: float) -> tuple[float, float, float]:
    """Return a quantile of a sample, and the bounds of the true quantile at 95 %.

    The bounds are values of the sample, by ranks of the binomial distribution (normal
    approximation); they are the ends of the sample if it is too small.
    """
    sample, _, _ = ecdf(values)
    half = _Z95 * math.sqrt(sample.size * share * (1 - share))
    low = max(0, math.floor(sample.size * share - half) - 1)
    high = min(sample.size - 1, math.ceil(sample.size * share + half))
    return float(np.quantile(sample, share)), float(sample[low]), float(sample[high])


def band_quantile(values: ArrayLike, share: float) -> tuple[float, float, float]:
    """Return a quantile of a sample, and its bounds by the band of `ecdf`, at 95 % for all shares.

    The bounds are values of the sample, or infinite if it is too small to bound that share.
    """
    sample, _, half = ecdf(values)
    low, high = (math.ceil(sample.size * at) - 1 for at in (share - half, share + half))
    return (
        float(np.quantile(sample, share, method="inverted_cdf")),
        float(sample[low]) if low >= 0 else -math.inf,
        float(sample[high]) if high < sample.size else math.inf,
    )


def draw_ecdf(on: Axes, samples: Mapping[str, ArrayLike]) -> None:
    """Draw the distributions of samples as steps, each with its band at 95 %."""
    styles = ("-", "--", "-.", ":")
    for n, (name, values) in enumerate(samples.items()):
        at, shares, half = ecdf(values)
        label = f"{name} (n = {at.size:,})"
        on.step(at, shares, where="post", label=label, linestyle=styles[n % len(styles)])
        colour = on.lines[-1].get_color()
        low, high = np.clip(shares - half, 0, 1), np.clip(shares + half, 0, 1)
        on.fill_between(at, low, high, step="post", alpha=0.15, color=colour, linewidth=0)
    on.set_ylim(0, 1.01)
    on.yaxis.set_major_formatter(PercentFormatter(1))
    on.legend(loc="lower right")


def draw_shares(on: Axes, counts: Mapping[str, tuple[int, int]]) -> None:
    """Draw a bar for each share, from (count, total), with its 95 % bounds, the first on top."""
    names = list(counts)[::-1]
    shares = [counts[name][0] / counts[name][1] if counts[name][1] else 0.0 for name in names]
    bounds = [wilson(*counts[name]) for name in names]
    errors = [
        [max(0.0, share - low) for share, (low, _) in zip(shares, bounds, strict=True)],
        [max(0.0, high - share) for share, (_, high) in zip(shares, bounds, strict=True)],
    ]
    on.barh(names, shares, color=COLOURS[0], xerr=errors, ecolor="#333333", capsize=3)
    for place, name in enumerate(names):
        count, total = counts[name]
        on.annotate(
            f"{count:,} of {total:,}",
            (bounds[place][1], place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    on.set_xlim(0, min(1.35, max([0.05, *(high for _, high in bounds)]) * 1.25))
    on.xaxis.set_major_formatter(PercentFormatter(1))
    on.grid(visible=False, axis="y")


def draw_funnel(on: Axes, steps: Mapping[str, int]) -> None:
    """Draw a bar for each step, with its shares of the first step and of the previous step."""
    names, counts = list(steps), list(steps.values())
    on.barh(names[::-1], counts[::-1], color=COLOURS[0])
    for place, count in enumerate(counts):
        of_first = count / counts[0] if counts[0] else 0.0
        label = f"{count:,}  ({of_first:.0%}"
        if place:
            before = counts[place - 1]
            label += f"; {count / before if before else 0.0:.0%} of the previous step"
        on.annotate(
            f"{label})",
            (count, len(counts) - 1 - place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    on.set_xlim(0, max([1, *counts]) * 1.6)
    on.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    on.grid(visible=False, axis="y")


def draw_grid(
    on: Axes, values: ArrayLike, rows: Sequence[str], columns: Sequence[str], unit: str
) -> None:
    """Draw a field for each row and column, darker for larger values, with a scale."""
    image = on.imshow(np.asarray(values, dtype=float), cmap="cividis_r", aspect="auto")
    on.set_yticks(range(len(rows)), rows)
    on.set_xticks(range(len(columns)), columns)
    on.grid(visible=False)
    on.figure.colorbar(image, ax=on, label=unit)


def mark(on: Axes, at: float, words: str, *, vertical: bool = True) -> None:
    """Draw a thin reference line at a value, with its text beside it."""
    if vertical:
        on.axvline(at, color="#333333", linewidth=1, linestyle=(0, (4, 3)))
        place, transform, turn = (at, 0.03), on.get_xaxis_transform(), 90
    else:
        on.axhline(at, color="#333333", linewidth=1, linestyle=(0, (4, 3)))
        place, transform, turn = (0.01, at), on.get_yaxis_transform(), 0
    on.annotate(
        words,
        place,
        xycoords=transform,
        xytext=(3, 3),
        textcoords="offset points",
        rotation=turn,
        fontsize=9,
        color="#333333",
    )


def stacked(on: Axes, x: Iterable[object], parts: Mapping[str, Sequence[float]]) -> None:
    """Draw stacked bars of parts, distinguished by color, hatching and a legend."""
    hatches = ("", "//", "..", "xx", "\\\\", "++", "oo")
    places = [str(place) for place in x]
    below = np.zeros(len(places))
    for n, (name, values) in enumerate(parts.items()):
        heights = np.asarray(values, dtype=float)
        on.bar(
            places,
            heights,
            bottom=below,
            label=name,
            color=COLOURS[n % len(COLOURS)],
            hatch=hatches[n % len(hatches)],
            edgecolor="white",
        )
        below += heights
    on.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
