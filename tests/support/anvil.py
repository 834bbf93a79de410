"""anvil, an EVM chain by other authors: npm installs it when first needed; one process per user.

The version is pinned by the lock file in anvil_npm. Without Node, tests that need it are skipped,
except in CI, where no test may be skipped.
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
START_S = 20  # takes a tenth of a second on an idle machine
END_S = 10
ANSWER_S = 30
_NPM_FOLDER = Path(__file__).with_name("anvil_npm")


@dataclass(frozen=True)
class AnvilProcess:
    """A running anvil process."""

    url: str
    chain_id: int
    pid: int

    def ask(self, method: str, *params: Any) -> Any:
        """Return the result of a call; this blocks the event loop until the answer has come."""
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
def run_anvil(*options: str, chain_id: int = CHAIN_ID) -> Iterator[AnvilProcess]:
    """Run a fresh chain on a free port of this machine; `options` are anvil's own."""
    command = [
        str(get_program()),
        *("--host", "127.0.0.1", "--port", "0", "--chain-id", str(chain_id), "--accounts", "1"),
        *options,
    ]
    with tempfile.TemporaryFile() as temporary_file:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=temporary_file, stderr=subprocess.STDOUT
        )
        try:
            anvil = AnvilProcess(_wait_address(process, temporary_file), chain_id, process.pid)
            assert anvil.ask("eth_chainId") == hex(chain_id)
            yield anvil
        finally:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_address(process: subprocess.Popen[bytes], sent_text: IO[bytes]) -> str:
    """Return the address that anvil prints at its start."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        # reading at an offset does not move the position where anvil writes
        text = os.pread(sent_text.fileno(), 65536, 0).decode(errors="replace")
        if match := re.search(r"Listening on (127\.0\.0\.1:\d+)", text):
            return f"http://{match[1]}"
        assert process.poll() is None, text
        time.sleep(0.01)
    raise AssertionError(f"anvil does not start: {text}")


def get_program() -> Path:
    """Return the program; if it cannot be had, skip the test, or fail it in CI."""
    result = install_anvil()
    if isinstance(result, str):
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED against anvil: {result}")
    return result


@cache
def install_anvil() -> Path | str:
    """Return the program, or the reason why it is missing."""
    package = npm.get_foundry_package("anvil")
    if not npm.has_package(_NPM_FOLDER, package):
        return f"there is no {package}"
    home = BUILD / "anvil"
    if (fault := npm.install(_NPM_FOLDER, home)) is not None:
        return fault
    path = home / "node_modules" / package / "bin" / "anvil"
    return path if path.exists() else f"npm installed no {package}"
