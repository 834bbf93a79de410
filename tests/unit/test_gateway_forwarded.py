"""X-Forwarded-For is read from its end, and only as far as those who wrote it are trusted."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from florin_gateway.forwarded import client_of, is_near

TRUSTED = (ip_network("10.0.0.0/8"), ip_network("2001:db8:1::/48"))
PROXY = "ipv4:10.0.0.1:443"


@pytest.mark.parametrize(
    ("peer", "listed", "client"),
    [
        (PROXY, ["203.0.113.9"], "ipv4:203.0.113.9:0"),
        (PROXY, ["203.0.113.9:5123"], "ipv4:203.0.113.9:0"),
        (PROXY, ["[2001:db8:9::1]:5123"], "ipv6:[2001:db8:9::1]:0"),
        (PROXY, ["2001:db8:9::1"], "ipv6:[2001:db8:9::1]:0"),
        (PROXY, ["::ffff:203.0.113.9"], "ipv4:203.0.113.9:0"),
        # two proxies in a row, in one header or in two
        (PROXY, ["203.0.113.9, 10.0.0.2"], "ipv4:203.0.113.9:0"),
        (PROXY, ["203.0.113.9", "10.0.0.2"], "ipv4:203.0.113.9:0"),
        ("ipv6:[2001:db8:1::5]:1", ["203.0.113.9"], "ipv4:203.0.113.9:0"),
        ("ipv6:%5B2001:db8:1::5%5D:1", ["203.0.113.9"], "ipv4:203.0.113.9:0"),
        ("ipv6:[::ffff:10.0.0.1]:1", ["203.0.113.9"], "ipv4:203.0.113.9:0"),
        # what the caller itself sent stands before what the proxy added
        (PROXY, ["198.51.100.1, 203.0.113.9"], "ipv4:203.0.113.9:0"),
        (PROXY, ["10.0.0.7, 203.0.113.9"], "ipv4:203.0.113.9:0"),
        (PROXY, ["10.0.0.7, 10.0.0.8"], "ipv4:10.0.0.7:0"),
        # an entry that says nothing ends it: the proxy that wrote it is who is known
        (PROXY, ["203.0.113.9, unknown"], PROXY),
        (PROXY, ["203.0.113.9, "], PROXY),
        (PROXY, ["203.0.113.9, unknown, 10.0.0.2"], "ipv4:10.0.0.2:0"),
        (PROXY, [], PROXY),
        # who is not trusted is itself
        ("ipv4:203.0.113.1:1", ["198.51.100.1"], "ipv4:203.0.113.1:1"),
        ("unix:", ["198.51.100.1"], "unix:"),
        ("", ["198.51.100.1"], ""),
    ],
)
def test_the_client_is_whom_the_first_trusted_proxy_was_called_by(peer, listed, client):
    assert client_of(peer, listed, TRUSTED) == client


def test_nobody_is_trusted_by_default():
    assert client_of("ipv4:127.0.0.1:1", ["203.0.113.9"], ()) == "ipv4:127.0.0.1:1"


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
    assert is_near(peer) is near
