"""Prompt for values that the command line does not contain."""

from __future__ import annotations

import typer

from florin_server.cli.operation import usage_error
from florin_server.domain.text import escape_unsafe


class OperatorPrompt:
    """Prompts on stderr, because stdout is for results; a quiet one uses the defaults."""

    def __init__(self, *, is_quiet: bool) -> None:
        self.is_quiet = is_quiet

    def ask_text(
        self, question: str, option: str, value: str | None, default: str | None = None
    ) -> str:
        """Return the given value, or the answer; if quiet, the default, or end the program."""
        if value is not None:
            return value
        if not self.is_quiet:
            answer: str = typer.prompt(escape_unsafe(question), default=default, err=True)
            return answer.strip()
        if default is None:
            usage_error(f"{option} is missing: add it, or leave out --yes")
        return default

    def ask_yes_no(self, question: str, value: bool | None = None, *, default: bool) -> bool:
        """Return the given value, or the answer to a yes/no question; if quiet, the default."""
        if value is not None or self.is_quiet:
            return default if value is None else value
        return typer.confirm(escape_unsafe(question), default=default, err=True)

    def ask_secret(self, question: str) -> str:
        """Prompt for a secret without showing it."""
        answer: str = typer.prompt(question, hide_input=True, err=True)
        return answer
