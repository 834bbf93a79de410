"""Values as callers have them, and as messages have them."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from florin.v1.money_pb2 import AmountValue
from google.protobuf.timestamp_pb2 import Timestamp

# what is to be paid: a message, or its unit ("iso4217/USD", "caip19/…") and its minor units
Money: TypeAlias = "AmountValue | tuple[str, int | str]"
# what JSON can say; outputs of wallets are mostly texts
Json: TypeAlias = "str | float | bool | Sequence[Json] | Mapping[str, Json] | None"


def amount_of(money: Money) -> AmountValue:
    """The message; ValueError for what is no whole number of minor units."""
    if isinstance(money, AmountValue):
        return money
    unit, value = money
    # a float is not exact, and True is no amount
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise ValueError(f"minor units are a whole number, not {value!r}")
    return AmountValue(unit=unit, value=str(value))


def timestamp_of(time: dt.datetime | None) -> Timestamp | None:
    """The message; ValueError for a time without a zone, which nobody else can read."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise ValueError(f"{time} has no time zone")
    made = Timestamp()
    made.FromDatetime(time)
    return made


def json_of(value: Json) -> str:
    """The text of it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
