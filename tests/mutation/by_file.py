"""A pytest plugin that runs mutmut's selection file by file, so that a service starts once each.

mutmut selects the fastest tests first, across files. Here the files run in the order of their first
selected test.
"""

from __future__ import annotations

from pathlib import Path

import pytest


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place: dict[Path, int] = {}
    for item in items:
        place.setdefault(item.path, len(place))
    items.sort(key=lambda item: place[item.path])
