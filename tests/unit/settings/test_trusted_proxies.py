"""Test which networks of proxies the settings accept."""

from __future__ import annotations

from ipaddress import ip_network

import pytest
from florin_server.settings import Settings
from pydantic import ValidationError


@pytest.mark.parametrize("network", ["0.0.0.0/0", "::/0", "::ffff:0:0/96"])
def test_everybody_cannot_be_trusted(tmp_path, network):
    with pytest.raises(ValidationError, match="Florin would trust every caller"):
        Settings(home=tmp_path, trusted_proxies=(network,))


def test_mapped_ipv6_network_is_read_as_ipv4(tmp_path):
    chosen = Settings(home=tmp_path, trusted_proxies=("::ffff:10.0.0.0/104",))
    assert chosen.trusted_proxies == (ip_network("10.0.0.0/8"),)
