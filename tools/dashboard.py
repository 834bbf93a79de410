"""Write the Grafana dashboard from its panels; with `--check`, check that it is current."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tools.dashboard_panels import ROWS, DashboardPanel

DASHBOARD_FILE = (
    Path(__file__).resolve().parents[1] / "deploy" / "monitoring" / "grafana-dashboard.json"
)
_PANEL_WIDTH, _PANEL_HEIGHT, _COLUMNS = 8, 7, 3
_DATASOURCE = {"type": "prometheus", "uid": "${source}"}


def render_dashboard() -> str:
    """Return the text of the dashboard file."""
    panels: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS.items():
        panels.append(
            _place_panel(
                {"type": "row", "title": title, "collapsed": False}, panels, (0, y), (24, 1)
            )
        )
        y += 1
        for place, panel in enumerate(row):
            x, down = place % _COLUMNS * _PANEL_WIDTH, place // _COLUMNS * _PANEL_HEIGHT
            panels.append(
                _place_panel(
                    _build_panel(panel), panels, (x, y + down), (_PANEL_WIDTH, _PANEL_HEIGHT)
                )
            )
        y += -(-len(row) // _COLUMNS) * _PANEL_HEIGHT
    dashboard = {
        "title": "Florin",
        "uid": "florin",
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "tags": ["florin"],
        "templating": {"list": _VARIABLES},
        "panels": panels,
    }
    return json.dumps(dashboard, indent=2) + "\n"


_VARIABLES = [
    {"name": "source", "label": "Prometheus", "type": "datasource", "query": "prometheus"},
    {
        "name": "chain",
        "label": "Chain",
        "type": "query",
        "datasource": _DATASOURCE,
        "query": "label_values(florin_chain_ok, chain)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
    },
]


def _place_panel(
    panel: dict[str, Any],
    panels: list[dict[str, Any]],
    position: tuple[int, int],
    size: tuple[int, int],
) -> dict[str, Any]:
    place = dict(zip("xywh", (*position, *size), strict=True))
    return {"id": len(panels) + 1, **panel, "gridPos": place}


def _build_panel(panel: DashboardPanel) -> dict[str, Any]:
    targets = [
        {
            "refId": chr(ord("A") + n),
            "datasource": _DATASOURCE,
            "expr": query,
            "legendFormat": legend,
        }
        for n, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "type": panel.kind,
        "title": panel.title,
        "datasource": _DATASOURCE,
        "fieldConfig": {"defaults": {"unit": panel.unit}, "overrides": []},
        "targets": targets,
    }


def main() -> None:
    """Write the file, or compare it with `--check`."""
    if sys.argv[1:] != ["--check"]:
        DASHBOARD_FILE.write_text(render_dashboard())
    elif not DASHBOARD_FILE.exists() or DASHBOARD_FILE.read_text() != render_dashboard():
        raise SystemExit("the dashboard is stale, run `make gen`")


if __name__ == "__main__":
    main()
