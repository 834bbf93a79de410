"""The blocks of README.md: what stands there to be typed, saved or put into a file."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"

SECRET = "**********"  # a value that is not shown, whatever it is
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:^(?:    .*)?\n)+", re.MULTILINE)
_TABLE = re.compile(r"^\[+[^\]]+\]+", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One of them. `place` is its section and its number there; indented ones are `shell`."""

    place: tuple[str, int]
    kind: str
    text: str

    @property
    def lines(self) -> list[str]:
        """What is not empty, without comments."""
        return [one for line in self.text.splitlines() if (one := line.partition("  #")[0].strip())]


def blocks() -> list[Block]:
    """All of them, from top to bottom."""
    return [block for section in _sections() for block in _blocks(*section)]


def _sections() -> Iterator[tuple[str, str]]:
    _, *parts = re.split(r"^## ", README.read_text(), flags=re.MULTILINE)
    for part in parts:
        title, _, text = part.partition("\n")
        yield title, "\n" + text


def _blocks(title: str, text: str) -> Iterator[Block]:
    found = [(one.start(), one[1], one[2]) for one in _FENCE.finditer(text)]
    # as many characters as there were: places stay comparable, and no fence is looked into
    plain = _FENCE.sub(lambda one: re.sub(r"[^\n]", "x", one[0]), text)
    found += [
        (one.start(), "shell", textwrap.dedent(one[0].strip("\n")) + "\n")
        for one in _INDENTED.finditer(plain)
        if one[0].strip("\n")
    ]
    for number, (_, kind, content) in enumerate(sorted(found)):
        yield Block((title, number), kind, content)


def put_into(base: str, fragment: str) -> str:
    """A settings file with a fragment where the README says that it belongs.

    Lines below `[[chains]]` or `[[solana_chains]]` go into the one such table of the file, in place
    of others of the same name; all else is appended.
    """
    heads = [*_TABLE.finditer(fragment)]
    ends = [one.start() for one in heads[1:]] + [len(fragment)]
    text = base
    for head, end in zip(heads, ends, strict=True):
        lines = fragment[head.end() : end]
        if head[0] in {"[[chains]]", "[[solana_chains]]"}:
            before, found, after = text.partition(head[0])
            assert found, head[0]
            for name in tomllib.loads(lines):
                after = re.sub(rf"^{name} = .*\n", "", after, flags=re.MULTILINE)
            text = before + found + lines.rstrip() + after
        else:
            text += f"\n{head[0]}{lines}"
    return text


def taken(settings: BaseModel, said: Any) -> None:
    """Every value of a fragment is one that the settings have, under the very name."""
    _taken(settings.model_dump(mode="json"), said, "")


def _taken(has: Any, said: Any, place: str) -> None:
    if isinstance(said, dict):
        for name, value in said.items():
            assert name in has, f"{place}.{name}"
            _taken(has[name], value, f"{place}.{name}")
    elif isinstance(said, list):
        assert len(has) == len(said), place
        for number, (one, other) in enumerate(zip(has, said, strict=True)):
            _taken(one, other, f"{place}.{number}")
    elif has == SECRET:
        pass
    elif isinstance(has, float):
        assert has == said, place
    else:
        assert str(has).lower() == str(said).lower(), place
