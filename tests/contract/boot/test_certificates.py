"""Certificates in files: what is wrong with them is told, and only good ones are taken."""

from __future__ import annotations

import logging
import ssl
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from florin_server.boot.home import Refused
from florin_server.boot.servers.addresses import check_bind
from florin_server.boot.servers.certificates import WARN_DAYS, Certificates
from florin_server.boot.servers.public_address import conditions, problem, unreachable
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName

from tests.support.authority import SINCE, Authority

NOW = SINCE + timedelta(days=100)
NAME = "pay.example"
EXPIRED, EXPIRING = ConditionName.CERTIFICATE_EXPIRED, ConditionName.CERTIFICATE_EXPIRING


@pytest.fixture(scope="module")
def theirs(tmp_path_factory) -> Authority:
    return Authority(tmp_path_factory.mktemp("pem"), "theirs")


class Shop:
    """Certificates of one name, and the files that they are read from."""

    def __init__(self, folder: Path) -> None:
        self.authority, self.now = Authority(folder, "ours"), NOW
        self.certificate, self.key = self.authority.issue(NAME)

    def settings(self, **more: Any) -> Settings:
        named = {"tls_certificate": self.certificate, "tls_key": self.key}
        return Settings(home=self.certificate.parent / "home", **{**named, **more})

    def read(self, **more: Any) -> Certificates:
        found = Certificates.of(self.settings(**more), lambda: self.now)
        assert found is not None
        return found

    def renew(self, *, until: datetime = NOW + timedelta(days=90)) -> None:
        self.authority.issue(NAME, until=until)


@pytest.fixture
def shop(tmp_path) -> Shop:
    return Shop(tmp_path)


def test_without_a_certificate_there_is_none(tmp_path):
    assert Certificates.of(Settings(home=tmp_path)) is None
    assert Certificates.of(Settings(home=tmp_path, proxy_header="proxy-protocol")) is None


def test_parts_of_it_are_refused(shop):
    for more, why in (
        ({"tls_key": None}, "needs its key"),
        ({"tls_certificate": None}, "needs its key"),
        ({"tls_certificate": None, "tls_key": None, "grpc_client_ca": shop.key}, "GRPC_CLIENT_CA"),
        ({"proxy_header": "proxy-protocol"}, "in front of plain text only"),
    ):
        with pytest.raises(Refused, match=why):
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
    (_no_key, r"ours-pay\.example\.key holds no private key in PEM"),
    (_encrypted, r"ours-pay\.example\.key is encrypted"),
    (_cut, r"ours-pay\.example\.pem holds no certificate in PEM"),
    (lambda shop: shop.key.chmod(0o604), r"others can read .*\.key: chmod o= .*\.key"),
    (lambda shop: shop.key.unlink(), r"\.key cannot be read: No such file"),
    (lambda shop: shop.certificate.unlink(), r"\.pem cannot be read: No such file"),
    (lambda shop: (shop.key.unlink(), shop.key.mkdir()), r"\.key cannot be read: Is a directory"),
]


@pytest.mark.parametrize(("breaks", "why"), FAULTS)
def test_what_is_wrong_with_a_file_is_told_at_the_start(shop, breaks, why):
    breaks(shop)
    with pytest.raises(Refused, match=why):
        shop.read()


def test_a_key_of_another_certificate_is_told(shop, theirs):
    _, other = theirs.issue(NAME)
    with pytest.raises(Refused, match=r"theirs-.*\.key is not the key of .*ours-.*\.pem"):
        shop.read(tls_key=other)
    with pytest.raises(Refused, match="no certificate in PEM"):
        shop.read(grpc_client_ca=other)


def test_a_group_may_read_the_key(shop):
    # as secrets of a cluster are mounted
    shop.key.chmod(0o440)
    assert shop.read().pair.names == (NAME,)


def test_an_expired_one_is_shown_and_told(shop, caplog):
    shop.renew(until=NOW - timedelta(days=3))
    told = f"the certificate of {NAME} expired on 2026-04-08 00:00 UTC"
    found = shop.read()
    assert told in caplog.text
    assert found.conditions() == {EXPIRED: told, EXPIRING: ""}
    shop.renew()
    assert found.look()
    assert found.conditions() == {EXPIRED: "", EXPIRING: ""}
    shop.now = SINCE - timedelta(days=1)
    assert "is not valid before 2026-01-01" in found.conditions()[EXPIRED]


