"""Libraries that wallets are made of, in Node: installed from npm when first needed.

Their versions are pinned by the lock file in javascript_npm. Without Node, tests that need them are
skipped with a reason; in CI (`CI=true`) they fail instead.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.support import npm
from tests.support.until import wait_until

_NPM_FOLDER = Path(__file__).with_name("javascript_npm")
_HOME = npm.BUILD / "javascript"


def install_libraries() -> None:
    """Install the libraries where scripts find them; on failure, skip the test or fail it in CI."""
    if (fault := npm.install(_NPM_FOLDER, _HOME)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with JavaScript: {fault}")


@asynccontextmanager
async def serve_script(
    script: str, port: int, **env: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a module that listens at a port of 127.0.0.1; yield once it does."""
    await asyncio.to_thread(install_libraries)
    process = await asyncio.create_subprocess_exec(
        *("node", "--input-type=module", "--eval", script),
        cwd=_HOME,
        env={**os.environ, **env},
        stdout=asyncio.subprocess.PIPE,
    )

    async def listens() -> bool:
        assert process.returncode is None, "it ended"
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            return False
        writer.close()
        return True

    try:
        await wait_until(listens, patience_s=240)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def run_script(script: str, value: Any) -> Any:
    """Run a module with JSON on its standard input; return the JSON that it prints."""
    install_libraries()
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        cwd=_HOME,
        input=json.dumps(value),
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
