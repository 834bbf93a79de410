"""Convert values of callers to values of messages."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from florin.v1.money_pb2 import AmountValue
from google.protobuf.timestamp_pb2 import Timestamp

# an amount: a message, or its unit ("iso4217/USD", "caip19/…") and its minor units
Money: TypeAlias = "AmountValue | tuple[str, int | str]"
# a JSON value; outputs of wallets are mostly texts
Json: TypeAlias = "str | float | bool | Sequence[Json] | Mapping[str, Json] | None"


def to_amount(money: Money) -> AmountValue:
    """Return the amount as a message; ValueError unless minor units are a whole number."""
    if isinstance(money, AmountValue):
        return money
    unit, value = money
    # a float is not exact, and a bool is not an amount
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"minor units are a whole number, not {value!r}")
    return AmountValue(unit=unit, value=str(value))


def to_timestamp(time: dt.datetime | None) -> Timestamp | None:
    """Return the time as a message; ValueError for a time without a time zone."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    timestamp = Timestamp()
    timestamp.FromDatetime(time)
    return timestamp


def to_json(value: Json) -> str:
    """Return the compact JSON text of a value."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
