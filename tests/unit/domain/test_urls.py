"""Test URLs that merchants set."""

from __future__ import annotations

import pytest
from florin_server.domain.urls import (
    URL_CHARS_MAX,
    UrlError,
    add_query_parameter,
    canonicalize_url,
    is_https_url,
    to_ascii_url,
)
from yarl import URL


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
    assert add_query_parameter(url, "payment_id", "pay_1") == longer


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


@pytest.mark.parametrize(
    "spelling",
    [
        "https://bücher.example/straße",
        "https://BÜCHER.example/straße",
        "HTTPS://xn--bcher-kva.example/stra%c3%9fe",
        "https://XN--BCHER-KVA.EXAMPLE:443/stra%C3%9Fe",
        "https://bücher.example./straße",
        "https://bücher。example/straße",
        "https://bu\u0308cher.example/straße",
        "https://bücher.example:/straße#top",
        "https://bücher.example:0443/./a/../stra%C3%9f%65",
        "https://bücher.example/%2E/straße?",
    ],
)
def test_spellings_of_a_url_have_the_same_canonical_form(spelling):
    assert canonicalize_url(spelling) == "https://xn--bcher-kva.example/stra%C3%9Fe"


@pytest.mark.parametrize(
    ("url", "canonical"),
    [
        ("https://shop.example", "https://shop.example/"),
        ("https://shop.example?a=ü", "https://shop.example/?a=%C3%BC"),
        ("https://shop.example:8443/a", "https://shop.example:8443/a"),
        ("https://shop.example:80/a", "https://shop.example:80/a"),
        # encoding a reserved character changes its meaning
        ("https://shop.example/a%2fb", "https://shop.example/a%2Fb"),
        ("https://shop.example/a%3Fb?c%26d", "https://shop.example/a%3Fb?c%26d"),
        ("https://shop.example/%zz%", "https://shop.example/%25zz%25"),
        ("https://shop.example/a|b<c>", "https://shop.example/a%7Cb%3Cc%3E"),
        ("https://shop.example/../../a/b/..", "https://shop.example/a/"),
        ("https://shop.example//a//", "https://shop.example//a//"),
        ("https://faß.example/", "https://xn--fa-hia.example/"),
        ("https://a_b.example/", "https://a_b.example/"),
        ("https://[2001:DB8:0:0::1]/", "https://[2001:db8::1]/"),
        ("https://[::1]:8443/", "https://[::1]:8443/"),
        ("https://192.0.2.1./", "https://192.0.2.1/"),
    ],
)
def test_canonical_url_is_stable(url, canonical):
    assert canonicalize_url(url) == canonical
    assert canonicalize_url(canonical) == canonical
    # the client sends the same URL
    assert str(URL(canonical)) == canonical


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("https://shop.example/a b", "spaces"),
        ("https://shop.example\\a", "backslashes"),
        ("https://shop.example/\ud800", "valid Unicode"),
        ("https://me@bücher.example/", "without a user"),
        ("https://@shop.example/", "without a user"),
        ("http://shop.example/", "absolute https URL"),
        ("https:///a", "absolute https URL"),
        ("//bücher.example/", "absolute https URL"),
        ("https://bücher.example:x/", "absolute https URL"),
        ("https://shop.example:0/", "port above 0"),
        ("https://\u202ebücher.example/", "internationalized"),
        ("https://xn--a.example/", "internationalized"),
        ("https://a..example/", "invalid characters"),
        ("https://%65xample.com/", "invalid characters"),
        ("https://shop<.example/", "invalid characters"),
        ("https://" + "a" * 64 + ".example/", "invalid characters"),
        ("https://127.1/", "IPv4"),
        ("https://0x7f.1/", "IPv4"),
        ("https://2130706433/", "IPv4"),
        ("https://017.0.0.1/", "IPv4"),
        ("https://１２７.1/", "IPv4"),
        ("https://[::g]/", "https URL|IPv6"),
        ("https://shop.example/" + "ü" * 400, "percent-encoded"),
        ("https://shop.example/" + "a" * URL_CHARS_MAX, "at most"),
    ],
)
def test_a_url_that_cannot_be_converted_has_a_reason(url, reason):
    with pytest.raises(UrlError, match=reason):
        canonicalize_url(url)


def test_http_is_allowed_on_request():
    assert canonicalize_url("http://Shop.example:80", allow_http=True) == "http://shop.example/"
    assert canonicalize_url("http://a.example:443", allow_http=True) == "http://a.example:443/"


@pytest.mark.parametrize(
    ("url", "ascii_"),
    [
        ("https://Shop.example/%7ea?b#c", "https://Shop.example/%7ea?b#c"),
        ("https://bücher.example/danke?name=Jürgen#früh",
         "https://xn--bcher-kva.example/danke?name=J%C3%BCrgen#fr%C3%BCh"),
        ("https://shop.example:8443/ü/../%7e", "https://shop.example:8443/%C3%BC/../%7e"),
        ("https://bücher.example?ü", "https://xn--bcher-kva.example?%C3%BC"),
        ("https://bücher.example", "https://xn--bcher-kva.example"),
    ],
)  # fmt: skip
def test_buyer_url_is_converted_to_ascii_and_otherwise_unchanged(url, ascii_):
    assert to_ascii_url(url) == ascii_
    assert is_https_url(ascii_)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://bücher.example/", "absolute https URL"),
        ("https://me:secret@bücher.example/", "without a user"),
        ("https://bücher.example/a b", "spaces"),
        ("https://shop.example/" + "ü" * 400, "at most"),
        ("", "absolute https URL"),
    ],
)
def test_a_url_of_a_buyer_that_cannot_be_converted_has_a_reason(url, reason):
    with pytest.raises(UrlError, match=reason):
        to_ascii_url(url)
