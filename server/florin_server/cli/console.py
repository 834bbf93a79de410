"""How commands talk: results on stdout, what went wrong on stderr in one sentence.

With --json both are JSON: one document on stdout, or one on each line where there is no end to it,
and one on stderr that says why nothing was done.
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

from florin_server.cli.exits import Exit
from florin_server.domain.text import escape_json, escape_unsafe


class Terminal(Console):
    """Prints text in which nothing that others wrote moves the cursor or starts a sequence.

    Control characters are escaped in whatever is printed, tabs and line ends are kept. Brackets are
    text unless a call says `markup=True`, and then it escapes what it did not write itself.
    """

    def __init__(self, *, stderr: bool = False) -> None:
        # a terminal wraps by itself; in a pipe a line is a line; eip155:100:… names no emoji
        super().__init__(highlight=False, emoji=False, markup=False, soft_wrap=True, stderr=stderr)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print objects; texts are escaped first, so that Rich measures what is shown."""
        super().print(*(_visible(content) for content in objects), **options)

    def _render_buffer(self, buffer: Iterable[Segment]) -> str:
        # all that is printed passes here: tables, progress bars, `log`, `out`, tracebacks
        return super()._render_buffer(
            one if one.control else one._replace(text=_visible(one.text)) for one in buffer
        )


def _visible(content: Any) -> Any:
    return escape_unsafe(content, multiline=True) if isinstance(content, str) else content


console = Terminal()
aside = Terminal(stderr=True)
_JSON = ContextVar("as_json", default=False)
_IN_LOG = ContextVar("in_log", default=False)
_log = logging.getLogger(__name__)


def use_json(*, as_json: bool) -> None:
    """Says in which form the command under way talks; with JSON `console` is silent."""
    _JSON.set(as_json)
    console.quiet = as_json


def use_log() -> None:
    """Log what a service says beside its results, where programs read the log."""
    _IN_LOG.set(True)


def announce(text: str) -> None:
    """Print what a service does, or log it."""
    if _IN_LOG.get():
        _log.info("%s", text)
    else:
        console.print(text)


def is_json() -> bool:
    """True if programs read what is said."""
    return _JSON.get()


def is_seen() -> bool:
    """True if somebody sits before it who can answer."""
    return not is_json() and sys.stdin.isatty() and sys.stderr.isatty()


def fail(what: str, why: object, status: int = Exit.REFUSED, **told: Any) -> NoReturn:
    """Ends the program with a sentence; `told` is what programs read besides."""
    if is_json():
        error = {"message": f"{what}: {why}", "exit": int(status), **told}
        sys.stderr.write(_text({"error": error}) + "\n")
    elif _IN_LOG.get():
        _log.error("%s: %s", what, why)
    else:
        aside.print(f"[bold red]{escape(what)}:[/] {escape(str(why))}", markup=True)
    raise SystemExit(int(status))


def note(text: str) -> None:
    """Says something beside the result, which others may read from stdout; not to programs."""
    if not is_json():
        aside.print(text)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Shows whoever sits before it that something lasts, and for how long it has."""
    if is_json() or not aside.is_terminal:
        # what is no terminal gets no line that is drawn again and again
        yield
        return
    # only who waits needs them
    from rich.progress import (  # noqa: PLC0415
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    with Progress(*columns, console=aside, transient=True) as shown:
        shown.add_task(what, total=None)
        yield


def told(document: Any) -> bool:
    """Prints a document, a message or what JSON can say, if programs read it; else False."""
    if is_json():
        sys.stdout.write(_text(plain(document), indent=2) + "\n")
        sys.stdout.flush()
    return is_json()


def told_line(document: Any) -> bool:
    """The same for one of many, each on a line of its own as soon as it is known."""
    if is_json():
        sys.stdout.write(_text(plain(document)) + "\n")
        sys.stdout.flush()
    return is_json()


def plain(document: Any) -> Any:
    """What JSON can say; messages as REST tells them."""
    if hasattr(document, "DESCRIPTOR"):
        # most of what is said is no message
        from florin_server.cli.messages import shown  # noqa: PLC0415

        return shown(document)
    if isinstance(document, Mapping):
        return {name: plain(one) for name, one in document.items()}
    if isinstance(document, list | tuple):
        return [plain(one) for one in document]
    return document


def table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """Prints a table: whole ids, however narrow the terminal, for they are there to be copied."""
    lines = [columns, *rows]
    # names of any width stand last, where they move nothing
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        console.print("  ".join(map(str.ljust, line, widths)).rstrip())


def _text(document: Any, indent: int | None = None) -> str:
    text = json.dumps(document, ensure_ascii=False, indent=indent, default=str)
    # JSON escapes C0 alone; the rest would still steer a terminal
    return escape_json(text)
