"""Test that proxy headers are read from the end, and only as far as their writers are trusted."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from grpc_rest_gateway.forwarded import FORWARDED, TrustedProxies, is_private_peer
from grpc_rest_gateway.proxyprotocol import (
    EXTENSION_BYTES_MAX,
    LINE_BYTES_MAX,
    ProxyPreface,
    parse_preface,
)
from hypothesis import given
from hypothesis import strategies as st

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))
PROXY = "ipv4:10.0.0.1:443"
LIST, ELEMENTS = TrustedProxies(TRUSTED), TrustedProxies(TRUSTED, FORWARDED)
CLIENT, CLIENT_6 = "ipv4:203.0.113.9:0", "ipv6:[2001:db8:9::1]:0"


@pytest.mark.parametrize(
    ("peer", "listed", "client"),
    [
        (PROXY, ["203.0.113.9"], CLIENT),
        (PROXY, ["203.0.113.9:5123"], CLIENT),
        (PROXY, ["[2001:db8:9::1]:5123"], CLIENT_6),
        (PROXY, ["[2001:db8:9::1]"], CLIENT_6),
        (PROXY, ["2001:db8:9::1"], CLIENT_6),
        (PROXY, ["::ffff:203.0.113.9"], CLIENT),
        (PROXY, ["[::ffff:203.0.113.9]:80"], CLIENT),
        # a zone is local to the proxy and not part of the address
        (PROXY, ["fe80::1%eth0"], "ipv6:[fe80::1]:0"),
        (PROXY, ["[fe80::1%25eth0]:80"], "ipv6:[fe80::1]:0"),
        # two proxies in a row, in one header or in two
        (PROXY, ["203.0.113.9, 10.0.0.2"], CLIENT),
        (PROXY, ["203.0.113.9", "10.0.0.2"], CLIENT),
        (PROXY, ["203.0.113.9,\t[2001:db8:1::7]:80 "], CLIENT),
        (PROXY, ["203.0.113.9, ::ffff:10.0.0.2"], CLIENT),
        ("ipv6:[2001:db8:1::5]:1", ["203.0.113.9"], CLIENT),
        ("ipv6:%5B2001:db8:1::5%5D:1", ["203.0.113.9"], CLIENT),
        ("ipv6:[::ffff:10.0.0.1]:1", ["203.0.113.9"], CLIENT),
        # the caller's own entries come before the proxy's
        (PROXY, ["198.51.100.1, 203.0.113.9"], CLIENT),
        (PROXY, ["198.51.100.1", "203.0.113.9"], CLIENT),
        (PROXY, ["10.0.0.7, 203.0.113.9"], CLIENT),
        (PROXY, ["10.0.0.7, 10.0.0.8"], "ipv4:10.0.0.7:0"),
        (PROXY, ["10.0.0.9, " * 1600 + "203.0.113.9"], CLIENT),
        (PROXY, ["10.0.0.9, " * 1600 + "10.0.0.2"], "ipv4:10.0.0.9:0"),
        # reading stops at an entry without an address: its proxy is the client
        (PROXY, ["203.0.113.9, unknown"], PROXY),
        (PROXY, ["203.0.113.9, "], PROXY),
        (PROXY, ["203.0.113.9, unknown, 10.0.0.2"], "ipv4:10.0.0.2:0"),
        (PROXY, ["203.0.113.9 203.0.113.10"], PROXY),
        (PROXY, ["203.0.113.999"], PROXY),
        (PROXY, ["0203.0.113.9"], PROXY),
        (PROXY, ["%32%30%33.0.113.9"], PROXY),
        (PROXY, ["[203.0.113.9]"], PROXY),
        (PROXY, ["[2001:db8:9::1"], PROXY),
        (PROXY, ["[2001:db8:9::1]203.0.113.9"], PROXY),
        (PROXY, ["3405803785"], PROXY),
        (PROXY, ["203.0.113.9\x00"], PROXY),
        (PROXY, ["for=203.0.113.9"], PROXY),
        (PROXY, ["1" * 16_000], PROXY),
        (PROXY, [], PROXY),
        # an untrusted peer is the client
        ("ipv4:203.0.113.1:1", ["198.51.100.1"], "ipv4:203.0.113.1:1"),
        ("ipv4:203.0.113.1:1", ["198.51.100.1, 10.0.0.1"], "ipv4:203.0.113.1:1"),
        ("unix:", ["198.51.100.1"], "unix:"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_the_client_is_whom_the_first_trusted_proxy_was_called_by(peer, listed, client):
    assert LIST.get_client(peer, listed) == client


@pytest.mark.parametrize(
    ("listed", "client"),
    [
        (["for=203.0.113.9"], CLIENT),
        (["For=203.0.113.9;proto=https;by=10.0.0.1"], CLIENT),
        (['proto=https ; for="203.0.113.9:5123"'], CLIENT),
        (['for="[2001:db8:9::1]:5123"'], CLIENT_6),
        # RFC 7239 forbids this form, but some proxies write it
        (["for=203.0.113.9:5123"], CLIENT),
        (["for=[2001:db8:9::1]"], CLIENT_6),
        (['for="[::ffff:203.0.113.9]"'], CLIENT),
        (['for="\\2\\0\\3.0.113.9"'], CLIENT),
        (["for=203.0.113.9, for=10.0.0.2"], CLIENT),
        (["for=203.0.113.9", 'by="10.0.0.1, 10.0.0.9";for=10.0.0.2'], CLIENT),
        (["for=198.51.100.1, for=203.0.113.9"], CLIENT),
        # reading stops at an element without an address
        (["for=203.0.113.9, for=unknown"], PROXY),
        (["for=203.0.113.9, for=_hidden"], PROXY),
        (["for=203.0.113.9, by=10.0.0.1"], PROXY),
        (["for=203.0.113.9,"], PROXY),
        ([""], PROXY),
        # an attacker tries to hide the proxy's entry in an unclosed quote
        (['for=198.51.100.1;x="', 'for="203.0.113.9"'], PROXY),
        (['for=198.51.100.1;x="', "for=203.0.113.9"], PROXY),
        (['for=198.51.100.1;x="\\', "for=203.0.113.9"], PROXY),
        (["for=198.51.100.1;", "for=203.0.113.9"], CLIENT),
        (["for=198.51.100.1;for=", "for=203.0.113.9"], PROXY),
        (["for=203.0.113.9;for=198.51.100.1"], PROXY),
        (["for=203.0.113.9 for=198.51.100.1"], PROXY),
        (["for =203.0.113.9"], PROXY),
        (["203.0.113.9"], PROXY),
        (["=" * 16_000], PROXY),
        (['"' * 16_000], PROXY),
        (["\\" * 16_000], PROXY),
        ([";" * 16_000 + "for=203.0.113.9"], CLIENT),
        (["for=1," * 2_700 + "for=203.0.113.9"], CLIENT),
        (['a="\\"' * 4_000], PROXY),
    ],
)
def test_forwarded_is_read_whole_or_not_at_all(listed, client):
    assert ELEMENTS.get_client(PROXY, listed) == client
    assert ELEMENTS.get_client("ipv4:203.0.113.1:1", listed) == "ipv4:203.0.113.1:1"


@given(st.text(alphabet='for=by;,:"\\[]% 0123456789abcdef._\t', max_size=200))
def test_forwarded_entries_before_the_trusted_proxy_are_ignored(text):
    assert LIST.get_client(PROXY, [text, "203.0.113.9"]) == CLIENT
    assert ELEMENTS.get_client(PROXY, [text, "for=203.0.113.9"]) in {CLIENT, PROXY}
    assert ELEMENTS.get_client(PROXY, [text, 'for="203.0.113.9:80";by="[2001:db8:1::1]"']) in {
        CLIENT,
        PROXY,
    }


def test_no_proxy_is_trusted_by_default():
    assert TrustedProxies().get_client("ipv4:127.0.0.1:1", ["203.0.113.9"]) == "ipv4:127.0.0.1:1"
    assert not TrustedProxies().is_trusted("ipv4:127.0.0.1:1")


@pytest.mark.parametrize(
    ("peer", "near"),
    [
        ("ipv4:127.0.0.1:1", True),
        ("ipv4:192.168.1.1:1", True),
        ("ipv6:[fd00::1]:1", True),
        ("ipv4:8.8.8.8:1", False),
        ("unix:", False),
    ],
)
def test_where_a_proxy_may_be(peer, near):
    assert is_private_peer(peer) is near


# the PROXY protocol

SIGNED = b"\r\n\r\n\x00\r\nQUIT\n"
FOUR = bytes([203, 0, 113, 9, 10, 0, 0, 1]) + (5123).to_bytes(2) + (443).to_bytes(2)
SIX = bytes.fromhex("20010db8000900000000000000000001" + "00" * 16) + b"\x14\x03\x01\xbb"


def binary(command: int, family: int, more: bytes) -> bytes:
    return SIGNED + bytes([command, family]) + len(more).to_bytes(2) + more


@pytest.mark.parametrize(
    ("preface", "client"),
    [
        (b"PROXY TCP4 203.0.113.9 10.0.0.1 5123 443\r\n", ("203.0.113.9", 5123)),
        (b"PROXY TCP6 2001:db8:9::1 2001:db8:1::1 5123 443\r\n", ("2001:db8:9::1", 5123)),
        (b"PROXY TCP6 ::ffff:203.0.113.9 ::1 5123 443\r\n", ("203.0.113.9", 5123)),
        (b"PROXY UNKNOWN\r\n", None),
        (b"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", None),
        (binary(0x21, 0x11, FOUR), ("203.0.113.9", 5123)),
        (binary(0x21, 0x11, FOUR + b"\x03\x00\x04abcd"), ("203.0.113.9", 5123)),
        (binary(0x21, 0x21, SIX), ("2001:db8:9::1", 5123)),
        # the proxy's health check, or a caller that it cannot name
        (binary(0x20, 0x00, b""), None),
        (binary(0x20, 0x11, FOUR), None),
        (binary(0x21, 0x31, b"\0" * 216), None),
    ],
)
def test_proxy_protocol_preface_names_the_client(preface, client):
    assert parse_preface(preface + b"GET / HTTP/1.1\r\n") == ProxyPreface(len(preface), client)
    for size in range(len(preface)):
        assert parse_preface(preface[:size]) is None


@pytest.mark.parametrize(
    "preface",
    [
        b"GET / HTTP/1.1\r\n",
        b"proxy TCP4 203.0.113.9 10.0.0.1 5123 443\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 5123\r\n",
        b"PROXY TCP4  203.0.113.9 10.0.0.1 5123 443\r\n",
        b"PROXY TCP4 2001:db8:9::1 2001:db8:1::1 5123 443\r\n",
        b"PROXY TCP6 203.0.113.9 10.0.0.1 5123 443\r\n",
        b"PROXY TCP4 203.0.113.999 10.0.0.1 5123 443\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 -1 443\r\n",
        b"PROXY TCP4 \xff 10.0.0.1 1 443\r\n",
        b"PROXY UDP4 203.0.113.9 10.0.0.1 5123 443\r\n",
        b"PROXY \r\n",
        b"PROXY " + b"A" * LINE_BYTES_MAX,
        binary(0x11, 0x11, FOUR),
        binary(0x22, 0x11, FOUR),
        binary(0x21, 0x11, FOUR[:-1]),
        binary(0x21, 0x21, FOUR),
        SIGNED + b"\x21\x11" + (EXTENSION_BYTES_MAX + 1).to_bytes(2),
    ],
)
def test_another_beginning_is_refused(preface):
    with pytest.raises(ValueError, match=r"PROXY header|does not appear to be|codec"):
        parse_preface(preface)


@given(st.binary(max_size=300))
def test_bytes_that_mean_nothing_are_refused_or_waited_for(data):
    for start in (data, b"PROXY " + data, SIGNED + data):
        try:
            preface = parse_preface(start)
        except ValueError:
            continue
        assert preface is None or preface.size <= len(start)
        if preface is None:
            assert len(start) < 16 + EXTENSION_BYTES_MAX
