"""Read the secrets of options from a file or the environment, where other users cannot read them.

Every user of a machine sees the command lines of all running programs. A secret in an option still
works, and a hint shows the safe ways.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from urllib.parse import urlsplit

from florin_server.cli.console import fail, print_hint
from florin_server.cli.exits import ExitStatus

_BYTES_MAX = 65_536
# keys that node providers put into paths: long runs of letters and digits
_KEY = re.compile(r"(?=[^/]*[0-9])[A-Za-z0-9_-]{16,}")


def read_secret(text: str, option: str, variable: str) -> str:
    """Return the secret of an option: the text, the content of `@FILE`, or stdin for `-`.

    `variable` is the environment variable for the same secret; the hint names it. End the program
    if the file cannot be read, or is empty.
    """
    if text == "-" or text.startswith("@"):
        return _read_text(text, option)
    print_hint(
        f"Other users of this machine can read {option} while the command runs: "
        f"use {option} @FILE, or set {variable}."
    )
    return text


def read_urls(texts: Iterable[str], option: str, variable: str) -> tuple[str, ...]:
    """Return node URLs: the texts themselves, or the lines of `@FILE` or stdin (`-`).

    Without texts, return those of the environment variable, separated by spaces. `CHAIN=` can
    precede a URL, and `@FILE` too. Print a hint for URLs that seem to contain a key.
    """
    texts = tuple(texts)
    if not texts:
        return tuple(os.environ.get(variable, "").split())
    urls: list[str] = []
    for text in texts:
        chain, equals, rest = text.partition("=")
        if text == "-" or text.startswith("@"):
            urls += _read_text(text, option).split()
        elif equals and ":" in chain and "//" not in chain and rest.startswith("@"):
            urls.append(f"{chain}={_read_text(rest, option)}")
        else:
            if has_secret(rest if equals and "//" not in chain else text):
                read_secret(text, option, variable)
            urls.append(text)
    return tuple(urls)


def has_secret(url: str) -> bool:
    """Return True if a URL seems to contain a secret: a user, a query, or a key in its path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    keys = (_KEY.fullmatch(part) for part in parts.path.split("/"))
    return bool(parts.username or parts.password or parts.query or any(keys))


def _read_text(text: str, option: str) -> str:
    try:
        if text == "-":
            content = sys.stdin.read(_BYTES_MAX)
        else:
            with Path(text[1:]).open(encoding="utf-8") as file:
                content = file.read(_BYTES_MAX)
    except (OSError, ValueError) as error:
        fail(
            "Not done",
            f"{option}: {text[1:] or 'stdin'} cannot be read: {error}",
            ExitStatus.USAGE_ERROR,
        )
    if not content.strip():
        fail("Not done", f"{option}: {text[1:] or 'stdin'} is empty", ExitStatus.USAGE_ERROR)
    return content.strip()
