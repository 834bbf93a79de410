"""What the rail asks wallets to sign hashes the same in the library that most wallets use.

Installs ethers into build/ by itself. Without Node the test is skipped, except in CI.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
from florin_server.rails.evm.typed_data import (
    Domain,
    PermitTransferFrom,
    ReceiveWithAuthorization,
    permit2_domain,
    sign_request,
)

ETHERS = "6.17.0"
HOME = Path(__file__).parents[2] / "build" / "javascript"
HASHES = """
import { TypedDataEncoder, Wallet } from 'ethers';
let text = '';
for await (const piece of process.stdin) text += piece;
const wallet = new Wallet('0x' + '01'.repeat(32));
const answers = [];
for (const params of JSON.parse(text)) {
  const { types, primaryType, domain, message } = JSON.parse(params[1]);
  const { EIP712Domain, ...rest } = types;
  answers.push({
    primaryType: TypedDataEncoder.getPrimaryType(rest),
    digest: TypedDataEncoder.hash(domain, rest, message),
    signature: await wallet.signTypedData(domain, rest, message),
  });
}
console.log(JSON.stringify(answers));
"""
SIGNER = "0x1a642f0e3c3af545e7acbd38b07251b3990914f1"
MESSAGES = [
    ReceiveWithAuthorization(
        domain=Domain("USD Coin", "2", 8453, "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913"),
        payer="0x" + "11" * 20,
        payee="0x" + "22" * 20,
        value=0xF4240,
        valid_after=0,
        valid_before=0x6AAAF309,
        nonce=b"\xab" * 32,
    ),
    ReceiveWithAuthorization(
        domain=Domain("Prüf-Dollar €", "1.0", 2**53 - 1, "0x" + "fe" * 20),
        payer=SIGNER,
        payee="0x" + "00" * 20,
        value=2**256 - 1,
        valid_after=2**255,
        valid_before=0,
        nonce=bytes(32),
    ),
    PermitTransferFrom(
        domain=permit2_domain(1),
        token="0xdac17f958d2ee523a2206206994597c13d831ec7",
        amount=0x186A0,
        spender="0x" + "22" * 20,
        nonce=int.from_bytes(b"\xcd" * 32, "big"),
        deadline=0x6AAAF309,
    ),
]


@pytest.fixture(scope="module")
def node():
    """The path of Node, with ethers installed beside the scripts."""
    missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    path, npm = shutil.which("node"), shutil.which("npm")
    if path is None or npm is None:
        missing("NOT TESTED: typed data against ethers, because there is no Node here")
    if not (HOME / "node_modules" / "ethers").is_dir():
        HOME.mkdir(parents=True, exist_ok=True)
        manifest = {"private": True, "type": "module", "dependencies": {"ethers": ETHERS}}
        (HOME / "package.json").write_text(json.dumps(manifest))
        installed = subprocess.run(
            [npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts"],
            cwd=HOME,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if installed.returncode != 0:
            missing("NOT TESTED: typed data against ethers, because npm could not install it")
    (HOME / "hashes.mjs").write_text(HASHES)
    return path


@pytest.fixture(scope="module")
def answers(node):
    """What ethers makes of the requests."""
    requests = [json.loads(sign_request(SIGNER, message)) for message in MESSAGES]
    done = subprocess.run(
        [node, "hashes.mjs"],
        cwd=HOME,
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return json.loads(done.stdout)


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_ethers_computes_the_same_digest(answers, index):
    assert answers[index]["digest"] == "0x" + MESSAGES[index].digest().hex()


@pytest.mark.parametrize("index", range(len(MESSAGES)))
def test_a_signature_by_ethers_recovers_to_its_wallet(answers, index):
    from florin_server.rails.evm.signatures import canonical_signature, recover

    signature = canonical_signature(answers[index]["signature"])
    assert recover(MESSAGES[index].digest(), signature) == SIGNER


def test_ethers_finds_the_same_primary_types(answers):
    assert [one["primaryType"] for one in answers] == [
        "ReceiveWithAuthorization",
        "ReceiveWithAuthorization",
        "PermitTransferFrom",
    ]
