"""Notes on payments, by merchants and the operator."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from florin_server.domain.text import escape_unsafe

# with deleted ones, which can be restored for a while
NOTES_MAX: Final = 50
NOTE_CHARS_MAX: Final = 2000
RESTORABLE_US: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class PaymentNote:
    """A note; `key_id` is the API key that wrote it, None for the operator."""

    id: str
    payment_id: str
    key_id: str | None
    text: str
    created_at_us: int
    deleted_at_us: int | None = None


def clean_note(text: str) -> str:
    """Return a note with plain line ends; ValueError with the fault of an invalid one."""
    clean = text.replace("\r\n", "\n").strip()
    if not clean:
        raise ValueError("must contain a visible character")
    if len(clean) > NOTE_CHARS_MAX:
        raise ValueError(f"must have at most {NOTE_CHARS_MAX} characters")
    if escape_unsafe(clean, multiline=True) != clean:
        raise ValueError("must not contain control characters")
    return clean
