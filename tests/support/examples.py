"""The services of `examples`, each in a process of its own, as who copies them runs them."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Self

from tests.support.command import Ended

FOLDER = Path(__file__).parents[2] / "examples"
# only one that hangs gets here
PATIENCE_S = 120


def example(name: str) -> ModuleType:
    """One of them as a module, for what no process can be brought to."""
    spec = importlib.util.spec_from_file_location(f"examples.{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Running:
    """One under way, with what it has said so far."""

    def __init__(self, name: str, *words: str, env: dict[str, str], cwd: Path) -> None:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("FLORIN_")}
        self.said = ""
        self.process = subprocess.Popen(
            [sys.executable, str(FOLDER / f"{name}.py"), *words],
            cwd=cwd,
            env={**kept, **env, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def until(self, word: str) -> str:
        """The first line from now on with a word in it."""
        assert self.process.stdout is not None
        watchdog = threading.Timer(PATIENCE_S, self.process.kill)
        watchdog.start()
        try:
            for line in self.process.stdout:
                self.said += line
                if word in line:
                    return line.strip()
        finally:
            watchdog.cancel()
        raise AssertionError(f"it ended: {self.said} {self.process.communicate()}")

    def ended(self, told: str = "") -> Ended:
        """How it ends, once it is told something."""
        try:
            out, err = self.process.communicate(told, PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        return Ended(self.process.returncode, self.said + out, err)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate()


def run(name: str, *words: str, env: dict[str, str], cwd: Path, told: str = "") -> Ended:
    """One that ends by itself."""
    with Running(name, *words, env=env, cwd=cwd) as process:
        return process.ended(told)
