"""One house style for all charts of the notebooks.

Colors are those of Okabe and Ito (2008), which people with any color vision can distinguish; marks
or labels distinguish kinds as well. A share or a median of a sample always has its uncertainty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from estimates import Incidence, Share, ecdf
from target import missing

try:
    import matplotlib.pyplot as plt
    import numpy as np
    from matplotlib.axes import Axes
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter
    from numpy.typing import ArrayLike
except ModuleNotFoundError as error:
    raise missing(error) from None

# of Okabe and Ito, the dark colors first; yellow is too light for lines on white
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
QUIET = "#8C8C8C"
_FEW = 10  # rows; the bars of smaller groups are pale
_LABELS = 12  # most labels of an axis of days or hours
_NUMBERED = 14  # most columns of a grid whose fields show their numbers


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


def draw_ecdf(
    on: Axes,
    samples: Mapping[str, ArrayLike],
    clusters: Mapping[str, Sequence[object]] | None = None,
) -> None:
    """Draw the distributions of samples as steps, each with its band at 95 %.

    Equal values are one point with their number, as a step would be a line across the chart.
    """
    styles = ("-", "--", "-.", ":")
    for n, (name, values) in enumerate(samples.items()):
        groups = None if clusters is None else clusters[name]
        at, shares, half = ecdf(values, groups)
        label = f"{name} (n = {at.size:,})"
        if at[0] == at[-1]:
            label = f"{name} (n = {at.size:,}, all {at[0]:g})"
            on.plot(at[:1], [1.0], marker="osD^"[n % 4], linestyle="none", label=label)
            continue
        on.step(at, shares, where="post", label=label, linestyle=styles[n % len(styles)])
        colour = on.lines[-1].get_color()
        low, high = np.clip(shares - half, 0, 1), np.clip(shares + half, 0, 1)
        on.fill_between(at, low, high, step="post", alpha=0.15, color=colour, linewidth=0)
    on.set_ylim(0, 1.03)
    _show_percent(on, "y")
    on.legend(loc="lower right")


def draw_incidence(on: Axes, groups: Mapping[str, Incidence], until: float) -> None:
    """Draw the share with an event by each time, up to `until`, with bounds at 95 %."""
    styles = ("-", "--", "-.", ":")
    highest = 0.05
    for n, (name, group) in enumerate(groups.items()):
        shown = group.times <= until
        low, high = (np.append(0.0, bound[shown]) for bound in group.get_band())
        times = np.append(np.append(0.0, group.times[shown]), until)
        shares = np.append(0.0, group.shares[shown])
        label = f"{name} ({group.events:,} of {group.total:,} so far)"
        style = styles[n % len(styles)]
        on.step(times, [*shares, shares[-1]], where="post", label=label, linestyle=style)
        colour = on.lines[-1].get_color()
        band = ([*low, low[-1]], [*high, high[-1]])
        on.fill_between(times, *band, step="post", alpha=0.15, color=colour, linewidth=0)
        highest = max(highest, float(high[-1]))
    on.set(xlim=(0, until), ylim=(0, min(1.03, highest * 1.1)))
    _show_percent(on, "y")
    on.legend(loc="upper left")


def _show_percent(on: Axes, axis: str) -> None:
    """Format an axis of shares: percent, and no tick above 100 %."""
    which = on.yaxis if axis == "y" else on.xaxis
    low, high = on.get_ylim() if axis == "y" else on.get_xlim()
    ticks = MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, min(1.0, high))
    which.set_ticks([tick for tick in ticks if low <= tick <= min(1.0, high) + 1e-9])
    which.set_major_formatter(PercentFormatter(1))


def _label(share: Share) -> str:
    text = f"{round(share.share * share.total):,} of {share.total:,}"
    worth = f"; worth {share.effective:,.0f}" if share.effective < 0.95 * share.total else ""
    return text + worth


def draw_shares(on: Axes, counts: Mapping[str, Share | tuple[int, int]]) -> None:
    """Draw a bar for each share, or (count, total), with its 95 % bounds, the first on top.

    Bars of fewer than ten rows are pale. "worth n" is the effective size of a sample of clusters.
    """
    names = list(counts)[::-1]
    shares = [
        share if isinstance(share, Share) else Share(share[0] / max(1, share[1]), *[share[1]] * 2)
        for share in (counts[name] for name in names)
    ]
    bounds = [share.get_bounds() for share in shares]
    errors = [
        [max(0.0, share.share - low) for share, (low, _) in zip(shares, bounds, strict=True)],
        [max(0.0, high - share.share) for share, (_, high) in zip(shares, bounds, strict=True)],
    ]
    colours = [COLOURS[0] if share.total >= _FEW else "#A9C6DC" for share in shares]
    heights = [share.share for share in shares]
    on.barh(names, heights, color=colours, xerr=errors, ecolor="#333333", capsize=3)
    for place, share in enumerate(shares):
        on.annotate(
            _label(share),
            (bounds[place][1], place),
            xytext=(6, 0),
            textcoords="offset points",
            va="center",
            fontsize=9,
        )
    on.set_xlim(0, min(1.35, max([0.05, *(high for _, high in bounds)]) * 1.25))
    _show_percent(on, "x")
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
    on: Axes,
    values: ArrayLike,
    rows: Sequence[str],
    columns: Sequence[str],
    unit: str,
    *,
    percent: bool = False,
) -> None:
    """Draw a field for each row and column: white for zero, darker for larger, grey for unknown.

    Fields of few columns show their numbers. Labels of many columns are thinned out.
    """
    grid = np.asarray(values, dtype=float)
    colours = plt.get_cmap("Blues").with_extremes(bad="#D9D9D9")
    most = float(np.nanmax(grid)) if np.isfinite(grid).any() else 0.0
    image = on.imshow(grid, cmap=colours, aspect="auto", vmin=0, vmax=most or 1)
    on.set_yticks(range(len(rows)), rows)
    every = -(-len(columns) // _LABELS)
    on.set_xticks(range(0, len(columns), every), columns[::every])
    on.grid(visible=False)
    scale = PercentFormatter(1) if percent else None
    on.figure.colorbar(image, ax=on, label=unit, format=scale)
    if len(columns) > _NUMBERED:
        return
    for (row, column), value in np.ndenumerate(grid):
        if np.isfinite(value):
            text = f"{value:.0%}" if percent else f"{value:,.0f}"
            colour = "white" if value > 0.6 * most else "#333333"
            on.text(column, row, text, ha="center", va="center", fontsize=8.5, color=colour)


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
    every = -(-len(places) // _LABELS)
    on.set_xticks(range(0, len(places), every), places[::every])
    on.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))
