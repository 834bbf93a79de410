"""What is drawn in a figure, as text and numbers.

Runs in the notebook's kernel. Nothing that a library chooses is in it: no ticks, sizes or colours.
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

# the kind of output that holds it, beside the picture
KIND = "application/vnd.florin.chart+json"
# of long rows of numbers so many are told, with their sum
_MOST = 24
_DAY_S = 86_400


def record() -> None:
    """From now on every figure that is shown tells what is in it as well."""
    Figure._repr_mimebundle_ = lambda self, **_: {KIND: told(self)}  # type: ignore[attr-defined]


def told(figure: Figure) -> dict[str, Any]:
    """All that the axes of a figure show."""
    return {"note": figure.get_supxlabel(), "axes": [_axes(one) for one in figure.axes]}


def _axes(one: Axes) -> dict[str, Any]:
    names = {
        "title": one.get_title(loc="left"),
        "x": one.get_xlabel(),
        "y": one.get_ylabel(),
        "scales": f"{one.get_xscale()}, {one.get_yscale()}",
    }
    if one.get_label() == "<colorbar>":
        return names
    legend = one.get_legend()
    found = names | {
        "rows": _names(one.yaxis),
        "columns": _names(one.xaxis),
        "legend": [text.get_text() for text in legend.get_texts()] if legend else [],
        "texts": [text.get_text() for text in one.texts],
        "lines": [_points(one, line.get_xydata()) for line in one.lines],
        "bars": _bars(one),
        "marks": [part for each in one.collections for part in _marks(one, each)],
        "fields": [_numbers(image.get_array()) for image in one.images],
    }
    return {name: part for name, part in found.items() if part}


def _names(axis: Axis) -> list[str]:
    """What the places of an axis are called, where they are no numbers."""
    if isinstance(axis.get_major_formatter(), FixedFormatter | StrCategoryFormatter):
        return [one.get_text() for one in axis.get_ticklabels()]
    return []


def _bars(on: Axes) -> list[Any]:
    """By container, so that a bar of no height is there too; shades are rectangles as well."""
    boxes = [one.get_bbox() for one in on.patches if isinstance(one, Rectangle)]
    return _points(on, np.array([one.get_points().ravel() for one in boxes])) if boxes else []


def _marks(on: Axes, one: Collection) -> list[Any]:
    if isinstance(one, PathCollection):
        return [_points(on, np.asarray(one.get_offsets()))]
    if isinstance(one, LineCollection):
        return [_points(on, np.array([line.ravel() for line in one.get_segments()]))]
    # a band goes with its line, and tells how far it reaches
    return [_points(on, np.vstack([path.vertices for path in one.get_paths()]), ends=True)]


def _points(on: Axes, found: Any, *, ends: bool = False) -> list[Any]:
    """The columns of points; x and y take turns. Times are seconds since the first of them."""
    columns = np.array(np.ma.getdata(found), dtype=float).T.copy()
    for n, axis in enumerate((on.xaxis, on.yaxis)):
        if isinstance(axis.get_major_locator(), dates.DateLocator) and columns.size:
            here = columns[n::2]
            columns[n::2] = (here - np.nanmin(here)) * _DAY_S
    if ends:
        columns = np.stack([np.nanmin(columns, axis=1), np.nanmax(columns, axis=1)], axis=1)
    return [_numbers(one) for one in columns]


def _numbers(found: Any) -> list[Any] | dict[str, Any]:
    """Numbers with nine digits; of many their count, their sum and some of them."""
    flat: Any = np.ma.filled(np.ma.asarray(found, dtype=float), np.nan).ravel()
    told = [None if np.isnan(one) else float(f"{one:.9g}") for one in flat]
    if len(told) <= _MOST:
        return told
    some = np.linspace(0, len(told) - 1, _MOST).round().astype(int)
    total = float(f"{np.nansum(flat):.9g}")
    return {"count": len(told), "sum": total, "some": [told[n] for n in some]}
