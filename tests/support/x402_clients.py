"""Programs made of the published packages of x402, for Python and for Node, and nothing of Florin.

Their versions are pinned by lock files. Without a package registry, tests that need them are
skipped with a reason; in CI (`CI=true`) they fail instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from florin_server.base.clock import TestClock

from tests.support import npm, pip
from tests.support.chains import EmbeddedChains
from tests.support.until import wait_until

_FOLDER = Path(__file__).parent
_PYTHON_LOCK = _FOLDER / "x402_python" / "requirements.lock"
_PYTHON_HOME = npm.BUILD / "x402-python"
_NPM_HOME = npm.BUILD / "x402-npm"
EXAMPLES = _FOLDER.parents[1] / "examples"

PYTHON_CLIENT = """
import asyncio, json, os, sys
from x402 import x402Client
from x402.http.clients import x402HttpxClient
job = json.load(sys.stdin)
client = x402Client()
if "controls" not in job:
    client.set_spend_controls(False)
if job["network"].startswith("eip155"):
    from eth_account import Account
    from x402.mechanisms.evm.exact import ExactEvmScheme
    from x402.mechanisms.evm.signers import EthAccountSigner
    client.register("eip155:*", ExactEvmScheme(EthAccountSigner(Account.from_key(job["key"]))))
else:
    from solders.keypair import Keypair
    from x402.mechanisms.svm import KeypairSigner
    from x402.mechanisms.svm.exact import ExactSvmScheme
    signer = KeypairSigner(Keypair.from_seed(bytes.fromhex(job["key"])))
    client.register("solana:*", ExactSvmScheme(signer, rpc_url=job["rpc"]))

async def main():
    async with x402HttpxClient(client, timeout=240) as http:
        answer = await http.get(job["url"], headers={"Accept": "application/json"})
        await answer.aread()
        print(json.dumps({"status": answer.status_code, "body": answer.json(),
                          "response": answer.headers.get("PAYMENT-RESPONSE")}))
try:
    asyncio.run(main())
except Exception as error:
    print(json.dumps({"error": f"{type(error).__name__}: {error}"}))
"""

NODE_CLIENT = """
import { createRequire } from 'node:module';
import { readFileSync } from 'node:fs';
const need = createRequire(process.cwd() + '/package.json');
const { wrapFetchWithPaymentFromConfig } = need('@x402/fetch');
const job = JSON.parse(readFileSync(0, 'utf8'));
let client;
if (job.network.startsWith('eip155')) {
  const { ExactEvmScheme } = need('@x402/evm');
  const { privateKeyToAccount } = need('viem/accounts');
  client = new ExactEvmScheme(privateKeyToAccount(job.key));
} else {
  const { ExactSvmScheme } = need('@x402/svm');
  const { createKeyPairSignerFromPrivateKeyBytes } = need('@solana/kit');
  const signer = await createKeyPairSignerFromPrivateKeyBytes(Buffer.from(job.key, 'hex'));
  client = new ExactSvmScheme(signer, { rpcUrl: job.rpc });
}
const pay = wrapFetchWithPaymentFromConfig(fetch, {
  schemes: [{ network: job.network, client }],
  ...('controls' in job ? {} : { spendControls: false }),
});
try {
  const answer = await pay(job.url);
  const response = answer.headers.get('PAYMENT-RESPONSE');
  console.log(JSON.stringify({ status: answer.status, body: await answer.json(), response }));
} catch (error) {
  console.log(JSON.stringify({ error: String(error) }));
}
process.exit(0);
"""


class PresentChains(EmbeddedChains):
    """The embedded chain with the time of this machine, which published clients read too."""

    def clock(self, start_us: int) -> TestClock:
        return TestClock(time.time_ns() // 1_000)


def find_free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def _skip_or_fail(fault: str) -> None:
    missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
    missing(f"NOT TESTED with the packages of x402: {fault}")


def _prepare(language: str) -> tuple[list[str], Path, dict[str, str]]:
    """Install a language's packages; return its command, folder and variables."""
    if language == "python":
        if (fault := pip.install(_PYTHON_LOCK, _PYTHON_HOME)) is not None:
            _skip_or_fail(fault)
        # nothing of this environment is found before the pinned packages
        return [sys.executable, "-c"], _PYTHON_HOME, {"PYTHONPATH": str(_PYTHON_HOME)}
    if (fault := npm.install(_FOLDER / "x402_npm", _NPM_HOME)) is not None:
        _skip_or_fail(fault)
    return ["node", "--input-type=module", "--eval"], _NPM_HOME, {}


async def pay(language: str, **job: Any) -> dict[str, Any]:
    """Request a URL with a published client; return its result."""
    command, folder, env = await asyncio.to_thread(_prepare, language)
    script = PYTHON_CLIENT if language == "python" else NODE_CLIENT
    process = await asyncio.create_subprocess_exec(
        *command,
        script,
        cwd=folder,
        env={**os.environ, **env},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate(json.dumps(job).encode())
    assert process.returncode == 0, err.decode()
    result: dict[str, Any] = json.loads(out)
    return result


@asynccontextmanager
async def run_paid_api(
    language: str, port: int, variables: Mapping[str, str]
) -> AsyncIterator[str]:
    """Run the example of a language as users copy it; yield its address once it listens."""
    command, folder, env = await asyncio.to_thread(_prepare, language)
    name = "paid_api.py" if language == "python" else "paid_api.mjs"
    program = EXAMPLES / name
    if language == "node":
        # modules are searched from their file's folder upwards
        program = folder / name
        program.write_text((EXAMPLES / name).read_text())
    process = await asyncio.create_subprocess_exec(
        command[0],
        program,
        cwd=folder,
        env={**os.environ, **env, **variables, "PORT": str(port)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )

    async def listens() -> bool:
        assert process.returncode is None, (await process.communicate())[1].decode()
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await wait_until(listens, patience_s=240)
        yield f"http://127.0.0.1:{port}/"
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()
