"""Amounts, times and choices as people write them into forms of a console."""

from __future__ import annotations

import pytest
from florin_server.domain.errors import FlorinError
from florin_server.web.console.fields import Form, chosen, grouped, minor, moment


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
    assert minor(text, decimals, "amount") == value


@pytest.mark.parametrize(
    "text",
    ["", "x", "-1", "0", "0.00", "1.001", "NaN", "Infinity", "1,50", "1e999", "1" * 101, "0x10"],
)
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(FlorinError):
        minor(text, 2, "amount")


def test_times_are_in_utc():
    assert moment("", "from") is None
    told = moment("2027-01-15T08:00", "from")
    assert told is not None
    assert told.ToJsonString() == "2027-01-15T08:00:00Z"
    for wrong in ("x", "2027-13-01", "2027-01-15T08:00+02:00", "0" * 5000):
        with pytest.raises(FlorinError):
            moment(wrong, "from")


def test_a_choice_is_one_of_those_that_there_are():
    assert chosen("a", {"a": 1}, "x") == 1
    with pytest.raises(FlorinError, match="x: is unknown"):
        chosen("b", {"a": 1}, "x")


def test_a_form_has_all_values_of_a_name():
    form = grouped([("a", " 1 "), ("a", ""), ("a", "2"), ("b", "3")])
    assert (form.text("a"), form.texts("a"), form.text("c")) == ("1", ["1", "2"], "")
    assert Form().texts("a") == []
