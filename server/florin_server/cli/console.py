"""Print results on stdout, and errors on stderr in one sentence.

With --json both are JSON: stdout gets one document, or one per line where commands print until they
are stopped; stderr gets one document with the error.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape
from rich.segment import Segment

from florin_server.cli.exits import ExitStatus
from florin_server.domain.text import escape_json, escape_unsafe


class Terminal(Console):
    """A console that is safe for text of strangers: it cannot move the cursor or send sequences.

    Escapes control characters in everything it prints; keeps tabs and line ends. Prints brackets as
    text, except in a call with `markup=True`: that caller escapes the parts it did not write.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        # a terminal wraps lines itself, and a pipe needs whole lines; eip155:100:… is no emoji
        super().__init__(highlight=False, emoji=False, markup=False, soft_wrap=True, stderr=stderr)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects. Escape texts first, so that Rich measures the text that it shows."""
        super().print(*(_escape_controls(content) for content in objects), **options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        # all output passes here: tables, progress bars, `log`, `out`, tracebacks
        return super()._render_buffer(
            segment if segment.control else segment._replace(text=_escape_controls(segment.text))
            for segment in buffer
        )


def _escape_controls(content: Any) -> Any:
    return escape_unsafe(content, multiline=True) if isinstance(content, str) else content


console = Terminal()
stderr_console = Terminal(stderr=True)
_JSON = ContextVar("as_json", default=False)
_IN_LOG = ContextVar("in_log", default=False)
_log = logging.getLogger(__name__)


def use_json(*, as_json: bool) -> None:
    """Set the output format of the running command; with JSON the console prints nothing."""
    _JSON.set(as_json)
    console.quiet = as_json


def use_log() -> None:
    """Send announcements and errors to the log, for a service whose log programs read."""
    _IN_LOG.set(True)


def announce(text: str) -> None:
    """Print what a service does; log it instead after `use_log`."""
    if _IN_LOG.get():
        _log.info("%s", text)
    else:
        console.print(text)


def is_json_output() -> bool:
    """Return True if the command prints JSON."""
    return _JSON.get()


def is_interactive() -> bool:
    """Return True if the command can ask questions: text output, and a terminal on both ends."""
    return not is_json_output() and sys.stdin.isatty() and sys.stderr.isatty()


def fail(
    summary: str, reason: object, status: int = ExitStatus.REFUSED, **details: Any
) -> NoReturn:
    """End the program with an error message; JSON output gets the details too."""
    if is_json_output():
        error = {"message": f"{summary}: {reason}", "exit": int(status), **details}
        sys.stderr.write(_encode_json({"error": error}) + "\n")
    elif _IN_LOG.get():
        _log.error("%s: %s", summary, reason)
    else:
        stderr_console.print(f"[bold red]{escape(summary)}:[/] {escape(str(reason))}", markup=True)
    raise SystemExit(int(status))


def print_hint(text: str) -> None:
    """Print a hint on stderr, apart from the result on stdout; print nothing with JSON."""
    if not is_json_output():
        stderr_console.print(text)


@contextmanager
def show_progress(activity: str) -> Iterator[None]:
    """Show a spinner and the elapsed time on a terminal while the block runs."""
    if is_json_output() or not stderr_console.is_terminal:
        # redrawn lines make sense on terminals only
        yield
        return
    # slow to load, and needed only here
    from rich.progress import (  # noqa: PLC0415
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=stderr_console, transient=True) as shown:
        shown.add_task(activity, total=None)
        yield


def print_json(document: Any) -> bool:
    """Print a message or a JSON value with --json and return True; else return False."""
    if is_json_output():
        sys.stdout.write(_encode_json(to_json_value(document), indent=2) + "\n")
        sys.stdout.flush()
    return is_json_output()


def print_json_line(document: Any) -> bool:
    """Print one of several documents on its own line with --json; return True if it did."""
    if is_json_output():
        sys.stdout.write(_encode_json(to_json_value(document)) + "\n")
        sys.stdout.flush()
    return is_json_output()


def to_json_value(document: Any) -> Any:
    """Convert a document to JSON values; messages get the members that REST gives them."""
    if hasattr(document, "DESCRIPTOR"):
        # slow to load, and most documents are no messages
        from florin_server.cli.messages import to_rest_json  # noqa: PLC0415

        return to_rest_json(document)
    if isinstance(document, Mapping):
        return {name: to_json_value(value) for name, value in document.items()}
    if isinstance(document, list | tuple):
        return [to_json_value(value) for value in document]
    return document


def print_table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Print a table. Never shorten ids, even on narrow terminals: users copy them."""
    lines = [columns, *rows]
    # columns of any width come last, so that they move no other column
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        console.print("  ".join(map(str.ljust, line, widths)).rstrip())


def _encode_json(document: Any, indent: int | None = None) -> str:
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=str)
    # JSON escapes only C0; the other control characters would still steer a terminal
    return escape_json(text)
