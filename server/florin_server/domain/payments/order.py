"""The order behind a payment: description, lines, and the merchant's own metadata."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from florin_server.domain.accounts.contact import is_valid_name
from florin_server.domain.errors import FieldIssue

# bytes of its JSON in UTF-8: a payment's row is written again with each change
ORDER_BYTES_MAX: Final = 8192
# as columns are written
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))


class PaymentLine(NamedTuple):
    """A line of an order; `amount` is for all its pieces, in minor units of the payment's unit."""

    name: str
    quantity: int
    amount: int


@dataclass(frozen=True, slots=True)
class Order:
    """The order of a payment. Buyers see description and lines, never metadata.

    `metadata` are the merchant's own texts with their names, sorted by name.
    """

    description: str | None = None
    lines: tuple[PaymentLine, ...] = ()
    metadata: tuple[tuple[str, str], ...] = ()

    @property
    def total(self) -> int:
        """Return what the lines add up to."""
        return sum(line.amount for line in self.lines)

    def list_issues(self) -> Iterator[FieldIssue]:
        """Yield the faults that no proto expresses: unreadable texts, and the size of it all."""
        if self.description is not None and not is_valid_name(self.description):
            yield FieldIssue("description", "must contain a visible character")
        for index, line in enumerate(self.lines):
            if not is_valid_name(line.name):
                yield FieldIssue(f"lines[{index}].name", "must contain a visible character")
        if not (self.description or self.lines or self.metadata):
            # most payments: measuring costs more than all other checks
            return
        sizes = {
            "description": _measure(self.description or ""),
            "lines": _measure(self.lines),
            "metadata": _measure(dict(self.metadata)),
        }
        if (size := sum(sizes.values())) > ORDER_BYTES_MAX:
            text = (
                f"is too large: description, lines and metadata have {size} bytes together, but "
                f"at most {ORDER_BYTES_MAX} are possible"
            )
            yield FieldIssue(max(sizes, key=sizes.__getitem__), text)


def _measure(part: Any) -> int:
    return len(_JSON.encode(part).encode())
