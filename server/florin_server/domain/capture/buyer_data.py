"""Required data about a buyer before a payment: its schema, and its accepted forms.

No message about data contains a value of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import orjson

from florin_server.domain.errors import FieldIssue
from florin_server.domain.page_queries import decode_json_object
from florin_server.domain.text import has_unsafe

BuyerData: TypeAlias = dict[str, str | bool]

# fits a name, two places and a date of birth several times
PREFILL_BYTES_MAX = 8 * 1024
ADDRESS_CHARS_MAX = 200
# the schema has no limit: several times the longest name of a person, and too short to fill a disk
NAME_CHARS_MAX = 1000
_COUNTRY = "^[A-Z]{2}$"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PLACES = (("pobCountry", "pobAddress"), ("porCountry", "porAddress"))
_BOOLEANS = {"true": True, "false": False}


class BuyerDataFault(StrEnum):
    """The faults of a value, in the words of the API; pages have texts for each."""

    REQUIRED = "is required"
    PLACE = "is required: enter a place of birth or of residence, with its country"
    CONFIRM = "must be confirmed"
    STRING = "must be a string"
    DATE = "must be a date like 1990-12-31"
    COUNTRY = "must be two capital letters, like DE"
    LONG_ADDRESS = f"must have at most {ADDRESS_CHARS_MAX} characters"
    LONG_NAME = f"must have at most {NAME_CHARS_MAX} characters"
    CONTROL = "has control characters"
    UNKNOWN = "has an unknown member"


class BuyerDataField(NamedTuple):
    """One value of the form; `kind` is text, date or checkbox."""

    id: str
    name: str
    kind: str
    required: bool


BUYER_DATA_FIELDS = (
    BuyerDataField("fullName", "Full name", "text", True),
    BuyerDataField("dob", "Date of birth", "date", True),
    BuyerDataField("pobCountry", "Country of birth", "text", False),
    BuyerDataField("pobAddress", "Place of birth", "text", False),
    BuyerDataField("porCountry", "Country of residence", "text", False),
    BuyerDataField("porAddress", "Address of residence", "text", False),
    BuyerDataField("tosConfirmed", "I accept the terms of service", "checkbox", True),
)
_BY_ID = {field.id: field for field in BUYER_DATA_FIELDS}
_REQUIRED = tuple(field.id for field in BUYER_DATA_FIELDS if field.required)

_COUNTRY_SCHEMA = {"type": "string", "pattern": _COUNTRY}
_ADDRESS_SCHEMA = {"type": "string", "maxLength": ADDRESS_CHARS_MAX}
SCHEMA: Mapping[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "fullName": {"type": "string", "minLength": 1},
        "dob": {"type": "string", "format": "date"},
        "pobCountry": _COUNTRY_SCHEMA,
        "pobAddress": _ADDRESS_SCHEMA,
        "porCountry": _COUNTRY_SCHEMA,
        "porAddress": _ADDRESS_SCHEMA,
        "tosConfirmed": {"type": "boolean", "const": True},
    },
    "required": list(_REQUIRED),
    "anyOf": [{"required": list(pair)} for pair in _PLACES],
}
SCHEMA_JSON = orjson.dumps(SCHEMA).decode()


def parse_buyer_data(value: Any) -> tuple[BuyerData, list[FieldIssue]]:
    """Return the data in any of its accepted forms, and its faults.

    The forms are an object by the schema's keys, a list of {"id", "value"}, and an object whose
    `fields` is such a list. An empty text means a missing value.
    """
    values, issues = _flatten(value)
    if not values and issues:
        return {}, issues
    data: BuyerData = {}
    for name, item in values.items():
        field = _BY_ID.get(name)
        if field is None:
            # the name comes from a stranger and can contain anything
            issues.append(FieldIssue("", BuyerDataFault.UNKNOWN))
            continue
        if field.kind == "checkbox" and isinstance(item, str):
            item = _BOOLEANS.get(item, item)  # noqa: PLW2901
        if item is None or item == "":
            continue
        if (fault := _find_fault(field, item)) is not None:
            issues.append(FieldIssue(name, fault))
        else:
            data[name] = item
    faulty = {issue.field for issue in issues}
    issues += [
        FieldIssue(name, BuyerDataFault.REQUIRED)
        for name in _REQUIRED
        if name not in data and name not in faulty
    ]
    return data, issues + _list_place_issues(data, faulty)


def is_empty(value: Any) -> bool:
    """Return True if no form of data holds anything."""
    return value is None or _flatten(value) == ({}, [])


def parse_prefill(text: str) -> dict[str, str]:
    """Return a wallet's values to fill in the form in advance; empty if unreadable.

    They come as an encoded JSON object by the schema's keys. Terms cannot be accepted in advance.
    """
    json_object = decode_json_object(text, PREFILL_BYTES_MAX)
    return {
        field.id: json_object[field.id]
        for field in BUYER_DATA_FIELDS
        if field.kind != "checkbox"
        and isinstance(json_object.get(field.id), str)
        and not has_unsafe(json_object[field.id])
    }


def _flatten(value: Any) -> tuple[dict[str, Any], list[FieldIssue]]:
    """Return the values by key, for any form."""
    if isinstance(value, dict):
        if not isinstance(value.get("fields"), list):
            return dict(value), []
        value = value["fields"]
    if not isinstance(value, list):
        return {}, [FieldIssue("", "must be an object or an array")]
    values: dict[str, Any] = {}
    issues: list[FieldIssue] = []
    for at, item in enumerate(value):
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            issues.append(FieldIssue(f"[{at}]", "must have an id and a value"))
        elif item["id"] in values:
            issues.append(FieldIssue(f"[{at}].id", "occurs twice"))
        else:
            values[item["id"]] = item.get("value")
    return values, issues


def _find_fault(field: BuyerDataField, value: Any) -> BuyerDataFault | None:
    if field.kind == "checkbox":
        return None if value is True else BuyerDataFault.CONFIRM
    if not isinstance(value, str):
        return BuyerDataFault.STRING
    if has_unsafe(value):
        return BuyerDataFault.CONTROL
    if field.kind == "date":
        return None if _is_date(value) else BuyerDataFault.DATE
    if field.id.endswith("Country"):
        return None if re.fullmatch(_COUNTRY, value) else BuyerDataFault.COUNTRY
    if field.id.endswith("Address"):
        return BuyerDataFault.LONG_ADDRESS if len(value) > ADDRESS_CHARS_MAX else None
    return BuyerDataFault.LONG_NAME if len(value) > NAME_CHARS_MAX else None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _list_place_issues(data: BuyerData, faulty: set[str]) -> list[FieldIssue]:
    """Require that one of the two places is complete."""
    if any(all(name in data for name in pair) for pair in _PLACES):
        return []
    # the place that has a value, else the first
    pair = next((p for p in _PLACES if any(n in data or n in faulty for n in p)), _PLACES[0])
    return [
        FieldIssue(name, BuyerDataFault.PLACE)
        for name in pair
        if name not in data and name not in faulty
    ]
