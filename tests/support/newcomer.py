"""A newcomer: a fresh clone of this tree, a bash in it, and what is typed there."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.documents import ROOT

PATIENCE_S = 120
# what is installed as it is in the folder
ROOTS = ("client/gen", "client", "server", "gateway")


@dataclass
class Shell:
    """A bash that goes on from block to block; what one says and complains of is told apart."""

    process: asyncio.subprocess.Process
    folder: Path
    errors: Path
    count: int = 0

    async def run(self, script: str) -> str:
        """What a script prints; no command of it fails."""
        status, out, err = await self.told(f"set -E -o pipefail\n{FAILED}\n{script}\ntrap - ERR\n")
        assert status == 0, f"{script}\n{out}\n{err}"
        assert "failed: " not in err, f"{script}\n{out}\n{err}"
        return out

    async def told(self, script: str) -> tuple[int, str, str]:
        """The status of the last command, and everything that was said."""
        self.count += 1
        file = self.folder.parent / f"block-{self.count}.sh"
        file.write_text(script)
        self.errors.write_text("")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # no command may read what is to be typed next
        self.process.stdin.write(f". {file} < /dev/null; printf '\\n%s\\0' $?\n".encode())
        said = await asyncio.wait_for(self.process.stdout.readuntil(b"\0"), PATIENCE_S)
        out, _, status = said.decode().removesuffix("\0").rpartition("\n")
        return int(status), out, self.errors.read_text()

    async def value(self, name: str) -> str:
        return (await self.run(f"printf %s ${name}")).strip()


# the command that fails says so, also where the next one succeeds
FAILED = "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR"


@dataclass
class Walk:
    """A newcomer on the way."""

    folder: Path
    env: dict[str, str]
    shell: Shell
    session: aiohttp.ClientSession
    upright: list[asyncio.subprocess.Process] = field(default_factory=list)
    # what runs in terminals of its own, at which port, and the secret that one of them has shown
    beside: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
    port: int | None = None
    secret: str = ""

    async def ask_chain(self, method: str, *params: Any) -> Any:
        url = await self.shell.value("FLORIN_EVM_RPC_URL")
        question = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        async with self.session.post(url, json=question) as answer:
            return (await answer.json())["result"]

    async def page(self, payment_id: str) -> str:
        url = f"{await self.shell.value('FLORIN_BASE_URL')}/{payment_id}"
        async with self.session.get(url) as answer:
            return await answer.text()


@asynccontextmanager
async def setting_out(tmp_path: Path, *, fresh: bool = False) -> AsyncIterator[Walk]:
    """Somebody in a fresh clone, with nothing else than what is told here.

    A `fresh` one has what is committed, and nothing is installed in it.
    """
    folder = tmp_path / "florin-pay"
    (cloned if fresh else clone)(folder)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    own = {
        "HOME": str(tmp_path / "home"),
        "FLORIN_HTTP_PORT": "0",
        "FLORIN_GRPC_PORT": "0",
    }
    if not fresh:
        own["PYTHONPATH"] = ":".join(str(folder / one) for one in ROOTS)
    env = clean | own
    (tmp_path / "home").mkdir()
    errors = tmp_path / "errors"
    with errors.open("w") as file:
        bash = await asyncio.create_subprocess_exec(
            *("bash", "--norc"),
            cwd=folder,
            env=env,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=os.open(errors, os.O_WRONLY | os.O_APPEND),
        )
        file.close()
    async with aiohttp.ClientSession() as session:
        made = Walk(folder, env, Shell(bash, folder, errors), session)
        try:
            yield made
        finally:
            assert bash.stdin is not None
            bash.stdin.close()
            await bash.wait()
            for one in (*made.beside.values(), *made.upright):
                await ended(one)


def cloned(folder: Path) -> None:
    """What was committed, as git hands it out."""
    subprocess.run(("git", "clone", "--quiet", str(ROOT), str(folder)), check=True)


def clone(folder: Path) -> None:
    """What a clone of this tree would hold, with what is not committed yet, after `make setup`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    for one in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / one).symlink_to(Path(sys.prefix) / one)
    for one in (".run", ".dev"):
        # newer than what it is made from
        (folder / ".venv" / one).touch()


async def begun(walk: Walk, name: str, script: str) -> None:
    """A terminal of its own, for what goes on beside the walk; its name in `beside`."""
    walk.beside[name] = await _typed(walk, script)


async def _typed(walk: Walk, script: str, answer: str = "") -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=walk.folder,
        env=walk.env,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin is not None
    process.stdin.write(answer.encode())
    process.stdin.close()
    return process


@asynccontextmanager
async def typed(walk: Walk, script: str, *, answer: str = "") -> AsyncIterator[Any]:
    """A shell of its own, with an operator in front of it."""
    process = await _typed(walk, script, answer)
    try:
        yield process
    finally:
        await ended(process)


async def until(
    process: asyncio.subprocess.Process, word: str, patience_s: float = PATIENCE_S
) -> str:
    """What it says up to a word; AssertionError if it ends before."""
    said = ""
    assert process.stdout is not None
    async with asyncio.timeout(patience_s):
        while word not in said:
            line = await process.stdout.readline()
            assert line, f"it ended:\n{said}"
            said += line.decode()
    return said


async def ended(process: asyncio.subprocess.Process) -> None:
    """Ctrl-C, as a terminal tells it to all who run there."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
