"""Describe the content of a figure as text and numbers.

This module runs in the notebook's kernel. It omits everything that a library chooses: ticks, sizes,
colors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import dates
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.category import StrCategoryFormatter
from matplotlib.collections import Collection, LineCollection, PathCollection
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import FixedFormatter

# media type of the description, stored beside the picture
CHART_MIME_TYPE = "application/vnd.florin.chart+json"
# length from which a row of numbers is reduced to a sample with its sum
_NUMBERS_MAX = 24
_DAY_S = 86_400


def record_figures() -> None:
    """Add a description to every figure that is shown from now on."""
    Figure._repr_mimebundle_ = lambda self, **_: {CHART_MIME_TYPE: describe_figure(self)}  # type: ignore[attr-defined]


def describe_figure(figure: Figure) -> dict[str, Any]:
    """Return the content of a figure's axes."""
    return {"note": figure.get_supxlabel(), "axes": [_describe_axes(axes) for axes in figure.axes]}


def _describe_axes(axes: Axes) -> dict[str, Any]:
    names = {
        "title": axes.get_title(loc="left"),
        "x": axes.get_xlabel(),
        "y": axes.get_ylabel(),
        "scales": f"{axes.get_xscale()}, {axes.get_yscale()}",
    }
    if axes.get_label() == "<colorbar>":
        return names
    legend = axes.get_legend()
    description = names | {
        "rows": _list_tick_labels(axes.yaxis),
        "columns": _list_tick_labels(axes.xaxis),
        "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
        "texts": [text.get_text() for text in axes.texts],
        "lines": [_describe_points(axes, line.get_xydata()) for line in axes.lines],
        "bars": _describe_bars(axes),
        "marks": [part for each in axes.collections for part in _describe_collection(axes, each)],
        "fields": [_describe_numbers(image.get_array()) for image in axes.images],
    }
    return {name: part for name, part in description.items() if part}


def _list_tick_labels(axis: Axis) -> list[str]:
    """Return the tick labels of an axis, unless they are numbers."""
    if isinstance(axis.get_major_formatter(), FixedFormatter | StrCategoryFormatter):
        return [text.get_text() for text in axis.get_ticklabels()]
    return []


def _describe_bars(axes: Axes) -> list[Any]:
    """Return the corners of all rectangles: bars, also those of zero height, and shades."""
    boxes = [patch.get_bbox() for patch in axes.patches if isinstance(patch, Rectangle)]
    return (
        _describe_points(axes, np.array([bbox.get_points().ravel() for bbox in boxes]))
        if boxes
        else []
    )


def _describe_collection(axes: Axes, collection: Collection) -> list[Any]:
    if isinstance(collection, PathCollection):
        return [_describe_points(axes, np.asarray(collection.get_offsets()))]
    if isinstance(collection, LineCollection):
        return [
            _describe_points(axes, np.array([line.ravel() for line in collection.get_segments()]))
        ]
    # a band belongs to its line, and shows its range
    return [
        _describe_points(
            axes, np.vstack([path.vertices for path in collection.get_paths()]), only_range=True
        )
    ]


def _describe_points(axes: Axes, points: Any, *, only_range: bool = False) -> list[Any]:
    """Return the columns of points, x and y in turn. Times are seconds since the first time."""
    columns = np.array(np.ma.getdata(points), dtype=float).T.copy()
    for n, axis in enumerate((axes.xaxis, axes.yaxis)):
        if isinstance(axis.get_major_locator(), dates.DateLocator) and columns.size:
            here = columns[n::2]
            columns[n::2] = (here - np.nanmin(here)) * _DAY_S
    if only_range:
        columns = np.stack([np.nanmin(columns, axis=1), np.nanmax(columns, axis=1)], axis=1)
    return [_describe_numbers(column) for column in columns]


def _describe_numbers(values: Any) -> list[Any] | dict[str, Any]:
    """Return numbers with nine digits; for long rows the count, the sum and a sample."""
    flat: Any = np.ma.filled(np.ma.asarray(values, dtype=float), np.nan).ravel()
    numbers = [None if np.isnan(number) else float(f"{number:.9g}") for number in flat]
    if len(numbers) <= _NUMBERS_MAX:
        return numbers
    ndarray = np.linspace(0, len(numbers) - 1, _NUMBERS_MAX).round().astype(int)
    total = float(f"{np.nansum(flat):.9g}")
    return {"count": len(numbers), "sum": total, "some": [numbers[n] for n in ndarray]}
