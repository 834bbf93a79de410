"""The parts of Markdown that the references need."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

NOTE = "<!-- Generated from the code by `make gen`; do not edit. -->"


def render_page(title: str, *parts: str) -> str:
    """Return a whole document."""
    return "\n\n".join((f"# {title}", NOTE, *(part for part in parts if part))) + "\n"


def render_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; cells can contain Markdown, but no table."""
    lines = [header, ["-"] * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(_format_cell(cell) for cell in line) + " |" for line in lines
    )


def format_code(text: str) -> str:
    """Return a name as code; empty for an empty name."""
    return f"`{text}`" if text else ""


def format_sentence(text: str) -> str:
    """Return a text with a capital at its start and a period at its end."""
    text = " ".join(text.split())
    if not text:
        return ""
    # names keep their spelling: gRPC
    word = text.split()[0]
    first = text if word != word.lower() else text[0].upper() + text[1:]
    return first if first[-1] in ".!?:" else f"{first}."


def _format_cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
