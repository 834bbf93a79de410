"""Half a minute of everything: nothing grows, nothing is lost."""

from __future__ import annotations

import pytest

from tests.chaos.soak import soak
from tests.support import postgres

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        postgres.POSTGRES not in postgres.chosen(), reason="PostgreSQL was not asked for"
    ),
]


async def test_what_processes_use_stays_level(tmp_path):
    # others want processors too
    found = await soak(tmp_path, 30, count=2)
    assert found["bad"] == []
    assert found["grown"] == []
    assert found["stories"] > 15
    assert len(found["levels"]) == 2
