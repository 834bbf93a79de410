"""Test that the compiled contracts match their sources."""

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
from florin_server.devnet.genesis import load_artifact

from tests.support import npm

pytestmark = pytest.mark.slow

CONTRACTS = Path(florin_server.devnet.__file__).parent / "contracts"
CARRIED = Path(florin_server.rails.evm.setup.__file__).parent / "bytecode.json"
# a separate folder: an interrupted `make contracts` leaves its manifests behind
TOOLS = npm.BUILD / "recompiled"


def committed() -> dict:
    return json.loads((CONTRACTS / "artifacts.json").read_text())


def test_artifacts_match_the_digests_of_their_sources():
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
        contract = committed()["contracts"][name]
        assert code == {part: contract[part] for part in ("bytecode", "runtime")}, (
            "run: make contracts"
        )


def test_contract_interface_is_complete():
    """Deployed payments rely on these functions; later kinds of payment only add to them."""
    settler = {
        f"{item['name']}({','.join(kind(each) for each in item['inputs'])})"
        for item in load_artifact("PaySettler").abi
        if item["type"] in ("function", "event")
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
    names = {item.get("name") for item in load_artifact("TestDollar").abi}
    assert {"receiveWithAuthorization", "transferWithAuthorization", "permit"} <= names
    assert DEVNET.token.name.encode() in load_artifact("TestDollar").runtime
    assert DEVNET.euro.name.encode() in load_artifact("TestEuro").runtime
    assert bytes.fromhex(DEVNET.permit2[2:].lstrip("0")) in load_artifact("PaySettler").runtime


def kind(field: dict) -> str:
    if not field["type"].startswith("tuple"):
        return field["type"]
    inside = ",".join(kind(each) for each in field["components"])
    return f"({inside}){field['type'].removeprefix('tuple')}"


def solc() -> Path:
    """Return the folder with the compiler; install it from the lock file if it is missing."""
    if (fault := npm.install(CONTRACTS, TOOLS)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"THE CONTRACTS WERE NOT RECOMPILED: {fault}")
    return TOOLS
