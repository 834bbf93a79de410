"""Sessions of a console: whose cookies open where, and what a form is held against."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from florin_gateway.plain import PlainRequest
from florin_server.clock import TestClock
from florin_server.web.console.session import Sessions
from florin_server.web.console.site import back_of, is_own

KEY, OTHER = b"k" * 32, b"o" * 32
HOST = f"{'a' * 32}.console.localhost"
NUMBERS = itertools.count(1)


def randbytes(count: int) -> bytes:
    return next(NUMBERS).to_bytes(count)


def sessions(name: str = "console", key: bytes = KEY, clock: TestClock | None = None) -> Sessions:
    return Sessions(name, key, clock or TestClock(1_800_000_000_000_000), randbytes)


def asked(scheme: str = "http", **headers: str) -> PlainRequest:
    headers.setdefault("host", HOST)
    told = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return PlainRequest("GET", {}, (), told, b"", "ipv4:127.0.0.1:1", scheme, "/console")


def cookie_of(known: Sessions, scheme: str = "http") -> str:
    _, told = known.given(known.begin("Key00001", HOST, live=True), asked(scheme))
    return told.decode().partition(";")[0]


def test_processes_with_one_secret_know_each_others_sessions():
    found = sessions().of(asked(cookie=cookie_of(sessions())))
    assert found is not None
    assert (found.holder, found.live) == ("Key00001", True)


def test_a_session_is_for_one_console_of_one_installation():
    cookie = cookie_of(sessions())
    assert sessions(key=OTHER).of(asked(cookie=cookie)) is None
    assert sessions("operator").of(asked(cookie=cookie)) is None
    renamed = cookie.replace("florin_console", "florin_operator")
    assert sessions("operator").of(asked(cookie=renamed)) is None


def test_over_tls_a_cookie_is_kept_from_other_hosts_and_from_plain_text():
    known = sessions()
    _, told = known.given(known.begin("Key00001", HOST, live=True), asked("https"))
    assert told.startswith(b"__Host-florin_console=")
    assert told.endswith(b"; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure")
    secure, plain = cookie_of(known, "https"), cookie_of(known)
    assert known.of(asked("https", cookie=secure)) is not None
    # what somebody on plain text, or on a host beside this one, could have set
    assert known.of(asked("https", cookie=plain)) is None


def test_of_several_cookies_the_one_that_opens_counts():
    known = sessions()
    cookie = cookie_of(known)
    assert known.of(asked(cookie=f"florin_console=x.y; a=b; {cookie}")) is not None
    assert known.of(asked(cookie="florin_console=; florin_console=..")) is None


def test_a_form_is_done_once_and_again_if_nothing_was_done():
    known = sessions()
    one, two = (known.begin("Key00001", HOST, live=True) for _ in range(2))
    form = known.form_id()
    assert known.take(one, form)
    assert not known.take(one, form)
    assert known.take(two, form)
    known.give_back(one, form)
    assert known.take(one, form)
    assert not known.take(one, "")


def test_tokens_of_forms_are_of_one_session():
    known = sessions()
    one, two = (known.begin("Key00001", HOST, live=True) for _ in range(2))
    assert known.is_token(one, known.token(one))
    assert not known.is_token(one, known.token(two))
    assert not known.is_token(replace(one, id=""), known.token(one))
    assert not known.is_token(one, "é")


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec_fetch_site": "same-origin"}, True),
        ({"sec_fetch_site": "same-site", "origin": "http://a:1", "host": "a:1"}, False),
        ({"origin": "http://a:1", "host": "a:1"}, True),
        ({"origin": "http://a:2", "host": "a:1"}, False),
        ({"origin": "null", "host": "a:1"}, False),
        ({"host": "a:1"}, False),
        ({}, False),
    ],
)
def test_who_tells_nothing_of_where_it_came_from_is_another_site(headers, own):
    assert is_own(asked(**headers)) is own


@pytest.mark.parametrize("text", ["/console", "/console/payments?status=succeeded&from=2027-01-15"])
def test_a_way_back_is_a_path_of_the_console(text):
    assert back_of(text) == text
    for wrong in (f"https://evil.example{text}", f"//evil.example{text}", f"\\{text}", f"x{text}"):
        assert back_of(wrong) == "/console"
