"""Test certificate files: problems are reported, and only valid certificates are loaded."""

from __future__ import annotations

import logging
import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from florin_server.app.home import SetupError
from florin_server.app.servers.addresses import check_bind
from florin_server.app.servers.certificates import WARN_DAYS, CertificateStore
from florin_server.app.servers.public_address import (
    check_reachable,
    find_link_problem,
    list_conditions,
)
from florin_server.domain.conditions import ConditionName
from florin_server.settings import Settings

from tests.support.authority import SINCE, CertificateAuthority

NOW = SINCE + timedelta(days=100)
NAME = "pay.example"
EXPIRED, EXPIRING = ConditionName.CERTIFICATE_EXPIRED, ConditionName.CERTIFICATE_EXPIRING


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> CertificateAuthority:
    return CertificateAuthority(tmp_path_factory.mktemp("pem"), "theirs")


class Shop:
    """Certificates for one name, and the files that hold them."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.now = CertificateAuthority(folder, "ours"), NOW
        self.certificate, self.key = self.authority.issue(NAME)

    def settings(self, **more: Any) -> Settings:
        named = {"tls_certificate": self.certificate, "tls_key": self.key}
        return Settings(home=self.certificate.parent / "home", **{**named, **more})

    def read(self, **more: Any) -> CertificateStore:
        certificates = CertificateStore.from_settings(self.settings(**more), lambda: self.now)
        assert certificates is not None
        return certificates

    def renew(self, *, until: datetime = NOW + timedelta(days=90)) -> None:
        self.authority.issue(NAME, until=until)


@pytest.fixture
def shop(tmp_path) -> Shop:
    return Shop(tmp_path)


def test_without_a_certificate_there_is_none(tmp_path):
    assert CertificateStore.from_settings(Settings(home=tmp_path)) is None
    assert (
        CertificateStore.from_settings(Settings(home=tmp_path, proxy_header="proxy-protocol"))
        is None
    )


def test_parts_of_it_are_refused(shop):
    for more, why in (
        ({"tls_key": None}, "needs its key"),
        ({"tls_certificate": None}, "needs its key"),
        ({"tls_certificate": None, "tls_key": None, "grpc_client_ca": shop.key}, "GRPC_CLIENT_CA"),
        ({"proxy_header": "proxy-protocol"}, "works with plain text only"),
    ):
        with pytest.raises(SetupError, match=why):
            shop.read(**more)


def _no_key(shop: Shop) -> None:
    shop.key.write_bytes(b"no")


def _encrypted(shop: Shop) -> None:
    key = serialization.load_pem_private_key(shop.key.read_bytes(), None)
    locked = serialization.BestAvailableEncryption(b"secret")
    form = serialization.PrivateFormat.PKCS8
    shop.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, locked))


def _cut(shop: Shop) -> None:
    shop.certificate.write_bytes(shop.certificate.read_bytes()[:200])


FAULTS = [
    (_no_key, r"ours-pay\.example\.key contains no private key in PEM"),
    (_encrypted, r"ours-pay\.example\.key is encrypted"),
    (_cut, r"ours-pay\.example\.pem contains no certificate in PEM"),
    (lambda shop: shop.key.chmod(0o604), r"other users can read .*\.key: chmod o= .*\.key"),
    (lambda shop: shop.key.unlink(), r"\.key cannot be read: No such file"),
    (lambda shop: shop.certificate.unlink(), r"\.pem cannot be read: No such file"),
    (lambda shop: (shop.key.unlink(), shop.key.mkdir()), r"\.key cannot be read: Is a directory"),
]


@pytest.mark.parametrize(("breaks", "why"), FAULTS)
def test_unusable_certificate_file_is_refused_at_startup(shop, breaks, why):
    breaks(shop)
    with pytest.raises(SetupError, match=why):
        shop.read()


def test_key_of_another_certificate_is_refused_at_startup(shop, theirs):
    _, other = theirs.issue(NAME)
    with pytest.raises(SetupError, match=r"theirs-.*\.key is not the key of .*ours-.*\.pem"):
        shop.read(tls_key=other)
    with pytest.raises(SetupError, match="no certificate in PEM"):
        shop.read(grpc_client_ca=other)


def test_a_group_may_read_the_key(shop):
    # the permissions with which clusters mount secrets
    shop.key.chmod(0o440)
    assert shop.read().pair.names == (NAME,)


def test_expired_certificate_is_served_and_reported(shop, caplog):
    shop.renew(until=NOW - timedelta(days=3))
    output = f"the certificate of {NAME} expired on 2026-04-08 00:00 UTC"
    result = shop.read()
    assert output in caplog.text
    assert result.list_conditions() == {EXPIRED: output, EXPIRING: ""}
    shop.renew()
    assert result.reload_if_changed()
    assert result.list_conditions() == {EXPIRED: "", EXPIRING: ""}
    shop.now = SINCE - timedelta(days=1)
    assert "is not valid before 2026-01-01" in result.list_conditions()[EXPIRED]


def test_days_left_of_a_certificate_are_reported(shop):
    shop.renew(until=NOW + timedelta(days=WARN_DAYS))
    result = shop.read()
    assert result.pair.count_days_left(NOW) == WARN_DAYS
    assert not any(result.list_conditions().values())
    shop.now += timedelta(hours=1)
    output = f"{WARN_DAYS - 1} days are left until the certificate expires: {NAME}"
    assert result.list_conditions() == {EXPIRED: "", EXPIRING: output}


def test_renewed_certificate_is_loaded_once(shop, caplog):
    caplog.set_level(logging.INFO)
    result = shop.read()
    before = result.pair
    assert not result.reload_if_changed()
    shop.renew()
    assert result.reload_if_changed()
    assert result.pair.chain == shop.certificate.read_bytes() != before.chain
    assert result.pair.context is not before.context
    assert (
        "new connections use the certificate of pay.example, valid until 2026-07-10" in caplog.text
    )
    assert not result.reload_if_changed()
    # rewritten with the same content
    shop.certificate.write_bytes(shop.certificate.read_bytes())
    assert not result.reload_if_changed()


@pytest.mark.parametrize(("breaks", "why"), FAULTS)
def test_unusable_renewal_leaves_the_current_certificate_in_use(shop, breaks, why, caplog):
    result = shop.read()
    before = result.pair
    breaks(shop)
    for _ in range(3):
        assert not result.reload_if_changed()
    assert result.pair is before
    assert caplog.text.count("Florin still uses the former certificate") == 1
    assert result.list_conditions()[EXPIRING]
    if shop.key.is_dir():
        shop.key.rmdir()
    shop.renew()
    assert result.reload_if_changed()
    assert result.list_conditions()[EXPIRING] == ""


def test_half_of_a_renewal_is_waited_out(shop, caplog):
    result = shop.read()
    old = shop.key.read_bytes()
    shop.renew()
    new = shop.key.read_bytes()
    shop.key.write_bytes(old)
    assert not result.reload_if_changed()
    assert "is not the key of" in caplog.text
    shop.key.write_bytes(new)
    assert result.reload_if_changed()


def test_expired_renewal_does_not_replace_a_valid_certificate(shop, caplog):
    result = shop.read()
    shop.renew(until=NOW - timedelta(days=1))
    assert not result.reload_if_changed()
    assert "former certificate: the certificate of pay.example expired on 2026-04-10" in caplog.text


def test_public_bind_requires_a_certificate(shop, tmp_path):
    check_bind(shop.settings(host="0.0.0.0"))
    with pytest.raises(SetupError, match="FLORIN_TLS_CERTIFICATE"):
        check_bind(Settings(home=tmp_path, host="0.0.0.0"))


def test_old_versions_of_tls_are_not_spoken(shop):
    context = shop.read().context
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


# the base address of links


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ("https://pay.shop.com", ""),
        ("https://93.184.216.34:8443", ""),
        ("http://pay.shop.com", "anyone on the network path can change"),
        ("https://127.0.0.1:8080", "cannot reach"),
        ("https://localhost", "cannot reach"),
        ("https://pay.localhost", "cannot reach"),
        ("https://10.0.0.7", "cannot reach"),
        ("https://[::1]:8080", "cannot reach"),
        ("https://[fe80::1%25eth0]", "cannot reach"),
        ("https://0.0.0.0", "cannot reach"),
    ],
)
def test_live_payment_links_must_be_reachable_by_buyers(links, why):
    assert why in find_link_problem(links)
    assert bool(find_link_problem(links)) is bool(why)


def test_without_a_live_chain_links_may_lead_here(tmp_path):
    conditions = list_conditions(Settings(home=tmp_path), "http://127.0.0.1:8080", None)
    assert conditions == {ConditionName.PAY_URL_LOCAL: ""}


async def test_unresolvable_name_is_reported():
    assert "the name pay.invalid is not found" in await check_reachable("https://pay.invalid")
    assert "cannot be reached from this machine" in await check_reachable("http://127.0.0.1:1")
