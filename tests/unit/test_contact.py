"""Test a merchant's contact data."""

from __future__ import annotations

import pytest
from florin_server.domain.accounts.contact import (
    SupportContact,
    is_valid_email,
    is_valid_name,
    list_issues,
)
from florin_server.domain.errors import FieldIssue


@pytest.mark.parametrize("name", ["Shop", " x ", "7", "…", "€", "店", "é", "⠿", "\u200bx"])
def test_a_name_that_shows_something(name):
    assert is_valid_name(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "\t\n", "\u200b", "\u202e", "\u0301", "\u115f", "\u1160", "\u2800", "\u3164\uffa0"],
)
def test_a_name_that_shows_nothing(name):
    assert not is_valid_name(name)


@pytest.mark.parametrize(
    "address",
    [
        "a@b.c",
        "first.last+tag@shop.example",
        "x@a-b.example",
        "x@xn--bcher-kva.example",
        "käse@bücher.example",
        "!#$%&'*+/=?^_`{|}~-@shop.example",
        "a" * 64 + "@shop.example",
        f"a@{'b' * 63}.example",
        f"a@{'.'.join(['b' * 49] * 5)}.cc",
    ],
)
def test_an_address_in_any_script(address):
    assert is_valid_email(address)


@pytest.mark.parametrize(
    "address",
    [
        "",
        "shop.example",
        "@shop.example",
        "a@",
        "a@example",
        "a@.example",
        "a@shop.",
        "a@shop..example",
        "a@-shop.example",
        "a@shop-.example",
        "a@shop.-",
        "a@sh_op.example",
        "a@b@shop.example",
        ".a@shop.example",
        "a.@shop.example",
        "a..b@shop.example",
        "a b@shop.example",
        "a@shop.example\n",
        "a\x00@shop.example",
        "a\u200b@shop.example",
        "a\u2028@shop.example",
        '"a"@shop.example',
        "a(b)@shop.example",
        "a,b@shop.example",
        "a:b@shop.example",
        "a;b@shop.example",
        "a<b>@shop.example",
        "a[b]@shop.example",
        "a\\b@shop.example",
        "a" * 65 + "@shop.example",
        f"a@{'b' * 64}.example",
        f"a@{'.'.join(['b' * 49] * 5)}.ccc",
    ],
)
def test_invalid_email_address_is_refused(address):
    assert not is_valid_email(address)


def test_only_provided_fields_are_checked():
    assert list(list_issues(None, None, None)) == []
    assert list(list_issues("Shop", "a@shop.example", "https://shop.example/a.png")) == []


def test_every_invalid_field_is_reported_by_name():
    assert list(list_issues(" ", "shop", "http://shop.example/a.png")) == [
        FieldIssue("merchantName", "must contain a visible character"),
        FieldIssue("merchantEmail", "must be an e-mail address"),
        FieldIssue("iconUrl", "must be an absolute https URL"),
    ]


@pytest.mark.parametrize(
    ("support", "fields"),
    [
        (SupportContact(), []),
        (SupportContact("", ""), []),
        (SupportContact("help@shop.example", "https://shop.example/help?x=1"), []),
        # a link of a page would have more recipients, or a subject
        (SupportContact("a?bcc=b@shop.example"), ["supportEmail"]),
        (SupportContact("a%0ab@shop.example"), ["supportEmail"]),
        (SupportContact("a\u202eb@shop.example", "javascript:x"), ["supportEmail", "supportUrl"]),
        (SupportContact(url="http://shop.example"), ["supportUrl"]),
        (SupportContact(url="https://user@shop.example"), ["supportUrl"]),
    ],
)
def test_support_contact_can_be_linked(support, fields):
    assert [issue.field for issue in support.list_issues()] == fields
