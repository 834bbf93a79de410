"""How commands talk: results on stdout, what went wrong on stderr in one sentence.

With --json both are JSON: one document on stdout, or one on each line where there is no end to it,
and one on stderr that says why nothing was done.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from rich.console import Console
from rich.markup import escape

from florin_server.cli.exits import Exit

# a terminal wraps by itself; in a pipe a line is a line; eip155:100:… names no emoji
console = Console(highlight=False, emoji=False, soft_wrap=True)
_aside = Console(highlight=False, emoji=False, soft_wrap=True, stderr=True)
_JSON = ContextVar("as_json", default=False)


def use_json(*, as_json: bool) -> None:
    """Says in which form the command under way talks; with JSON `console` is silent."""
    _JSON.set(as_json)
    console.quiet = as_json


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
    else:
        _aside.print(f"[bold red]{what}:[/] {escape(str(why))}")
    raise SystemExit(int(status))


def note(text: str) -> None:
    """Says something beside the result, which others may read from stdout; not to programs."""
    if not is_json():
        _aside.print(text, markup=False)


@contextmanager
def working(what: str) -> Iterator[None]:
    """Shows whoever sits before it that something lasts, and for how long it has."""
    if is_json() or not _aside.is_terminal:
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

    columns = SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()
    with Progress(*columns, console=_aside, transient=True) as shown:
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
        console.print("  ".join(map(str.ljust, line, widths)).rstrip(), markup=False)


def _text(document: Any, indent: int | None = None) -> str:
    return json.dumps(document, ensure_ascii=False, indent=indent, default=str)
