"""Libraries that wallets are made of, in Node: installed from npm when they are first needed.

Their versions are pinned by the lock file in javascript_npm. Without Node tests that need them are
skipped, and say so; in CI (`CI=true`) they fail instead.
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
from tests.support.until import until

_WANTED = Path(__file__).with_name("javascript_npm")
_HOME = npm.BUILD / "javascript"


def install() -> None:
    """Puts the libraries where scripts find them; ends the test where that cannot be."""
    if (fault := npm.install(_WANTED, _HOME)) is not None:
        missing = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        missing(f"NOT TESTED with JavaScript: {fault}")


@asynccontextmanager
async def serving(script: str, port: int, **env: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A module that listens at a port of 127.0.0.1, once it does."""
    await asyncio.to_thread(install)
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
        await until(listens, patience_s=60)
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


def run(script: str, given: Any) -> Any:
    """What a module prints as JSON that is given JSON on its standard input."""
    install()
    done = subprocess.run(
        ["node", "--input-type=module", "--eval", script],
        cwd=_HOME,
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
