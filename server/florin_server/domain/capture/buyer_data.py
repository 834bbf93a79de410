"""Data about a buyer that has to be known before a payment: its schema, and the forms it comes in.

No message about data holds a value of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import date
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

import orjson

from florin_server.domain.encoded import json_object
from florin_server.domain.errors import Issue
from florin_server.domain.text import has_unsafe

Data: TypeAlias = dict[str, str | bool]

# a name, two places and a date of birth fit several times
PREFILL_BYTES_MAX = 8 * 1024
ADDRESS_CHARS_MAX = 200
# the schema says none: several times the longest name of a person, and no way to fill a disk
NAME_CHARS_MAX = 1000
_COUNTRY = "^[A-Z]{2}$"
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_PLACES = (("pobCountry", "pobAddress"), ("porCountry", "porAddress"))
_BOOLEANS = {"true": True, "false": False}


class Fault(StrEnum):
    """What can be wrong with a value, as callers are told it; pages have texts for each."""

    REQUIRED = "is required"
    PLACE = "is required: a place of birth, or of residence, with its country"
    CONFIRM = "must be confirmed"
    STRING = "must be a string"
    DATE = "must be a date like 1990-12-31"
    COUNTRY = "must be two capital letters, like DE"
    LONG_ADDRESS = f"must have at most {ADDRESS_CHARS_MAX} characters"
    LONG_NAME = f"must have at most {NAME_CHARS_MAX} characters"
    CONTROL = "has control characters"
    UNKNOWN = "has a member that is not asked for"


class Field(NamedTuple):
    """One value of the form; `kind` is text, date or checkbox."""

    id: str
    name: str
    kind: str
    required: bool


FIELDS = (
    Field("fullName", "Full name", "text", True),
    Field("dob", "Date of birth", "date", True),
    Field("pobCountry", "Country of birth", "text", False),
    Field("pobAddress", "Place of birth", "text", False),
    Field("porCountry", "Country of residence", "text", False),
    Field("porAddress", "Address of residence", "text", False),
    Field("tosConfirmed", "I accept the terms of service", "checkbox", True),
)
_BY_ID = {field.id: field for field in FIELDS}
_REQUIRED = tuple(field.id for field in FIELDS if field.required)

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


def read(value: Any) -> tuple[Data, list[Issue]]:
    """The data in any of the forms in which it may come, and what is wrong with it.

    The forms are an object by the schema's keys, a list of {"id", "value"}, and an object whose
    `fields` is such a list. A text that is empty stands for a value that is not given.
    """
    given, issues = _flat(value)
    if not given and issues:
        return {}, issues
    data: Data = {}
    for name, one in given.items():
        field = _BY_ID.get(name)
        if field is None:
            # the name comes from a stranger and may hold anything
            issues.append(Issue("", Fault.UNKNOWN))
            continue
        if field.kind == "checkbox" and isinstance(one, str):
            one = _BOOLEANS.get(one, one)  # noqa: PLW2901
        if one is None or one == "":
            continue
        if (fault := _fault(field, one)) is not None:
            issues.append(Issue(name, fault))
        else:
            data[name] = one
    faulty = {issue.field for issue in issues}
    issues += [
        Issue(name, Fault.REQUIRED) for name in _REQUIRED if name not in data and name not in faulty
    ]
    return data, issues + _place_issues(data, faulty)


def is_empty(value: Any) -> bool:
    """True if no form of data holds anything."""
    return value is None or _flat(value) == ({}, [])


def prefill(text: str) -> dict[str, str]:
    """What a wallet knows already, to begin the form with; empty if it cannot be read.

    A JSON object by the schema's keys, encoded. Nobody confirms terms in advance.
    """
    known = json_object(text, PREFILL_BYTES_MAX)
    return {
        field.id: known[field.id]
        for field in FIELDS
        if field.kind != "checkbox"
        and isinstance(known.get(field.id), str)
        and not has_unsafe(known[field.id])
    }


def _flat(value: Any) -> tuple[dict[str, Any], list[Issue]]:
    """The values by key, whatever the form."""
    if isinstance(value, dict):
        if not isinstance(value.get("fields"), list):
            return dict(value), []
        value = value["fields"]
    if not isinstance(value, list):
        return {}, [Issue("", "must be an object or an array")]
    given: dict[str, Any] = {}
    issues: list[Issue] = []
    for at, item in enumerate(value):
        if not isinstance(item, dict) or not isinstance(item.get("id"), str):
            issues.append(Issue(f"[{at}]", "must have an id and a value"))
        elif item["id"] in given:
            issues.append(Issue(f"[{at}].id", "is given twice"))
        else:
            given[item["id"]] = item.get("value")
    return given, issues


def _fault(field: Field, value: Any) -> Fault | None:
    if field.kind == "checkbox":
        return None if value is True else Fault.CONFIRM
    if not isinstance(value, str):
        return Fault.STRING
    if has_unsafe(value):
        return Fault.CONTROL
    if field.kind == "date":
        return None if _is_date(value) else Fault.DATE
    if field.id.endswith("Country"):
        return None if re.fullmatch(_COUNTRY, value) else Fault.COUNTRY
    if field.id.endswith("Address"):
        return Fault.LONG_ADDRESS if len(value) > ADDRESS_CHARS_MAX else None
    return Fault.LONG_NAME if len(value) > NAME_CHARS_MAX else None


def _is_date(text: str) -> bool:
    if not _DATE.fullmatch(text):
        return False
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def _place_issues(data: Data, faulty: set[str]) -> list[Issue]:
    """One of the two places has to be complete."""
    if any(all(name in data for name in pair) for pair in _PLACES):
        return []
    # whichever was begun, else the first
    pair = next((p for p in _PLACES if any(n in data or n in faulty for n in p)), _PLACES[0])
    return [Issue(name, Fault.PLACE) for name in pair if name not in data and name not in faulty]
