"""`python -m tests.newcomer`: how long a newcomer takes, by the README and what it leads to.

A clone, `make demo` to the payment that succeeds, a payment of one's own by the README's lines, and
the first notebook in `florin lab`. What is typed is what the documents say, and no source is read.
Only this differs from a newcomer's day: ports are any that are free, nothing opens in a browser,
and whoever is asked whether Jupyter is to be installed says yes.
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

from tests.support.documents import Block, blocks
from tests.support.newcomer import Walk, setting_out, typed, until
from tests.support.until import until as so

# all of it, on a slow network
LIMIT_S = 1_200
DEMO = ("README.md", "Two commands", 0)
PAYMENT = ("README.md", "Your first payment", 0)
LAB = ("docs/payments.md", "In a notebook", 0)
FIRST = "00_start_here.ipynb"


@dataclass
class Steps:
    """What was done, with its seconds."""

    told: list[tuple[str, float]] = field(default_factory=list)
    since: float = field(default_factory=time.monotonic)

    def done(self, name: str) -> None:
        now = time.monotonic()
        self.told.append((name, now - self.since))
        self.since = now

    def __str__(self) -> str:
        rows = [*self.told, ("altogether", sum(seconds for _, seconds in self.told))]
        return "\n".join(f"{seconds:7.1f} s  {name}" for name, seconds in rows)


async def followed(folder: Path, *, fresh: bool) -> Steps:
    """Goes the whole way in a new folder, and ends what it has begun.

    With `fresh` everything is installed anew; else the environment of the tests is used.
    AssertionError where a step does not lead to what the documents say, TimeoutError if it takes
    too long.
    """
    found = {block.place: block for block in blocks()}
    steps = Steps()
    async with asyncio.timeout(LIMIT_S), AsyncExitStack() as stack:
        walk = await stack.enter_async_context(setting_out(folder, fresh=fresh))
        steps.done("git clone")
        demo, *_ = found[DEMO].lines
        running = await stack.enter_async_context(typed(walk, demo))
        said = await until(running, "Ctrl-C ends it.", LIMIT_S)
        assert "\nsucceeded  transaction 0x" in said, said
        if fresh:
            # the first line of the target is the last of the set-up
            set_up = (walk.folder / ".venv" / ".run").stat().st_mtime - time.time()
            steps.told.append(("make demo: set up", time.monotonic() + set_up - steps.since))
            steps.since = time.monotonic() + set_up
        steps.done("make demo: to the payment that succeeded")
        out = await walk.shell.run(found[PAYMENT].text)
        states = [json.loads(line[5:]) for line in out.splitlines() if line.startswith("data:")]
        assert (states[-1]["status"], states[-1]["isFinal"]) == ("succeeded", True), out
        steps.done("a payment by curl")
        async with lab(walk, found[LAB]) as jupyter:
            steps.done("florin lab: to Jupyter")
            assert "transaction 0x" in await jupyter.run(FIRST)
            steps.done("notebook 00")
    steps.done("Ctrl-C, twice")
    return steps


@dataclass
class Jupyter:
    """A Jupyter that listens."""

    walk: Walk
    api: str
    token: dict[str, str]

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        url = f"{self.api}/{path}"
        async with self.walk.session.request(method, url, json=body, headers=self.token) as answer:
            text = await answer.text()
            assert answer.ok, f"{path}: {text}"
            return json.loads(text or "null")

    async def run(self, name: str) -> str:
        """What all cells of a notebook print, run one by one; AssertionError if one fails."""
        cells = (await self.ask("GET", f"contents/{name}"))["content"]["cells"]
        asked = {"path": name, "name": name, "type": "notebook", "kernel": {"name": "python3"}}
        kernel = (await self.ask("POST", "sessions", asked))["kernel"]["id"]
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
    """The message by which a cell is run."""
    return {
        "channel": "shell",
        "header": {"msg_id": "cell", "msg_type": "execute_request", "version": "5.3"},
        "parent_header": {},
        "metadata": {},
        "content": {"code": source, "silent": False, "allow_stdin": False},
    }


async def answered(channel: Any, printed: list[str]) -> None:
    """Reads up to the end of a cell: it was answered, and the kernel is idle again."""
    left = {"execute_reply", "idle"}
    async for message in channel:
        told = message.json()
        if told["parent_header"].get("msg_type") != "execute_request":
            continue
        kind, content = told["msg_type"], told["content"]
        if kind == "stream":
            printed.append(content["text"])
        elif kind == "execute_reply":
            assert content["status"] == "ok", content
        left -= {kind, content.get("execution_state")}
        if not left:
            return
    raise AssertionError("the kernel has gone")


@asynccontextmanager
async def lab(walk: Walk, block: Block) -> AsyncIterator[Jupyter]:
    """Jupyter, opened as the documents say."""
    (command,) = block.lines
    async with typed(walk, f"export BROWSER=true JUPYTER_PORT=0\n{command} --yes") as process:
        said = await until(process, "/lab?token=", LIMIT_S)
        link = urlsplit(re.findall(r"http://\S+", said)[-1])
        token = {"Authorization": f"token {link.query.removeprefix('token=')}"}
        jupyter = Jupyter(walk, f"http://127.0.0.1:{link.port}/api", token)

        async def listens() -> bool:
            # it tells where it is a moment before
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
