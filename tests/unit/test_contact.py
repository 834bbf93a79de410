"""What a merchant may say of itself."""

from __future__ import annotations

import pytest
from florin_server.domain.accounts.contact import faults, is_email, is_name
from florin_server.domain.errors import Issue


@pytest.mark.parametrize("name", ["Shop", " x ", "7", "…", "€", "店", "é", "⠿", "\u200bx"])
def test_a_name_that_shows_something(name):
    assert is_name(name)


@pytest.mark.parametrize(
    "name",
    ["", " ", "\t\n", "\u200b", "\u202e", "\u0301", "\u115f", "\u1160", "\u2800", "\u3164\uffa0"],
)
def test_a_name_that_shows_nothing(name):
    assert not is_name(name)


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
    assert is_email(address)


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
def test_what_is_no_address(address):
    assert not is_email(address)


def test_only_what_is_given_is_looked_at():
    assert list(faults(None, None, None)) == []
    assert list(faults("Shop", "a@shop.example", "https://shop.example/a.png")) == []


def test_every_fault_is_told_with_its_field():
    assert list(faults(" ", "shop", "http://shop.example/a.png")) == [
        Issue("merchantName", "must have a visible character"),
        Issue("merchantEmail", "must be an e-mail address"),
        Issue("iconUrl", "must be an absolute https URL"),
    ]