def test_days_that_are_left_are_told(shop):
    shop.renew(until=NOW + timedelta(days=WARN_DAYS))
    found = shop.read()
    assert found.pair.days(NOW) == WARN_DAYS
    assert not any(found.conditions().values())
    shop.now += timedelta(hours=1)
    told = f"{WARN_DAYS - 1} days are left of the certificate of {NAME}"
    assert found.conditions() == {EXPIRED: "", EXPIRING: told}


def test_a_new_one_is_taken_once(shop, caplog):
    caplog.set_level(logging.INFO)
    found = shop.read()
    before = found.pair
    assert not found.look()
    shop.renew()
    assert found.look()
    assert found.pair.chain == shop.certificate.read_bytes() != before.chain
    assert found.pair.context is not before.context
    assert "new connections get the certificate of pay.example until 2026-07-10" in caplog.text
    assert not found.look()
    # written again, and the same
    shop.certificate.write_bytes(shop.certificate.read_bytes())
    assert not found.look()


@pytest.mark.parametrize(("breaks", "why"), FAULTS)
def test_one_that_cannot_be_used_changes_nothing(shop, breaks, why, caplog):
    found = shop.read()
    before = found.pair
    breaks(shop)
    for _ in range(3):
        assert not found.look()
    assert found.pair is before
    assert caplog.text.count("the certificate from before is still shown") == 1
    assert found.conditions()[EXPIRING]
    if shop.key.is_dir():
        shop.key.rmdir()
    shop.renew()
    assert found.look()
    assert found.conditions()[EXPIRING] == ""


def test_half_of_a_renewal_is_waited_out(shop, caplog):
    found = shop.read()
    old = shop.key.read_bytes()
    shop.renew()
    new = shop.key.read_bytes()
    shop.key.write_bytes(old)
    assert not found.look()
    assert "is not the key of" in caplog.text
    shop.key.write_bytes(new)
    assert found.look()


def test_an_expired_one_does_not_take_the_place_of_a_good_one(shop, caplog):
    found = shop.read()
    shop.renew(until=NOW - timedelta(days=1))
    assert not found.look()
    assert "still shown: the certificate of pay.example expired on 2026-04-10" in caplog.text


def test_only_a_certificate_lets_others_reach_the_listeners(shop, tmp_path):
    check_bind(shop.settings(host="0.0.0.0"))
    with pytest.raises(Refused, match="FLORIN_TLS_CERTIFICATE"):
        check_bind(Settings(home=tmp_path, host="0.0.0.0"))


def test_old_versions_of_tls_are_not_spoken(shop):
    context = shop.read().context
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


# the address of links


@pytest.mark.parametrize(
    ("links", "why"),
    [
        ("https://pay.shop.com", ""),
        ("https://93.184.216.34:8443", ""),
        ("http://pay.shop.com", "others on the way can change"),
        ("https://127.0.0.1:8080", "cannot reach"),
        ("https://localhost", "cannot reach"),
        ("https://pay.localhost", "cannot reach"),
        ("https://10.0.0.7", "cannot reach"),
        ("https://[::1]:8080", "cannot reach"),
        ("https://[fe80::1%25eth0]", "cannot reach"),
        ("https://0.0.0.0", "cannot reach"),
    ],
)
def test_links_of_live_payments_are_for_others(links, why):
    assert why in problem(links)
    assert bool(problem(links)) is bool(why)


def test_without_a_live_chain_links_may_lead_here(tmp_path):
    told = conditions(Settings(home=tmp_path), "http://127.0.0.1:8080", None)
    assert told == {ConditionName.PAY_URL_LOCAL: ""}


async def test_a_name_that_nobody_knows_is_told():
    assert "the name pay.invalid is not found" in await unreachable("https://pay.invalid")
    assert "is not reached from this machine" in await unreachable("http://127.0.0.1:1")
