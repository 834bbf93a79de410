"""The documents, and their blocks of commands, files and settings."""

from __future__ import annotations

import re
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from florin_server.api.server.validate import RequestValidator
from florin_server.rails.networks import chain_files
from google.protobuf.message import Message
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
# followed by a test of their own, as they change the clone
CONTRIBUTING = (
    "CONTRIBUTING.md",
    *(
        f"docs/contributing/{name}.md"
        for name in (
            *("nouns", "language", "tests", "add-an-rpc", "add-a-payment-method"),
            *("add-a-store-table", "releases"),
        )
    ),
)
# in reading order: each continues from the state that those before it have reached
DOCUMENTS = (
    "README.md",
    "client/README.md",
    "client/typescript/README.md",
    *(
        f"docs/{name}.md"
        for name in (
            *(
                "first-payment",
                "payments",
                "checkout",
                "webhooks",
                "event-sink",
                "examples",
                "tutorials/wallet",
                "receipts",
                "command-line",
                "clients",
                "payment-methods",
                "payments-to-addresses",
                "solana",
                "x402",
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
                "tutorials/analyst",
                "notebooks",
                "screening",
                "nodes-and-relayers",
            ),
            *(
                "buyer-data",
                "pages",
                "deployment",
                "tutorials/operator",
                "monitoring",
                "alarms",
                "postgresql",
                "archive",
                "performance",
                "grpc",
                "security",
                "threats",
                "architecture",
                "store",
            ),
            *("decisions", "testing", "glossary"),
        )
    ),
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    *CONTRIBUTING,
)
# generated from the code, and checked against it there
GENERATED = ("docs/reference/", "docs/gallery/")

SECRET = "**********"  # a placeholder, which matches any value
_FENCE = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_INDENTED = re.compile(r"(?<=\n\n)(?:^(?:    .*)?\n)+", re.MULTILINE)
_TABLE = re.compile(r"^\[+[^\]]+\]+", re.MULTILINE)


@dataclass(frozen=True)
class DocumentBlock:
    """A block of a document. `place` is its document, its section, and its number in that section.

    `kind` is the first word behind the fence, and `file` the second: the target of the text. Blocks
    without a fence are `indented`.
    """

    place: tuple[str, str, int]
    kind: str
    file: str
    text: str

    @property
    def lines(self) -> list[str]:
        """Return the lines that are neither empty nor comments."""
        return [
            text for line in self.text.splitlines() if (text := line.partition("  #")[0].strip())
        ]


def read_document(document: str) -> str:
    """Return the text of a document."""
    return (ROOT / document).read_text()


def read_prose(document: str) -> str:
    """Return the text of a document without its blocks."""
    return _FENCE.sub("", read_document(document))


def list_blocks() -> list[DocumentBlock]:
    """Return all blocks of all documents, in their order."""
    return [
        block
        for document in DOCUMENTS
        for title, text in _list_sections(read_document(document))
        for block in _list_blocks(document, title, text)
    ]


def _list_sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield the sections of the second level; text before the first heading has the name ""."""
    first, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    yield "", "\n" + first
    for part in parts:
        title, _, below = part.partition("\n")
        yield title, "\n" + below


def _list_blocks(document: str, title: str, text: str) -> Iterator[DocumentBlock]:
    results = [(match.start(), match[1], match[2]) for match in _FENCE.finditer(text)]
    # the same number of characters: positions stay comparable, and code in fences is ignored
    plain = _FENCE.sub(lambda match: re.sub(r"[^\n]", "x", match[0]), text)
    results += [
        (match.start(), "indented", textwrap.dedent(match[0].strip("\n")) + "\n")
        for match in _INDENTED.finditer(plain)
        if match[0].strip("\n")
    ]
    for number, (_, info, content) in enumerate(sorted(results)):
        kind, _, file = info.partition(" ")
        yield DocumentBlock((document, title, number), kind, file.strip(), content)


def insert_fragment(base: str, fragment: str) -> str:
    """Return a settings file with a fragment inserted where the documents place it.

    Lines below `[[chains]]` or `[[solana_chains]]` go into the one such table of the file, and
    replace lines of the same name; those above all tables come first; all else is appended.
    """
    heads = [*_TABLE.finditer(fragment)]
    ends = [*(match.start() for match in heads[1:]), *([len(fragment)] if heads else [])]
    text = fragment[: heads[0].start() if heads else None] + base
    for head, end in zip(heads, ends, strict=True):
        lines = fragment[head.end() : end]
        if head[0] in {"[[chains]]", "[[solana_chains]]"}:
            before, result, after = text.partition(head[0])
            assert result, head[0]
            for name in tomllib.loads(lines):
                after = re.sub(rf"^{name} = .*\n", "", after, flags=re.MULTILINE)
            text = before + result + lines.rstrip() + after
        else:
            text += f"\n{head[0]}{lines}"
    return text


def check_settings_taken(settings: BaseModel, text: Any) -> None:
    """Assert that the settings have every value of a fragment, under the same name."""
    _check_taken(settings.model_dump(mode="json"), text, "")


def _check_taken(has: Any, text: Any, place: str) -> None:
    if isinstance(text, dict):
        for name, value in text.items():
            assert name in has, f"{place}.{name}"
            _check_taken(has[name], value, f"{place}.{name}")
    elif isinstance(text, list):
        assert len(has) == len(text), place
        for number, (item, other) in enumerate(zip(has, text, strict=True)):
            _check_taken(item, other, f"{place}.{number}")
    elif has == SECRET:
        pass
    elif isinstance(has, float):
        assert has == text, place
    else:
        assert str(has).lower() == str(text).lower(), place


def check_request(request: Message) -> None:
    """Raise FlorinError if the server would refuse a request for its fields."""
    RequestValidator(request.DESCRIPTOR)(request)


def parse_chain(text: str) -> Any:
    """Return the settings of a chain file's chain."""
    return chain_files.parse_chain(text.encode(), Path("some.toml"), Path("/"))
