"""The `florin` command in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


@contextmanager
def lasting(*command: str, home: Path, **changes: str) -> Iterator[Lasting]:
    """One that is stopped afterwards, if the test did not."""
    command_line = Lasting(*command, home=home, **changes)
    try:
        yield command_line
    finally:
        if command_line.process.poll() is None:
            command_line.tell(signal.SIGTERM)
            end(command_line.process)
