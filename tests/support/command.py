"""The `florin` command in processes of its own."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from select import select
from typing import Self, TextIO, TypeAlias

from florin_server.boot.home import Home

from tests.support import postgres

ROOT = Path(__file__).parents[2]
FLORIN = Path(sys.executable).with_name("florin")
# only a command that hangs gets here
PATIENCE_S = 60
# names the socket that a module in a fork has been given
GIVEN = "TESTS_FORKS"


@dataclass(frozen=True)
class Ended:
    status: int
    out: str
    err: str


def environment(home: Path, changes: dict[str, str]) -> dict[str, str]:
    """This environment without its Florin, free ports, and what the test wants."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    ours = {"FLORIN_HOME": str(home), "FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    ours |= postgres.environment(home)
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


def end(process: Process) -> Ended:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None
    return Ended(process.wait(), out, err)


def florin(*command: str, home: Path, **changes: str) -> Ended:
    """A command that ends by itself."""
    return end(begin(*command, home=home, **changes))


def told(done: Ended) -> str:
    """The one sentence of a command that refuses."""
    assert done.out == ""
    (sentence,) = done.err.splitlines()
    return sentence


Process: TypeAlias = "subprocess.Popen[str] | Fork"


class Fork:
    """A command in a fork, as `subprocess.Popen` would have it."""

    def __init__(self, out: int, err: int, told: int) -> None:
        self.stdout, self.stderr, self._told = (os.fdopen(one) for one in (out, err, told))
        self.pid = int(self._told.readline())
        self.returncode: int | None = None
        self._read: list[_Reading] = []

    def poll(self) -> int | None:
        if self.returncode is None and select([self._told], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select([self._told], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("florin", timeout or 0)
            with self._told:
                self.returncode = int(self._told.readline())
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it still has to say, once it has ended."""
        self._read = self._read or [_Reading(one) for one in (self.stdout, self.stderr)]
        self.wait(timeout)
        out, err = (one.text() for one in self._read)
        return out, err

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _Reading:
    """Reads a pipe to its end while somebody waits for something else."""

    def __init__(self, pipe: TextIO) -> None:
        self._pipe = pipe
        self._text = ""
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        with self._pipe:
            self._text = self._pipe.read()

    def text(self) -> str:
        self._thread.join()
        return self._text


class Forks:
    """Runs commands in forks of one process that has loaded Florin.

    The same commands, and processes of their own; only most of their time is saved. What is about
    the program's own start, a terminal or colours wants `florin`, `begin` and `Lasting`.
    """

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    @classmethod
    @contextmanager
    def opened(cls, folder: Path) -> Iterator[Self]:
        """Loads Florin for everybody who gets it."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forks", str(theirs.fileno())],
                cwd=ROOT,
                env=environment(folder, {}),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        with ours:
            yield cls(ours)
        process.wait(PATIENCE_S)

    @classmethod
    def joined(cls) -> Self | None:
        """Those of the process that runs this module in a fork, if it wants them to be used."""
        if GIVEN not in os.environ:
            return None
        return cls(socket.socket(fileno=os.dup(int(os.environ[GIVEN]))))

    def begin(self, *command: str, home: Path, **changes: str) -> Fork:
        """A command under way; its end is somebody else's to wait for."""
        return self._begin(["florin", *command], home.parent, environment(home, changes))

    def module(
        self, *command: str, session: bool = False, joins: bool = False, **changes: str
    ) -> Fork:
        """A module under way, as `python -m` would run it.

        It is in a session of its own if need be, and `joins` those who run commands here.
        """
        env = {**os.environ, **changes, **({GIVEN: "3"} if joins else {})}
        more = [self._orders.fileno()] if joins else []
        return self._begin([*command], ROOT, env, more, module=True, session=session)

    def _begin(
        self,
        command: list[str],
        cwd: Path,
        env: dict[str, str],
        more: Sequence[int] = (),
        *,
        module: bool = False,
        session: bool = False,
    ) -> Fork:
        told = {"command": command, "cwd": str(cwd), "env": env}
        order = json.dumps({**told, "module": module, "session": session}).encode()
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        socket.send_fds(self._orders, [order], [*theirs, *more])
        for pipe in theirs:
            os.close(pipe)
        return Fork(*ours)

    def __call__(self, *command: str, home: Path, **changes: str) -> Ended:
        """A command that ends by itself."""
        return end(self.begin(*command, home=home, **changes))

    def lasting(self, *command: str, home: Path, **changes: str) -> Lasting:
        return Lasting(*command, home=home, begin=self.begin, **changes)


class Lasting:
    """A command that lasts until it is told to stop; made when it says that it is up."""

    def __init__(
        self, *command: str, home: Path, begin: Callable[..., Process] = begin, **changes: str
    ) -> None:
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
