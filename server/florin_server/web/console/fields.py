"""What the forms of a console bring, and the filters in its addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from florin_gateway.errors import RefusedError
from florin_gateway.parameters import parse_query
from florin_gateway.plain import PlainRequest
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.errors import Code, invalid

_BODY_BYTES_MAX = 64 * 1024
_FORM = b"application/x-www-form-urlencoded"
_T = TypeVar("_T")
# more digits than any amount has
_NUMBER_CHARS = 100


@dataclass(frozen=True, slots=True)
class Form:
    """Values by name; of a name that came several times, all of them."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """The value without the blanks around it; empty if there is none."""
        given = self.values.get(name, ())
        return given[0].strip() if given else ""

    def texts(self, name: str) -> list[str]:
        """All that are not empty."""
        return [one.strip() for one in self.values.get(name, ()) if one.strip()]


def read_form(request: PlainRequest) -> Form:
    """What was sent; RefusedError if it is no form."""
    kind = next((value for name, value in request.headers if name == b"content-type"), b"")
    if kind.partition(b";")[0].strip().lower() != _FORM:
        raise RefusedError(415, Code.INVALID_PARAMS, "Content-Type is not that of a form")
    if len(request.body) > _BODY_BYTES_MAX:
        raise RefusedError(413, Code.INVALID_PARAMS, "The form is too large")
    return grouped(parse_query(request.body))


def grouped(pairs: Sequence[tuple[str, str]]) -> Form:
    """The same of names and values."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return Form(values)


def moment(text: str, name: str) -> Timestamp | None:
    """A day or a time in UTC as browsers write it; None if empty, FlorinError for other texts."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise invalid(name, "is no time") from None
    if at.tzinfo is not None:
        raise invalid(name, "is in UTC, and names no zone")
    return Timestamp(seconds=int(at.replace(tzinfo=UTC).timestamp()))


def minor(text: str, decimals: int, name: str) -> str:
    """Minor units of an amount that people wrote, e.g. "12.50"; FlorinError for other texts."""
    try:
        amount = Decimal(text if len(text) <= _NUMBER_CHARS else "")
    except InvalidOperation:
        raise invalid(name, "is no number, such as 12.50") from None
    if not amount.is_finite() or amount <= 0 or amount.adjusted() > _NUMBER_CHARS:
        raise invalid(name, "must be above zero")
    _, digits, exponent = amount.as_tuple()
    places = int(exponent) + decimals
    if places < 0 and any(digits[places:]):
        raise invalid(name, f"has more than {decimals} decimals")
    whole = int("".join(map(str, digits)))
    return str(whole * 10**places if places >= 0 else whole // 10**-places)


def chosen(text: str, choices: Mapping[str, _T], name: str) -> _T:
    """What a choice stands for; FlorinError for what is none."""
    if text not in choices:
        raise invalid(name, "is unknown")
    return choices[text]
