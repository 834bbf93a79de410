"""Secrets that options take: from a file or the environment, where other users cannot read them.

Every user of a machine sees the command lines of all programs that run. A secret in an option still
works, and a hint says how to give it otherwise.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from florin_server.cli.console import fail, note
from florin_server.cli.exits import Exit

_BYTES_MAX = 65_536
# what providers of nodes put into a path: letters and digits without a word's shape
_KEY = re.compile(r"(?=[^/]*[0-9])[A-Za-z0-9_-]{16,}")


def read_secret(text: str, option: str, variable: str) -> str:
    """Return what an option says: itself, the content of `@FILE`, or with `-` what stdin says.

    `variable` is the environment variable that takes it too. Ends the program if a file cannot be
    read, or is empty.
    """
    if text == "-" or text.startswith("@"):
        return _read(text, option)
    note(
        f"Other users of this machine can read {option} while the command runs: "
        f"say {option} @FILE, or set {variable}."
    )
    return text


def read_urls(texts: Iterable[str], option: str, variable: str) -> tuple[str, ...]:
    """Return URLs of nodes: themselves, or the lines of `@FILE` or stdin (`-`).

    Without any they come from the environment variable, separated by spaces. Each may have a chain
    and `=` before it, of which `CHAIN=@FILE` is a form too. URLs that hold a key are hinted at.
    """
    texts = tuple(texts)
    if not texts:
        return tuple(os.environ.get(variable, "").split())
    found: list[str] = []
    for text in texts:
        chain, equals, rest = text.partition("=")
        if text == "-" or text.startswith("@"):
            found += _read(text, option).split()
        elif equals and ":" in chain and "//" not in chain and rest.startswith("@"):
            found.append(f"{chain}={_read(rest, option)}")
        else:
            if holds_key(rest if equals and "//" not in chain else text):
                read_secret(text, option, variable)
            found.append(text)
    return tuple(found)


def holds_key(url: str) -> bool:
    """Return True if a URL seems to hold a secret: a user, a query, or a key in its path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    keys = (_KEY.fullmatch(part) for part in parts.path.split("/"))
    return bool(parts.username or parts.password or parts.query or any(keys))


def _read(text: str, option: str) -> str:
    try:
        if text == "-":
            content = sys.stdin.read(_BYTES_MAX)
        else:
            with Path(text[1:]).open(encoding="utf-8") as file:
                content = file.read(_BYTES_MAX)
    except (OSError, ValueError) as error:
        fail("Not done", f"{option}: {text[1:] or 'stdin'} cannot be read: {error}", Exit.MISUSED)
    if not content.strip():
        fail("Not done", f"{option}: {text[1:] or 'stdin'} is empty", Exit.MISUSED)
    return content.strip()
