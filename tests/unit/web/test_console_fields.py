"""Test amounts, times and choices as people enter them in console forms."""

from __future__ import annotations

import pytest
from florin_server.web.console.fields import (
    FormValues,
    group_fields,
    parse_choice,
    parse_minor_units,
    parse_timestamp,
)
from florin_server.web.console.refusals import ConsoleError


@pytest.mark.parametrize(
    ("text", "decimals", "value"),
    [
        ("12.50", 2, "1250"),
        ("12.5", 2, "1250"),
        ("12", 2, "1200"),
        ("0.01", 2, "1"),
        (".5", 2, "50"),
        ("12.500", 2, "1250"),
        ("1e2", 2, "10000"),
        ("1", 0, "1"),
        ("0.000000000000000001", 18, "1"),
        (
            "123456789012345678901234567890.123456789012345678",
            18,
            "1234567890" * 3 + "123456789012345678",
        ),
    ],
)
def test_an_amount_becomes_minor_units_to_the_last_digit(text, decimals, value):
    assert parse_minor_units(text, decimals) == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "0", "0.00", "1.001", "NaN", "Infinity", "1,50", "1e999", "1" * 101, "0x10"],
)
def test_invalid_amount_is_refused(text):
    with pytest.raises(ConsoleError):
        parse_minor_units(text, 2)


def test_times_are_in_utc():
    assert parse_timestamp("") is None
    timestamp = parse_timestamp("2027-01-15T08:00")
    assert timestamp is not None
    assert timestamp.ToJsonString() == "2027-01-15T08:00:00Z"
    for wrong in ("x", "2027-13-01", "2027-01-15T08:00+02:00", "0" * 5000):
        with pytest.raises(ConsoleError):
            parse_timestamp(wrong)


def test_unknown_choice_is_refused():
    assert parse_choice("a", {"a": 1}, "x") == 1
    with pytest.raises(ConsoleError, match="unknown choice: x"):
        parse_choice("b", {"a": 1}, "x")


def test_a_form_has_all_values_of_a_name():
    form = group_fields([("a", " 1 "), ("a", ""), ("a", "2"), ("b", "3")])
    assert (form.text("a"), form.texts("a"), form.text("c")) == ("1", ["1", "2"], "")
    assert FormValues().texts("a") == []
