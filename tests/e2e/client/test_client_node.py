"""The Node client of the documents, run verbatim.

Without Node the test is skipped with a reason; in CI (`CI=true`) it fails instead.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import npm
from tests.support.documents import ROOT, list_blocks

PLACE = ("docs/clients.md", "Node", 0)
WANTED = Path(npm.__file__).with_name("grpc_npm")
HOME = npm.BUILD / "grpc-js"


def test_it_follows_a_payment_to_its_end(up):
    if (fault := npm.install(WANTED, HOME)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with Node: {fault}")
    (block,) = (each_block for each_block in list_blocks() if each_block.place == PLACE)
    # modules are looked up beside the script, protos from the working directory
    script = HOME / "client.mjs"
    script.write_text(block.text)
    done = subprocess.run(
        ["node", script],
        cwd=ROOT,
        env={**os.environ, **up.env},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    *_, last = done.stdout.splitlines()
    assert last.split() == ["1", "PAYMENT_STATUS_SUCCEEDED"]
