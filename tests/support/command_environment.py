"""Commands on a running Florin, with the documents that they print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.command import CommandForks, CommandResult, RunningCommand


@dataclass
class CommandEnvironment:
    """A running Florin, and a folder for the files of its commands."""

    up: RunningCommand
    forks: CommandForks
    folder: Path

    def run(self, *words: str, **changes: str) -> CommandResult:
        return self.forks(*words, home=self.up.home.path, **changes)

    def run_json(self, *words: str, status: int = 0, **changes: str) -> list[Any]:
        """Return the documents that a command printed; assert its exit status."""
        done = self.run(*words, "--json", **changes)
        assert done.status == status, (words, done)
        return parse_documents(done.out if status == 0 or done.out else done.err)

    @property
    def env(self) -> dict[str, str]:
        return self.up.env

    def payment(self, *more: str) -> str:
        (created,) = self.run_json("payments", "create", "12.50", "USD", *more)
        return created["paymentId"]

    def paid(self) -> str:
        payment = self.payment()
        assert self.run_json("pay", payment, "--option", "1")[-1]["status"]["status"] == "succeeded"
        return payment


def parse_documents(text: str) -> list[Any]:
    """Return one document, or one per line."""
    try:
        return [json.loads(text)]
    except ValueError:
        return [json.loads(line) for line in text.splitlines()]
