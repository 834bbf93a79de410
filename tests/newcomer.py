"""Run `python -m tests.newcomer`: measure how long a newcomer takes by the README and its links.

The steps are a clone, `make demo` to the succeeded payment, a payment by the README's lines, and
the first notebook in `florin lab`. Only the documents' commands are typed, and no source is read.
There are three differences from a newcomer's day: any free ports are used, no browser opens, and
the question about installing Jupyter is answered with yes.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.documents import DocumentBlock, list_blocks
from tests.support.newcomer import NewcomerWalk, run_typed, start_walk, wait_output
from tests.support.until import wait_until as so

# for all steps, on a slow network
LIMIT_S = 1_200
DEMO = ("README.md", "Two commands", 0)
PAYMENT = ("docs/first-payment.md", "In a shell", 0)
LAB = ("docs/payments.md", "In a notebook", 0)
FIRST = "00_start_here.ipynb"


@dataclass
class Steps:
    """The steps done, with their seconds."""

    durations: list[tuple[str, float]] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    def done(self, name: str) -> None:
        now = time.monotonic()
        self.durations.append((name, now - self.since))
        self.since = now

    def __str__(self) -> str:
        rows = [*self.durations, ("altogether", sum(seconds for _, seconds in self.durations))]
        return "\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in rows)


async def followed(folder: Path, *, fresh: bool) -> Steps:
    """Follow all steps in a new folder, and stop everything that was started.

    With `fresh` everything is installed; otherwise the environment of the tests is used.
    AssertionError if a step has another result than documented, TimeoutError if it takes too long.
    """
    blocks = {block.place: block for block in list_blocks()}
    steps = Steps()
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        walk = await stack.enter_async_context(start_walk(folder, fresh=fresh))
        steps.done("git clone")
        demo, *_ = blocks[DEMO].lines
        running = await stack.enter_async_context(run_typed(walk, demo))
        text = await wait_output(running, "Ctrl-C ends it.", LIMIT_S)
        assert "\nsucceeded  transaction 0x" in text, text
        if fresh:
            # the target's first line is the last step of the set-up
            set_up = (walk.folder / ".venv/bin/florin").stat().st_mtime - time.time()
            steps.durations.append(("make demo: set up", time.monotonic() + set_up - steps.since))
            steps.since = time.monotonic() + set_up
        steps.done("make demo: to the payment that succeeded")
        out = await walk.shell.run(blocks[PAYMENT].text)
        states = [json.loads(line[5:]) for line in out.splitlines() if line.startswith("data:")]
        assert (states[-1]["status"], states[-1]["isFinal"]) == ("succeeded", True), out
        steps.done("a payment by curl")
        async with lab(walk, blocks[LAB]) as jupyter:
            steps.done("florin lab: to Jupyter")
            assert "transaction 0x" in await jupyter.run(FIRST)
            steps.done("notebook 00")
    steps.done("Ctrl-C, twice")
    return steps


@dataclass
class Jupyter:
    """A running Jupyter."""

    walk: NewcomerWalk
    api: str
    token: dict[str, str]

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.api}/{path}"
        async with self.walk.session.request(method, url, json=body, headers=self.token) as answer:
            text = await answer.text()
            assert answer.ok, f"{path}: {text}"
            return json.loads(text or "null")

    async def run(self, name: str) -> str:
        """Run a notebook cell by cell; return all output. AssertionError if a cell fails."""
        cells = (await self.ask("GET", f"contents/{name}"))["content"]["cells"]
        request = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = (await self.ask("POST", "sessions", request))["kernel"]["id"]
        printed: list[str] = []
        url = f"{self.api}/kernels/{kernel}/channels"
        async with self.walk.session.ws_connect(url, headers=self.token) as channel:
            for cell in cells:
                if cell["cell_type"] == "code":
                    await channel.send_json(execution(cell["source"]))
                    await answered(channel, printed)
        await self.ask("DELETE", f"kernels/{kernel}")
        return "".join(printed)


def execution(source: str) -> dict[str, Any]:
    """Return the message that runs a cell."""
    return {
        "channel": "shell",
        "header": {"msg_id": "cell", "msg_type": "execute_request", "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "content": {"code": source, "silent": False, "allow_stdin": False},
    }


async def answered(channel: Any, printed: list[str]) -> None:
    """Read until the end of a cell: it was answered, and the kernel is idle again."""
    left = {"execute_reply", "idle"}
    async for message in channel:
        result = message.json()
        if result["parent_header"].get("msg_type") != "execute_request":
            continue
        kind, content = result["msg_type"], result["content"]
        if kind == "stream":
            printed.append(content["text"])
        elif kind == "execute_reply":
            assert content["status"] == "ok", content
        left -= {kind, content.get("execution_state")}
        if not left:
            return
    raise AssertionError("the kernel has gone")


@asynccontextmanager
async def lab(walk: NewcomerWalk, block: DocumentBlock) -> AsyncIterator[Jupyter]:
    """Open Jupyter as documented."""
    (command,) = block.lines
    async with run_typed(walk, f"export BROWSER=true JUPYTER_PORT=0\n{command} --yes") as process:
        text = await wait_output(process, "/lab?token=", LIMIT_S)
        link = urlsplit(re.findall(r"http://\S+", text)[-1])
        token = {"Authorization": f"token {link.query.removeprefix('token=')}"}
        jupyter = Jupyter(walk, f"http://127.0.0.1:{link.port}/api", token)

        async def listens() -> bool:
            # it prints its address a moment before it listens
            try:
                return bool(await jupyter.ask("GET", "status"))
            except OSError:
                return False

        await so(listens)
        yield jupyter


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="newcomer-") as folder:
        print(asyncio.run(followed(Path(folder), fresh=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
