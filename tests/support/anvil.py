"""anvil, an EVM chain that others wrote: installed from npm when first needed, one process a user.

The version is pinned by the lock file in anvil_npm. Without Node tests that need it are skipped,
except in CI, where nothing may be left out.
"""

from __future__ import annotations

import http.client
import json
import os
import re
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

import pytest

from tests.support import npm

BUILD = Path(__file__).parents[2] / "build"
CHAIN_ID = 31337
START_S = 20  # it takes a tenth of a second, on a machine that has one to spare
END_S = 10
ANSWER_S = 30
_WANTED = Path(__file__).with_name("anvil_npm")


@dataclass(frozen=True)
class Anvil:
    """A running one."""

    url: str
    chain_id: int
    pid: int

    def ask(self, method: str, *params: Any) -> Any:
        """The result of a call, once it is there: nothing else goes on meanwhile."""
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=ANSWER_S)
        try:
            headers = {"Content-Type": "application/json"}
            connection.request("POST", "/", json.dumps(question), headers)
            content = json.load(connection.getresponse())
        finally:
            connection.close()
        assert "error" not in content, (method, content["error"])
        return content["result"]


@contextmanager
def running(*options: str, chain_id: int = CHAIN_ID) -> Iterator[Anvil]:
    """A fresh chain on a free port of this machine; `options` are anvil's own."""
    command = [
        str(program()),
        *("--host", "127.0.0.1", "--port", "0", "--chain-id", str(chain_id), "--accounts", "1"),
        *options,
    ]
    with tempfile.TemporaryFile() as said:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT
        )
        try:
            anvil = Anvil(_address(process, said), chain_id, process.pid)
            assert anvil.ask("eth_chainId") == hex(chain_id)
            yield anvil
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: subprocess.Popen[bytes], said: IO[bytes]) -> str:
    """Where it listens, as it says by itself."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        # reading at a place leaves the one where anvil writes alone
        text = os.pread(said.fileno(), 65536, 0).decode(errors="replace")
        if found := re.search(r"Listening on (127\.0\.0\.1:\d+)", text):
            return f"http://{found[1]}"
        assert process.poll() is None, text
        time.sleep(0.01)
    raise AssertionError(f"anvil does not start: {text}")


def program() -> Path:
    """The program; what keeps it away skips the test, or fails it in CI."""
    found = installed()
    if isinstance(found, str):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED against anvil: {found}")
    return found


@cache
def installed() -> Path | str:
    """The program, or why there is none."""
    package = npm.foundry("anvil")
    if not npm.has(_WANTED, package):
        return f"there is no {package}"
    home = BUILD / "anvil"
    if (fault := npm.install(_WANTED, home)) is not None:
        return fault
    path = home / "node_modules" / package / "bin" / "anvil"
    return path if path.exists() else f"npm installed no {package}"
