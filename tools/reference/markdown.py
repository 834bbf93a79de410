"""The little of Markdown that the references need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTE = "<!-- Generated from the code by `make gen`; do not edit. -->"


def page(title: str, *parts: str) -> str:
    """A whole document."""
    return "\n\n".join((f"# {title}", NOTE, *(part for part in parts if part))) + "\n"


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells may hold Markdown, but no table of their own."""
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join("| " + " | ".join(_cell(one) for one in line) + " |" for line in lines)


def code(text: str) -> str:
    """A name as it is typed; nothing for no name."""
    return f"`{text}`" if text else ""


def sentence(text: str) -> str:
    """A text with a capital at its beginning and a full stop at its end."""
    text = " ".join(text.split())
    if not text:
        return ""
    # a name keeps its spelling: gRPC
    word = text.split()[0]
    first = text if word != word.lower() else text[0].upper() + text[1:]
    return first if first[-1] in ".!?:" else f"{first}."


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
