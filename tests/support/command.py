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

from florin_server.app.home import StateFolder

from tests.support import postgres

ROOT = Path(__file__).parents[2]
FLORIN = Path(sys.executable).with_name("florin")
# only a command that hangs reaches this
PATIENCE_S = 240
# names the socket that a module in a fork has been given
FORKS_VARIABLE = "TESTS_FORKS"


def get_state_folder(home: Path) -> StateFolder:
    """Return the state folder of an installation."""
    return StateFolder(home)


@dataclass(frozen=True)
class CommandResult:
    status: int
    out: str
    err: str


def make_environment(home: Path, changes: dict[str, str]) -> dict[str, str]:
    """Return this environment without Florin's variables, plus free ports and changes."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("FLORIN_")}
    ours = {"FLORIN_HOME": str(home), "FLORIN_HTTP_PORT": "0", "FLORIN_GRPC_PORT": "0"}
    ours |= postgres.make_environment(home)
    return {**clean, **ours, **changes}


def start_command(*command: str, home: Path, **changes: str) -> subprocess.Popen[str]:
    """Start a command; the caller waits for its end."""
    return subprocess.Popen(
        [FLORIN, *command],
        cwd=home.parent,
        env=make_environment(home, changes),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def wait_command(process: Process) -> CommandResult:
    try:
        out, err = process.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it did not end:\n{out}\n{err}") from None
    return CommandResult(process.wait(), out, err)


def run_florin(*command: str, home: Path, **changes: str) -> CommandResult:
    """Run a command to its end."""
    return wait_command(start_command(*command, home=home, **changes))


def get_refusal(done: CommandResult) -> str:
    """Return the one sentence of a command that refuses."""
    assert done.out == ""
    (sentence,) = done.err.splitlines()
    return sentence


Process: TypeAlias = "subprocess.Popen[str] | ForkedCommand"


class ForkedCommand:
    """A command in a fork, with the interface of `subprocess.Popen`."""

    stdin = None

    def __init__(self, out: int, err: int, result: int) -> None:
        self.stdout, self.stderr, self._result = (
            os.fdopen(number) for number in (out, err, result)
        )
        self.pid = int(self._result.readline())
        self.returncode: int | None = None
        self._read: list[_PipeReader] = []

    def poll(self) -> int | None:
        if self.returncode is None and select([self._result], [], [], 0)[0]:
            self.wait()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            if not select([self._result], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("florin", timeout or 0)
            with self._result:
                self.returncode = int(self._result.readline())
        return self.returncode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Return the remaining output, once the command has ended."""
        self._read = self._read or [
            _PipeReader(text_io_wrapper) for text_io_wrapper in (self.stdout, self.stderr)
        ]
        self.wait(timeout)
        out, err = (pipe_reader.text() for pipe_reader in self._read)
        return out, err

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class _PipeReader:
    """Reads a pipe to its end in the background."""

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


class CommandForks:
    """Runs commands in forks of one process that has loaded Florin.

    The commands run in processes of their own, but start faster. Tests of the program's own start,
    of a terminal or of colors need `run_florin`, `start_command` and `RunningCommand`.
    """

    def __init__(self, orders: socket.socket) -> None:
        self._orders = orders

    @classmethod
    @contextmanager
    def open_forks(cls, folder: Path, *modules: str, **changes: str) -> Iterator[Self]:
        """Load Florin and these modules once for all users of the result."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "tests.support.command_forks"),
                    *(str(theirs.fileno()), *modules),
                ],
                cwd=ROOT,
                env=make_environment(folder, changes),
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        with ours:
            yield cls(ours)
        process.wait(PATIENCE_S)

    @classmethod
    def find_shared(cls) -> Self | None:
        """Return the forks of the process that runs this module in a fork, if it shares them."""
        if FORKS_VARIABLE not in os.environ:
            return None
        return cls(socket.socket(fileno=os.dup(int(os.environ[FORKS_VARIABLE]))))

    def begin(self, *command: str, home: Path, **changes: str) -> ForkedCommand:
        """Start a command; the caller waits for its end."""
        return self._begin(["florin", *command], home.parent, make_environment(home, changes))

    def module(
        self,
        *command: str,
        home: Path | None = None,
        cwd: Path = ROOT,
        session: bool = False,
        joins: bool = False,
        **changes: str,
    ) -> ForkedCommand:
        """Start a module, as `python -m` would run it in a folder.

        With `home` it has a command's environment. `session` gives it a session of its own, and
        `joins` lets it run commands here.
        """
        env = {**os.environ, **changes} if home is None else make_environment(home, changes)
        env |= {FORKS_VARIABLE: "3"} if joins else {}
        more = [self._orders.fileno()] if joins else []
        return self._begin([*command], cwd, env, more, module=True, session=session)

    def _begin(
        self,
        command: list[str],
        cwd: Path,
        env: dict[str, str],
        more: Sequence[int] = (),
        *,
        module: bool = False,
        session: bool = False,
    ) -> ForkedCommand:
        result = {"command": command, "cwd": str(cwd), "env": env}
        order = json.dumps({**result, "module": module, "session": session}).encode()
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        socket.send_fds(self._orders, [order], [*theirs, *more])
        for pipe in theirs:
            os.close(pipe)
        return ForkedCommand(*ours)

    def __call__(self, *command: str, home: Path, **changes: str) -> CommandResult:
        """Run a command to its end."""
        return wait_command(self.begin(*command, home=home, **changes))

    def start_lasting(self, *command: str, home: Path, **changes: str) -> RunningCommand:
        return RunningCommand(*command, home=home, begin=self.begin, **changes)


class RunningCommand:
    """A command that runs until it is stopped; it is constructed once it reports that it is up."""

    def __init__(
        self,
        *command: str,
        home: Path,
        begin: Callable[..., Process] = start_command,
        **changes: str,
    ) -> None:
        self.home = StateFolder(home)
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
        raise AssertionError(f"it ended: {lines} {wait_command(self.process)}")

    @property
    def env(self) -> dict[str, str]:
        """Return the variables of demo.env."""
        return self.home.read_demo_env()

    def send_signal(self, signum: int) -> None:
        self.process.send_signal(signum)

    def wait_ended(self) -> CommandResult:
        return wait_command(self.process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """End the command, if the test did not."""
        if self.process.poll() is None:
            self.send_signal(signal.SIGTERM)
            wait_command(self.process)
