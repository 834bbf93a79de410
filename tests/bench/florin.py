"""Start the service as users do: `florin up` in a separate process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path

from florin_server.app.home import StateFolder

from tests.bench.load import Address
from tests.support.command import FLORIN, CommandForks, Process, make_environment
from tests.support.processes import list_children
from tests.support.service import NO_LIMITS

_START_S, _STOP_S, _LOOK_S = 60, 20, 0.005
_TICKS = os.sysconf("SC_CLK_TCK")
# a benchmark is one caller with more calls than any real one
_NO_LIMITS = {
    f"FLORIN_LIMITS__{name.upper()}": str(value) for name, value in NO_LIMITS.model_dump().items()
}


@dataclass(frozen=True, slots=True)
class Florin:
    """A running service. `ready_s` is the time from its start to its first `ready`."""

    home: StateFolder
    pid: int
    http: Address
    grpc: Address
    env: dict[str, str]
    ready_s: float

    @property
    def merchant(self) -> dict[str, str]:
        """Return a merchant's headers."""
        return {
            "Api-Key": self.env["FLORIN_PARTNER_KEY"],
            "Merchant-Id": self.env["FLORIN_MERCHANT_ID"],
        }

    @property
    def wallet(self) -> dict[str, str]:
        """Return a wallet's headers."""
        return {"App-Id": self.env["FLORIN_APP_ID"], "Client-Id": self.env["FLORIN_CLIENT_ID"]}

    def cpu_s(self) -> float:
        """Return the processor time so far of all its threads and child processes."""
        return sum(cpu_s(pid) for pid in (self.pid, *list_children(self.pid)))

    def used_s(self, before: float) -> float:
        """Return the processor time since `before`, at least one kernel tick."""
        return max(self.cpu_s() - before, 1 / _TICKS)

    def idle(self, seconds: float) -> float:
        """Return the cores in use without calls, measured over `seconds`."""
        before, started = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - before) / (time.monotonic() - started)


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_kib(pid: int) -> int:
    """Return the resident memory of a process."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError("the kernel does not tell resident memory")


@contextmanager
def florin(*command: str, **settings: str) -> Iterator[Florin]:
    """Start the service (`up` by default) with a fresh state on free ports; stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="florin-bench-") as folder:
        home = StateFolder(Path(folder) / "home")
        log, started = Path(folder) / "log", time.monotonic()
        process = _start_process(command or ("up",), home, log, {**_NO_LIMITS, **settings})
        try:
            yield _ready(process, home, log, started)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.communicate(timeout=_STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _start_process(
    command: Sequence[str], home: StateFolder, log: Path, settings: dict[str, str]
) -> Process:
    """Start the program; if figures do not matter, fork a process that has loaded it."""
    if (forks := CommandForks.find_shared()) is not None:
        return forks.begin(*command, home=home.path, **settings)
    with log.open("w") as output:
        return subprocess.Popen(
            [FLORIN, *command],
            cwd=home.path.parent,
            env=make_environment(home.path, settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            text=True,
        )


def _ready(process: Process, home: StateFolder, log: Path, started: float) -> Florin:
    while time.monotonic() < started + _START_S:
        if process.poll() is not None:
            text = log.read_text() if log.exists() else "".join(process.communicate())
            raise RuntimeError(f"florin ended:\n{text}")
        if home.running_path.exists():
            listens = json.loads(home.running_path.read_text())
            http, grpc = _address(listens["http"]), _address(listens["grpc"])
            if _is_ready(http):
                ready_s = time.monotonic() - started
                return Florin(home, process.pid, http, grpc, home.read_demo_env(), ready_s)
        time.sleep(_LOOK_S)
    text = log.read_text() if log.exists() else ""
    raise RuntimeError(f"florin did not get ready:\n{text}")


def _address(text: str) -> Address:
    host, _, port = text.rpartition("/")[2].rpartition(":")
    return host, int(port)


def _is_ready(address: Address) -> bool:
    connection = HTTPConnection(*address, timeout=5)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
