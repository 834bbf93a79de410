"""Fields of the console's forms, and the filters in its addresses."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from grpc_rest_gateway.parameters import parse_query
from grpc_rest_gateway.plain import PlainRequest

from florin_server.web.console.refusals import ConsoleError
from florin_server.web.forms import FORM_BYTES_MAX, FORM_TYPE, get_media_type

_T = TypeVar("_T")
# more digits than any amount has
_NUMBER_CHARS = 100
# of an entry that an error repeats
_SHOWN_CHARS = 40


@dataclass(frozen=True, slots=True)
class FormValues:
    """The values of a form by name; a name can have several."""

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def text(self, name: str) -> str:
        """Return the first value without surrounding white space; empty without one."""
        value = self.values.get(name, ())
        return value[0].strip() if value else ""

    def texts(self, name: str) -> list[str]:
        """Return all values that are not empty."""
        return [text.strip() for text in self.values.get(name, ()) if text.strip()]

    def list_pairs(self, skipped: Container[str]) -> list[tuple[str, str]]:
        """Return names and values as they were sent, without the skipped names."""
        return [
            (name, value)
            for name, values in self.values.items()
            if name not in skipped
            for value in values
        ]


def read_form(request: PlainRequest) -> FormValues:
    """Return the fields of a body; ConsoleError if it is not a form."""
    if get_media_type(request) != FORM_TYPE:
        raise ConsoleError(415, "fault.no_form")
    if len(request.body) > FORM_BYTES_MAX:
        raise ConsoleError(413, "fault.large_form")
    return group_fields(parse_query(request.body))


def group_fields(pairs: Sequence[tuple[str, str]]) -> FormValues:
    """Return names and values as the fields of a form."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return FormValues(values)


def parse_timestamp(text: str) -> Timestamp | None:
    """Return a day or time in UTC as browsers write it; None if empty, else ConsoleError."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise ConsoleError(400, "fault.time", text=text[:_SHOWN_CHARS]) from None
    if at.tzinfo is not None:
        raise ConsoleError(400, "fault.time_zone", text=text[:_SHOWN_CHARS])
    return Timestamp(seconds=int(at.replace(tzinfo=UTC).timestamp()))


def parse_minor_units(text: str, decimals: int) -> str:
    """Return the minor units of an amount such as "12.50"; ConsoleError if it is not one."""
    try:
        amount = Decimal(text if len(text) <= _NUMBER_CHARS else "")
    except InvalidOperation:
        raise ConsoleError(400, "fault.amount") from None
    if not amount.is_finite() or amount <= 0 or amount.adjusted() > _NUMBER_CHARS:
        raise ConsoleError(400, "fault.amount_zero")
    _, digits, exponent = amount.as_tuple()
    places = int(exponent) + decimals
    if places < 0 and any(digits[places:]):
        raise ConsoleError(400, "fault.amount_decimals", decimals=decimals)
    total = int("".join(map(str, digits)))
    return str(total * 10**places if places >= 0 else total // 10**-places)


def parse_choice(text: str, choices: Mapping[str, _T], name: str) -> _T:
    """Return the value of a choice; ConsoleError for an unknown one."""
    if text not in choices:
        raise ConsoleError(400, "fault.unknown_choice", field=name)
    return choices[text]
