"""The compiled contracts are those of the sources."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import florin_server.devnet
import florin_server.rails.evm.setup
import pytest
from florin_server.devnet.evm import DEVNET
from florin_server.devnet.genesis import artifact

from tests.support import npm

pytestmark = pytest.mark.slow

CONTRACTS = Path(florin_server.devnet.__file__).parent / "contracts"
CARRIED = Path(florin_server.rails.evm.setup.__file__).parent / "bytecode.json"
# a folder of its own: `make contracts` leaves its manifests behind if it is interrupted
TOOLS = npm.BUILD / "recompiled"


def committed() -> dict:
    return json.loads((CONTRACTS / "artifacts.json").read_text())


def test_the_artifacts_name_the_sources_they_were_made_from():
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in CONTRACTS.glob("*.sol")
    }
    assert committed()["sources"] == digests, "run: make contracts"


def test_the_sources_compile_to_the_artifacts(tmp_path):
    compiler = solc()
    rebuilt, carried = tmp_path / "artifacts.json", tmp_path / "bytecode.json"
    subprocess.run(
        ["node", CONTRACTS / "build.mjs", rebuilt, compiler, carried], check=True, timeout=120
    )
    assert json.loads(rebuilt.read_text()) == committed()
    assert carried.read_bytes() == CARRIED.read_bytes()


def test_the_rails_carry_the_code_that_was_compiled():
    for name, code in json.loads(CARRIED.read_text()).items():
        made = committed()["contracts"][name]
        assert code == {part: made[part] for part in ("bytecode", "runtime")}, "run: make contracts"


def test_a_known_interface_is_all_there_is():
    """What deployed payments rely on; later kinds of payment come beside it."""
    settler = {
        f"{one['name']}({','.join(kind(each) for each in one['inputs'])})"
        for one in artifact("PaySettler").abi
        if one["type"] in ("function", "event")
    }
    pay = "(address,address,uint256,uint256,uint256,address,address,uint256,bytes32,uint256,bytes)"
    assert settler == {
        "PERMIT2()",
        f"routeNonce(uint8,{pay})",
        f"settle3009({pay}[])",
        f"one3009({pay})",
        f"settlePermit2({pay}[])",
        f"onePermit2({pay})",
        f"settle({pay}[],{pay}[])",
        f"pay({pay})",
        "isPaid(address,bytes32)",
        "Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)",
        "Failed(bytes32,bytes)",
    }
    names = {one.get("name") for one in artifact("TestDollar").abi}
    assert {"receiveWithAuthorization", "transferWithAuthorization", "permit"} <= names
    assert DEVNET.token.name.encode() in artifact("TestDollar").runtime
    assert DEVNET.euro.name.encode() in artifact("TestEuro").runtime
    assert bytes.fromhex(DEVNET.permit2[2:].lstrip("0")) in artifact("PaySettler").runtime


def kind(field: dict) -> str:
    if not field["type"].startswith("tuple"):
        return field["type"]
    inside = ",".join(kind(each) for each in field["components"])
    return f"({inside}){field['type'].removeprefix('tuple')}"


def solc() -> Path:
    """The folder with the compiler, installed from the lock file if it is not there."""
    if (fault := npm.install(CONTRACTS, TOOLS)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"THE CONTRACTS WERE NOT RECOMPILED: {fault}")
    return TOOLS
