"""Asking an operator for what was not given on the command line."""

from __future__ import annotations

import typer

from florin_server.cli.operation import misused
from florin_server.domain.text import escape_unsafe


class Prompt:
    """Asks on stderr, so that stdout holds results only; asks nothing if it is quiet."""

    def __init__(self, *, quiet: bool) -> None:
        self.quiet = quiet

    def text(self, question: str, option: str, given: str | None, usual: str | None = None) -> str:
        """What was given, or the answer; if nothing may be asked, what is usual."""
        if given is not None:
            return given
        if not self.quiet:
            answer: str = typer.prompt(escape_unsafe(question), default=usual, err=True)
            return answer.strip()
        if usual is None:
            misused(f"{option} is missing")
        return usual

    def sure(self, question: str, given: bool | None = None, *, usual: bool) -> bool:
        """Yes or no."""
        if given is not None or self.quiet:
            return usual if given is None else given
        return typer.confirm(escape_unsafe(question), default=usual, err=True)

    def secret(self, question: str) -> str:
        """What nobody else is to see."""
        answer: str = typer.prompt(question, hide_input=True, err=True)
        return answer
