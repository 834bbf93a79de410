"""Fields of the console's forms, and the filters in its addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.parameters import parse_query
from grpc_rest_gateway.plain import PlainRequest

from florin_server.domain.errors import ErrorCode, validation_error
from florin_server.web.forms import FORM_BYTES_MAX, FORM_TYPE, get_media_type

_T = TypeVar("_T")
# more digits than any amount has
_NUMBER_CHARS = 100


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


def read_form(request: PlainRequest) -> FormValues:
    """Return the fields of a body; RefusedError if it is not a form."""
    if get_media_type(request) != FORM_TYPE:
        raise RefusedError(415, ErrorCode.INVALID_PARAMS, "Content-Type must be that of a form")
    if len(request.body) > FORM_BYTES_MAX:
        raise RefusedError(413, ErrorCode.INVALID_PARAMS, "The form is too large")
    return group_fields(parse_query(request.body))


def group_fields(pairs: Sequence[tuple[str, str]]) -> FormValues:
    """Return names and values as the fields of a form."""
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return FormValues(values)


def parse_timestamp(text: str, name: str) -> Timestamp | None:
    """Return a day or time in UTC as browsers write it; None if empty, ApiError if not one."""
    if not text:
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise validation_error(name, "must be a time") from None
    if at.tzinfo is not None:
        raise validation_error(name, "must be in UTC and name no time zone")
    return Timestamp(seconds=int(at.replace(tzinfo=UTC).timestamp()))


def parse_minor_units(text: str, decimals: int, name: str) -> str:
    """Return the minor units of an amount such as "12.50"; ApiError if it is not one."""
    try:
        amount = Decimal(text if len(text) <= _NUMBER_CHARS else "")
    except InvalidOperation:
        raise validation_error(name, "must be a number such as 12.50") from None
    if not amount.is_finite() or amount <= 0 or amount.adjusted() > _NUMBER_CHARS:
        raise validation_error(name, "must be above zero")
    _, digits, exponent = amount.as_tuple()
    places = int(exponent) + decimals
    if places < 0 and any(digits[places:]):
        raise validation_error(name, f"must have at most {decimals} decimals")
    total = int("".join(map(str, digits)))
    return str(total * 10**places if places >= 0 else total // 10**-places)


def parse_choice(text: str, choices: Mapping[str, _T], name: str) -> _T:
    """Return the value of a choice; ApiError for an unknown one."""
    if text not in choices:
        raise validation_error(name, "is unknown")
    return choices[text]
