"""The `florin` command in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from florin_server.boot.home import Home

FLORIN = Path(sys.executable).with_name("florin")
# only a command that hangs gets here
PATIENCE_S = 60


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def environment(home: Path, changes: dict[str, str]) -> dict[str, str]:
    """This environment without its Florin, free ports, and what the test wants."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    ours = {"FLORIN_HOME": str(home), "FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    return {**clean, **ours, **changes}


def begin(*command: str, home: Path, **changes: str) -> subprocess.Popen[str]:
    """A command under way; its end is somebody else's to wait for."""
    return subprocess.Popen(
        [FLORIN, *command],
        cwd=home.parent,
        env=environment(home, changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def end(process: subprocess.Popen[str]) -> Ended:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None
    return Ended(process.returncode, out, err)


def florin(*command: str, home: Path, **changes: str) -> Ended:
    """A command that ends by itself."""
    return end(begin(*command, home=home, **changes))


def told(done: Ended) -> str:
    """The one sentence of a command that refuses."""
    assert done.out == ""
    (sentence,) = done.err.splitlines()
    return sentence


class Forks:
    """Runs commands one after the other in forks of one process that has loaded Florin.

    The same commands, and processes of their own; only most of their time is saved.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.forks"],
            cwd=Path(__file__).parents[2],
            env=environment(folder, {}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *command: str, home: Path, **changes: str) -> Ended:
        """A command that ends by itself."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        out, err = self._folder / "out", self._folder / "err"
        order = {
            "command": command,
            "cwd": str(home.parent),
            "env": environment(home, changes),
            "out": str(out),
            "err": str(err),
        }
        watchdog = threading.Timer(PATIENCE_S, self._process.kill)
        watchdog.start()
        try:
            print(json.dumps(order), file=self._process.stdin, flush=True)
            status = json.loads(self._process.stdout.readline())
        finally:
            watchdog.cancel()
        return Ended(status, out.read_text(), err.read_text())

    def close(self) -> None:
        self._process.communicate(timeout=PATIENCE_S)


class Lasting:
    """A command that lasts until it is told to stop; made when it says that it is up."""

    def __init__(self, *command: str, home: Path, **changes: str) -> None:
        self.home = Home(home)
        self.process = begin(*command, home=home, **changes)
        self.out = self._until("Ctrl-C ends it.")

    def _until(self, sentence: str) -> str:
        assert self.process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        watchdog.start()
        lines = []
        try:
            for line in self.process.stdout:
                lines.append(line)
                if sentence in line:
                    return "".join(lines)
        finally:
            watchdog.cancel()
        raise AssertionError(f"it ended: {lines} {end(self.process)}")

    @property
    def env(self) -> dict[str, str]:
        """What demo.env says."""
        return self.home.read_demo_env()

    def tell(self, signum: int) -> None:
        self.process.send_signal(signum)

    def ended(self) -> Ended:
        return end(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Ends it, if the test did not."""
        if self.process.poll() is None:
            self.tell(signal.SIGTERM)
            end(self.process)
