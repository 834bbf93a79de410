"""Test the settings of the event sink: what is refused, and what a broker shows beforehand."""

from __future__ import annotations

import nkeys
import pytest
from florin_server.app import event_sink
from florin_server.settings import EventSinkSettings, Settings
from pydantic import ValidationError

from tests.support.nats_accounts import NatsKey
from tests.support.nats_server import serve_nats
from tests.support.x402_clients import find_free_port

HOST = "nats://broker.example:4222"


def make_settings(**values) -> Settings:
    return Settings(event_sink=EventSinkSettings(**{"url": HOST, **values}))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"url": "http://broker.example"}, "nats://host:port"),
        ({"url": "nats://"}, "nats://host:port"),
        ({"url": "nats://florin:hunter2@broker.example"}, "a URL appears in logs"),
        ({"url": "nats://hunter2@broker.example"}, "a URL appears in logs"),
        ({"url": f"{HOST}/events"}, "a host has no path"),
        ({"url": f"{HOST},nats://two:0"}, "no port 0"),
        ({"user": "florin"}, "set both `user` and `password`"),
        ({"password": "hunter2"}, "set both `user` and `password`"),
        ({"user": "florin", "password": "x", "token": "hunter2"}, "set one of `user`, `token`"),
        ({"token": "hunter2", "credentials_file": "florin.creds"}, "and `credentials_file`"),
        ({"tls_key": "key.pem"}, "set both `tls_certificate` and `tls_key`"),
        ({"subject": "florin.>"}, "pattern"),
        ({"stream": "a.b"}, "pattern"),
    ],
)
def test_invalid_settings_are_refused_with_what_to_change(values, message):
    with pytest.raises(ValidationError) as caught:
        make_settings(**values)
    # commands show the messages alone, without the values
    (text,) = (error["msg"] for error in caught.value.errors())
    assert message in text
    assert "hunter2" not in text


def test_hosts_without_a_scheme_have_that_of_the_first():
    settings = make_settings(url="tls://one:4222, two:4222")
    assert event_sink.split_hosts(settings.event_sink.url) == ["tls://one:4222", "tls://two:4222"]


def test_files_that_cannot_be_used_are_named(tmp_path):
    (tmp_path / "empty").write_text("\n")
    key = NatsKey.create(nkeys.PREFIX_BYTE_USER)
    wrong = key.seed[:-4] + ("AAAA" if key.seed[-4:] != "AAAA" else "BBBB")
    (tmp_path / "wrong").write_text(wrong)
    (tmp_path / "jwt").write_text(f"-----BEGIN NATS USER JWT-----\n{key.seed}")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for values, message in (
        ({"token_file": tmp_path / "missing"}, "the token of the event sink cannot be read"),
        ({"token_file": tmp_path / "empty"}, "the token of the event sink is empty"),
        ({"credentials_file": tmp_path / "missing"}, "the credentials of the event sink cannot"),
        ({"credentials_file": tmp_path / "empty"}, "it has no user's key"),
        ({"credentials_file": tmp_path / "jwt"}, "it has no user's key"),
        ({"credentials_file": tmp_path / "wrong"}, "the seed in it is invalid"),
        ({"credentials_file": tmp_path / "bytes"}, "it is not a text"),
        ({"tls_ca": tmp_path / "missing"}, "TLS files of the event sink cannot be used"),
        ({"tls_ca": tmp_path / "empty"}, "TLS files of the event sink cannot be used"),
    ):
        problem = event_sink.find_problem(make_settings(**values))
        assert message in problem
        assert wrong not in problem
    assert event_sink.find_problem(make_settings()) == ""
    assert event_sink.find_problem(Settings()) == ""


def test_missing_extra_is_named(monkeypatch):
    monkeypatch.setattr(event_sink, "find_spec", lambda name: None)
    assert "pip install 'florin-pay[nats]'" in event_sink.find_problem(make_settings())


async def test_broker_is_checked_without_creating_anything(tmp_path):
    url = f"nats://127.0.0.1:{find_free_port()}"
    assert (await event_sink.check_broker(make_settings(url=url))).startswith(
        "it cannot be reached"
    )
    async with serve_nats(tmp_path / "nats") as broker:
        settings = make_settings(url=broker.url, create_stream=True)
        for _ in range(2):
            assert "create stream florin_events" in await event_sink.check_broker(settings)
