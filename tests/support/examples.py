"""The services of `examples`, each in a process of its own, as users of copies run them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Self

from tests.support.command import CommandResult

FOLDER = Path(__file__).parents[2] / "examples"
# only a service that hangs reaches this
PATIENCE_S = 600


def load_example(name: str) -> ModuleType:
    """Load an example as a module, for states that no process can be brought to."""
    spec = importlib.util.spec_from_file_location(f"examples.{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class RunningExample:
    """A running example, with its output so far."""

    def __init__(self, name: str, *words: str, env: dict[str, str], cwd: Path) -> None:
        stored = {key: value for key, value in os.environ.items() if not key.startswith("FLORIN_")}
        self.output = ""
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / f"{name}.py"), *words],
            cwd=cwd,
            env={**stored, **env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_output(self, word: str) -> str:
        """Return the first new line that contains a word."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                self.output += line
                if word in line:
                    return line.strip()
        finally:
            watchdog.cancel()
        raise AssertionError(f"it ended: {self.output} {self.process.communicate()}")

    def stop(self, input_text: str = "") -> CommandResult:
        """Send input to the example and return its result."""
        try:
            out, err = self.process.communicate(input_text, PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return CommandResult(self.process.returncode, self.output + out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


def run_example(
    name: str, *words: str, env: dict[str, str], cwd: Path, input_text: str = ""
) -> CommandResult:
    """Run an example to its end."""
    with RunningExample(name, *words, env=env, cwd=cwd) as process:
        return process.stop(input_text)
