"""URLs that merchants give."""

from __future__ import annotations

import pytest
from florin_server.domain.urls import URL_CHARS_MAX, is_https_url, with_parameter


@pytest.mark.parametrize(
    ("url", "longer"),
    [
        ("https://shop.example", "https://shop.example?payment_id=pay_1"),
        ("https://shop.example/", "https://shop.example/?payment_id=pay_1"),
        ("https://shop.example/?", "https://shop.example/?payment_id=pay_1"),
        ("https://shop.example/?a=1", "https://shop.example/?a=1&payment_id=pay_1"),
        ("https://shop.example/?a=1&", "https://shop.example/?a=1&payment_id=pay_1"),
        ("https://shop.example/#b", "https://shop.example/?payment_id=pay_1#b"),
        ("https://shop.example/?a=%20+1#b?c", "https://shop.example/?a=%20+1&payment_id=pay_1#b?c"),
        ("https://shop.example/#", "https://shop.example/?payment_id=pay_1#"),
        ("https://shop.example/X", "https://shop.example/X?payment_id=pay_1"),
    ],
)
def test_a_parameter_is_added_and_all_else_stays(url, longer):
    assert with_parameter(url, "payment_id", "pay_1") == longer


SHOP = "https://shop.example/"


@pytest.mark.parametrize(
    "url",
    [
        SHOP,
        "https://a",
        "HTTPS://Shop.Example",
        "https://shop.example:1",
        "https://shop.example:65535/a?b=!~#c",
        "https://shop.example:",
        "https://192.0.2.1/",
        "https://[2001:db8::1]:8443/",
        SHOP + "a" * (URL_CHARS_MAX - len(SHOP)),
    ],
)
def test_a_url_that_every_parser_reads_alike(url):
    assert is_https_url(url)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "/",
        "https:",
        "https://",
        "https:///a",
        "https://:443/",
        "//shop.example",
        "http://shop.example",
        "javascript://shop.example",
        "shop.example",
        "https://shop.example:0",
        "https://shop.example:65536",
        "https://shop.example:x",
        "https://[shop.example",
        "https://me@shop.example",
        "https://@shop.example",
        "https://me:secret@shop.example",
        "https://:secret@shop.example",
        "https://shop.example\\a",
        "https://shop.example/a b",
        " https://shop.example",
        "https://shop.example/\n",
        "https://shop.example/\x1f",
        "https://shop.example/\x7f",
        "https://shöp.example",
        SHOP + "a" * (URL_CHARS_MAX - len(SHOP) + 1),
    ],
)
def test_a_url_that_some_parser_reads_otherwise(url):
    assert not is_https_url(url)
