"""Test which addresses requests to user-supplied URLs can reach."""

from __future__ import annotations

import pytest
from florin_server.base.outbound.reach import AddressPolicy

PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1"]
# this machine, its network, another's relay, a broadcast, or unassigned
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
    reach = AddressPolicy()
    assert reach.is_allowed(address, 443, tls=True)
    assert reach.is_allowed(address, 8443, tls=True)
    assert not reach.is_allowed(address, 25, tls=True)
    assert not reach.is_allowed(address, 443, tls=False)


@pytest.mark.parametrize("address", NOT_PUBLIC)
def test_no_other_address_is_reached(address):
    assert not AddressPolicy().is_allowed(address, 443, tls=True)


def test_operator_networks_are_reachable_at_any_port_without_tls():
    reach = AddressPolicy.from_cidrs(["10.0.0.0/8", "fd00::/8"])
    assert reach.is_allowed("10.9.9.9", 8080, tls=False)
    assert reach.is_allowed("::ffff:10.9.9.9", 8080, tls=False)
    assert reach.is_allowed("fd00::1", 8080, tls=False)
    assert not reach.is_allowed("11.0.0.1", 8080, tls=False)
    assert not reach.is_allowed("127.0.0.1", 8080, tls=False)


def test_a_network_in_another_form_is_refused():
    with pytest.raises(ValueError, match="host bits"):
        AddressPolicy.from_cidrs(["10.0.0.1/8"])
