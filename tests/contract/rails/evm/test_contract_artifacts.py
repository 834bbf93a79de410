"""Test that the compiled contracts match their sources."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from pathlib import Path

import pytest
from eth_hash.auto import keccak
from florin_sandbox.devnet.evm import DEVNET
from florin_sandbox.devnet.genesis import load_artifact
from florin_server.app.chains.setup import (
    load_forwarder_contract,
    load_opener_contract,
    load_settlement_contract,
)
from florin_server.domain.caip import format_checksum_address
from florin_server.rails.evm.known_contracts import DEPLOYER
from florin_server.rails.evm.setup.deployment import SALT

from tests.support import npm
from tests.support.artifacts import ARTIFACTS, load_abi
from tests.support.documents import ROOT

pytestmark = pytest.mark.slow

CONTRACTS = ROOT / "contracts"
# a separate folder: an interrupted `make contracts` leaves its manifests behind
TOOLS = npm.BUILD / "recompiled"
both = pytest.mark.parametrize("sources", ARTIFACTS, ids=("florin", "test"))


def committed(sources: Path) -> dict:
    return json.loads(ARTIFACTS[sources].read_text())


@both
def test_artifacts_match_the_digests_of_their_sources(sources):
    digests = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sources.glob("*.sol")
    }
    assert committed(sources)["sources"] == digests, "run: make contracts"


@pytest.fixture(scope="module")
def rebuilt(tmp_path_factory) -> dict[Path, Path]:
    """Compile each folder of sources once; return the folders with the outputs."""
    folders = {sources: tmp_path_factory.mktemp("rebuilt") for sources in ARTIFACTS}
    for sources, folder in folders.items():
        build(sources, folder / "artifacts.json", folder / "inputs")
    return folders


@both
def test_sources_compile_to_the_artifacts(rebuilt, sources):
    compiled = rebuilt[sources] / "artifacts.json"
    assert compiled.read_bytes() == ARTIFACTS[sources].read_bytes(), "run: make contracts"


def test_explorer_input_compiles_to_the_deployed_code(rebuilt, tmp_path):
    """A block explorer compiles one source file, without the others of its folder."""
    sources = CONTRACTS / "src"
    for name in ("PaySettler", "PayForwarder", "Opener"):
        verified = json.loads((rebuilt[sources] / f"inputs/{name}.json").read_text())
        assert list(verified["sources"]) == [f"{name}.sol"]
        alone, compiled = tmp_path / name, tmp_path / f"{name}.json"
        alone.mkdir()
        (alone / f"{name}.sol").write_text(verified["sources"][f"{name}.sol"]["content"])
        build(alone, compiled, tmp_path / "again")
        assert json.loads((tmp_path / f"again/{name}.json").read_text()) == verified
        created = json.loads(compiled.read_text())["contracts"][name]
        assert created == committed(sources)["contracts"][name]


def test_no_contract_is_in_two_artifacts():
    ours, tests = (committed(sources)["contracts"].keys() for sources in ARTIFACTS)
    assert not ours & tests


def test_readme_states_compiler_settings_and_addresses():
    text = (CONTRACTS / "README.md").read_text()
    compiler = committed(CONTRACTS / "src")["compiler"].partition(".Emscripten")[0]
    assert f"`v{compiler}`" in text
    for load in (load_settlement_contract, load_forwarder_contract, load_opener_contract):
        contract = load()
        assert f"`{format_checksum_address(contract.address)}`" in text
    build_script = (CONTRACTS / "build.mjs").read_text()
    assert "evmVersion: 'cancun'" in build_script
    assert "runs: 10000" in build_script
    assert keccak(b"florin settlement") == SALT
    assert f"`{format_checksum_address(DEPLOYER)}`" in text


def test_contract_interface_is_complete():
    """Deployed payments rely on these functions; later kinds of payment only add to them."""
    settler = {
        f"{item['name']}({','.join(kind(each) for each in item['inputs'])})"
        for item in load_abi("PaySettler")
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
        # these three accept calls of the contract itself
        f"take3009({pay})",
        f"takePermit2({pay})",
        f"settleTogether(uint8,{pay}[])",
        f"pay({pay})",
        "isPaid(address,bytes32)",
        "Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)",
        "Failed(bytes32,bytes)",
    }
    names = {item.get("name") for item in load_abi("TestDollar")}
    assert {"receiveWithAuthorization", "transferWithAuthorization", "permit"} <= names
    assert DEVNET.token.name.encode() in load_artifact("TestDollar").runtime
    assert DEVNET.euro.name.encode() in load_artifact("TestEuro").runtime
    assert bytes.fromhex(DEVNET.permit2[2:].lstrip("0")) in load_artifact("PaySettler").runtime


def test_forwarder_interface_is_complete():
    """Addresses that were handed out rely on these functions."""
    forwarder = {
        f"{item['name']}({','.join(kind(each) for each in item['inputs'])})"
        for item in load_abi("PayForwarder")
        if item["type"] in ("function", "event")
    }
    route = "(uint256,address,uint256,uint256,address,address,uint256,bytes32,address)"
    item, sweep = f"({route},address,bytes,uint256)", f"({route},address[],uint256)"
    assert forwarder == {
        "vault()",
        "errand()",
        f"routeNonce({route})",
        f"addressOf({route})",
        f"forward({item}[])",
        f"forwardOne({item})",
        f"sweep({sweep}[])",
        f"sweepOne({route},address[])",
        "staysOpen(bytes32)",
        "Paid(bytes32,address,address,address,uint256,address,uint256,bytes32)",
        "SentHome(bytes32,address,address,uint256,address)",
        "Failed(bytes32,bytes)",
    }


def kind(field: dict) -> str:
    if not field["type"].startswith("tuple"):
        return field["type"]
    inside = ",".join(kind(each) for each in field["components"])
    return f"({inside}){field['type'].removeprefix('tuple')}"


def build(sources: Path, *outputs: Path) -> None:
    command = ["node", CONTRACTS / "build.mjs", solc(), sources, *outputs]
    subprocess.run(command, check=True, timeout=600)


def solc() -> Path:
    """Return the folder with the compiler; install it from the lock file if it is missing."""
    if (fault := npm.install(CONTRACTS, TOOLS)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"THE CONTRACTS WERE NOT RECOMPILED: {fault}")
    return TOOLS
