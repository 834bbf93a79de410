"""A newcomer's way, in the environment of the tests; `make newcomer` follows it from nothing."""

from __future__ import annotations

import shutil

import pytest

from tests.newcomer import followed

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        shutil.which("curl") is None or shutil.which("make") is None,
        reason="the README types both",
    ),
]


async def test_a_newcomer_gets_from_a_clone_to_a_notebook(tmp_path):
    steps = await followed(tmp_path, fresh=False)
    assert [name for name, _ in steps.durations] == [
        "git clone",
        "make demo: to the payment that succeeded",
        "a payment by curl",
        "florin lab: to Jupyter",
        "notebook 00",
        "Ctrl-C, twice",
    ]
    assert all(seconds > 0 for _, seconds in steps.durations)
    assert str(steps).splitlines()[-1].endswith(" s  altogether")
