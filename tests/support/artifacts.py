"""The files that `make contracts` writes: of Florin's contracts, and of the test contracts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import florin_sandbox.devnet
import florin_server.rails.evm.setup

from tests.support.documents import ROOT

TEST_SOURCES = Path(florin_sandbox.devnet.__file__).parent / "contracts"
# the artifacts of each folder of sources
ARTIFACTS = {
    ROOT / "contracts/src": Path(florin_server.rails.evm.setup.__file__).parent / "artifacts.json",
    TEST_SOURCES: TEST_SOURCES / "artifacts.json",
}


def load_abi(name: str) -> list[dict[str, Any]]:
    """Return the ABI of a contract of either folder."""
    (abi,) = [
        contracts[name]["abi"]
        for path in ARTIFACTS.values()
        if name in (contracts := json.loads(path.read_text())["contracts"])
    ]
    return abi
