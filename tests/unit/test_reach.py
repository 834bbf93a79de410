"""Which addresses requests may lead to that others name."""

from __future__ import annotations

import pytest
from florin_server.outbound.reach import Reach

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"]
# each of them is this machine, its network, another's relay, everybody, or nobody
NOT_PUBLIC = [
    "0.0.0.0",
    "10.1.2.3",
    "100.64.0.1",
    "127.0.0.1",
    "127.1.2.3",
    "169.254.169.254",
    "172.16.0.1",
    "192.0.0.8",
    "192.168.1.1",
    "192.88.99.1",
    "198.18.0.1",
    "203.0.113.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::1",
    "::7f00:1",
    "::ffff:127.0.0.1",
    "::ffff:169.254.169.254",
    "64:ff9b::7f00:1",
    "64:ff9b:1::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "fc00::1",
    "fd00:ec2::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "no address",
    "127.1",
    "",
]


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_reached_by_tls_at_the_usual_ports(address):
    reach = Reach()
    assert reach.allows(address, 443, tls=True)
    assert reach.allows(address, 8443, tls=True)
    assert not reach.allows(address, 25, tls=True)
    assert not reach.allows(address, 443, tls=False)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_other_address_is_reached(address):
    assert not Reach().allows(address, 443, tls=True)


def test_what_the_operator_lists_is_reached_at_any_port_and_without_tls():
    reach = Reach.of(["10.0.0.0/8", "fd00::/8"])
    assert reach.allows("10.9.9.9", 8080, tls=False)
    assert reach.allows("::ffff:10.9.9.9", 8080, tls=False)
    assert reach.allows("fd00::1", 8080, tls=False)
    assert not reach.allows("11.0.0.1", 8080, tls=False)
    assert not reach.allows("127.0.0.1", 8080, tls=False)


def test_a_network_in_another_form_is_refused():
    with pytest.raises(ValueError, match="host bits"):
        Reach.of(["10.0.0.1/8"])
