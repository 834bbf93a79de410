"""A newcomer: a fresh clone of this tree, a bash in it, and the commands typed there."""

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

PATIENCE_S = 600
# packages that are installed in place
ROOTS = ("client/gen", "client", "server", "gateway/options", "gateway", "sandbox")


@dataclass
class NewcomerShell:
    """A bash that keeps its state from block to block, with stdout apart from stderr."""

    process: asyncio.subprocess.Process
    folder: Path
    errors: Path
    count: int = 0

    async def run(self, script: str) -> str:
        """Run a script in which no command may fail; return its output."""
        status, out, err = await self.run_with_output(
            f"set -E -o pipefail\n{FAILURE_TRAP}\n{script}\ntrap - ERR\n"
        )
        assert status == 0, f"{script}\n{out}\n{err}"
        assert "failed: " not in err, f"{script}\n{out}\n{err}"
        return out

    async def run_with_output(self, script: str) -> tuple[int, str, str]:
        """Return the status of the last command, the output and the errors."""
        self.count += 1
        file = self.folder.parent / f"block-{self.count}.sh"
        file.write_text(script)
        self.errors.write_text("")
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        # no command may read what is to be typed next
        self.process.stdin.write(f". {file} < /dev/null; printf '\\n%s\\0' $?\n".encode())
        text = await asyncio.wait_for(self.process.stdout.readuntil(b"\0"), PATIENCE_S)
        out, _, status = text.decode().removesuffix("\0").rpartition("\n")
        return int(status), out, self.errors.read_text()

    async def value(self, name: str) -> str:
        return (await self.run(f"printf %s ${name}")).strip()


# report the command that fails, also where the next one succeeds
FAILURE_TRAP = "trap 'echo \"failed: $BASH_COMMAND\" >&2' ERR"


@dataclass
class NewcomerWalk:
    """A newcomer who follows the documents."""

    folder: Path
    env: dict[str, str]
    shell: NewcomerShell
    session: aiohttp.ClientSession
    services: list[asyncio.subprocess.Process] = field(default_factory=list)
    # commands in terminals of their own, their port, and the secret that one of them has shown
    terminals: dict[str, asyncio.subprocess.Process] = field(default_factory=dict)
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
async def start_walk(tmp_path: Path, *, fresh: bool = False) -> AsyncIterator[NewcomerWalk]:
    """Start a newcomer in a fresh clone, with only the environment given here.

    A `fresh` clone has only what is committed, with nothing installed.
    """
    folder = tmp_path / "florin-pay"
    (clone_committed if fresh else clone_working_tree)(folder)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    own = {
        "HOME": str(tmp_path / "home"),
        "FLORIN_HTTP_PORT": "0",
        "FLORIN_GRPC_PORT": "0",
    }
    if not fresh:
        own["PYTHONPATH"] = ":".join(str(folder / text) for text in ROOTS)
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
        walk = NewcomerWalk(folder, env, NewcomerShell(bash, folder, errors), session)
        try:
            yield walk
        finally:
            assert bash.stdin is not None
            bash.stdin.close()
            await bash.wait()
            for process in (*walk.terminals.values(), *walk.services):
                await interrupt(process)


def clone_committed(folder: Path) -> None:
    """Clone what is committed."""
    subprocess.run(("git", "clone", "--quiet", str(ROOT), str(folder)), check=True)


def clone_working_tree(folder: Path) -> None:
    """Copy the working tree, with uncommitted files, as after `make setup`."""
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    listed = ("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    for name in filter(None, done.stdout.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    (folder / ".venv").mkdir()
    for text in ("bin", "lib", "pyvenv.cfg"):
        (folder / ".venv" / text).symlink_to(Path(sys.prefix) / text)
    for text in ("florin", "pytest"):
        # newer than the copied requirements, so that make installs nothing
        (folder / ".venv" / "bin" / text).touch()


async def start_terminal(walk: NewcomerWalk, name: str, script: str) -> None:
    """Start a script in a terminal of its own, beside the walk; keep it in `beside` by name."""
    walk.terminals[name] = await _start_typed(walk, script)


async def _start_typed(
    walk: NewcomerWalk, script: str, answer: str = ""
) -> asyncio.subprocess.Process:
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
async def run_typed(walk: NewcomerWalk, script: str, *, answer: str = "") -> AsyncIterator[Any]:
    """Run a script in a shell of its own that the operator watches."""
    process = await _start_typed(walk, script, answer)
    try:
        yield process
    finally:
        await interrupt(process)


async def wait_output(
    process: asyncio.subprocess.Process, word: str, patience_s: float = PATIENCE_S
) -> str:
    """Return the output up to a word; AssertionError if it ends before."""
    text = ""
    assert process.stdout is not None
    async with asyncio.timeout(patience_s):
        while word not in text:
            line = await process.stdout.readline()
            assert line, f"it ended:\n{text}"
            text += line.decode()
    return text


async def interrupt(process: asyncio.subprocess.Process) -> None:
    """Send Ctrl-C, as a terminal does, to all processes there."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.communicate(), PATIENCE_S)
