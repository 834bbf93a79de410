"""The documents, and the blocks in them: what is there to be typed, saved or put into a file."""

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
# as somebody reads them who reads all: each goes on where those before it have led
DOCUMENTS = (
    "README.md",
    "client/README.md",
    *(
        f"docs/{name}.md"
        for name in (
            *(
                "payments",
                "checkout",
                "webhooks",
                "examples",
                "receipts",
                "command-line",
                "clients",
                "payment-methods",
                "solana",
                "sandbox",
                "real-chains",
                "chains",
            ),
            *(
                "merchants",
                "console",
                "prices",
                "payouts",
                "books",
                "data",
                "notebooks",
                "screening",
                "nodes-and-relayers",
            ),
            *(
                "buyer-data",
                "pages",
                "deployment",
                "monitoring",
                "alarms",
                "postgresql",
                "performance",
                "grpc",
                "security",
                "threats",
                "architecture",
            ),
            *("decisions", "testing"),
        )
    ),
    "SECURITY.md",
    "CONTRIBUTING.md",
)
# made from the code, and checked against it where they are made
GENERATED = ("docs/reference/", "docs/gallery/")

SECRET = "**********"  # a value that is not shown, whatever it is
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:^(?:    .*)?\n)+", re.MULTILINE)
_TABLE = re.compile(r"^\[+[^\]]+\]+", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """One of them. `place` is its document, the section there, and its number in that.

    `kind` is the first word behind the fence, and `file` the second: where the text belongs. Blocks
    without a fence are `indented`.
    """

    place: tuple[str, str, int]
    kind: str
    file: str
    text: str

    @property
    def lines(self) -> list[str]:
        """What is not empty, without comments."""
        return [one for line in self.text.splitlines() if (one := line.partition("  #")[0].strip())]


def text_of(document: str) -> str:
    """What it says."""
    return (ROOT / document).read_text()


def prose(document: str) -> str:
    """The same without the blocks."""
    return _FENCE.sub("", text_of(document))


def blocks() -> list[Block]:
    """All blocks of all documents, in their order."""
    return [
        block
        for document in DOCUMENTS
        for title, text in _sections(text_of(document))
        for block in _blocks(document, title, text)
    ]


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Below each heading of the second level; what comes before the first of them is named ""."""
    first, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    yield "", "\n" + first
    for part in parts:
        title, _, below = part.partition("\n")
        yield title, "\n" + below


def _blocks(document: str, title: str, text: str) -> Iterator[Block]:
    found = [(one.start(), one[1], one[2]) for one in _FENCE.finditer(text)]
    # as many characters as there were: places stay comparable, and no fence is looked into
    plain = _FENCE.sub(lambda one: re.sub(r"[^\n]", "x", one[0]), text)
    found += [
        (one.start(), "indented", textwrap.dedent(one[0].strip("\n")) + "\n")
        for one in _INDENTED.finditer(plain)
        if one[0].strip("\n")
    ]
    for number, (_, info, content) in enumerate(sorted(found)):
        kind, _, file = info.partition(" ")
        yield Block((document, title, number), kind, file.strip(), content)


def put_into(base: str, fragment: str) -> str:
    """A settings file with a fragment where the documents say that it belongs.

    Lines below `[[chains]]` or `[[solana_chains]]` go into the one such table of the file, in place
    of others of the same name; those above all tables come first; all else is appended.
    """
    heads = [*_TABLE.finditer(fragment)]
    ends = [*(one.start() for one in heads[1:]), *([len(fragment)] if heads else [])]
    text = fragment[: heads[0].start() if heads else None] + base
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
