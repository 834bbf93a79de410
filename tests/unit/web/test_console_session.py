"""Sessions of a console: cookies, hosts, tickets and form tokens."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from florin_server.base.clock import TestClock
from florin_server.web.console.paths import parse_return_path
from florin_server.web.console.session import IDLE_S, SessionManager
from florin_server.web.console.shell import Shell
from florin_server.web.forms import is_same_origin_form
from grpc_rest_gateway.plain import PlainRequest

KEY, OTHER = b"k" * 32, b"o" * 32
HOST = f"{'a' * 32}.console.localhost"
NUMBERS = itertools.count(1)


def randbytes(count: int) -> bytes:
    return next(NUMBERS).to_bytes(count)


def sessions(
    name: str = "console", key: bytes = KEY, clock: TestClock | None = None
) -> SessionManager:
    return SessionManager(name, key, clock or TestClock(1_800_000_000_000_000), randbytes)


def build_request(scheme: str = "http", **headers: str) -> PlainRequest:
    headers.setdefault("host", HOST)
    result = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return PlainRequest("GET", {}, (), result, b"", "ipv4:127.0.0.1:1", scheme, "/console")


def cookie_of(known_sessions: SessionManager, scheme: str = "http") -> str:
    _, result = known_sessions.build_session_cookie(
        known_sessions.start("Key00001", HOST, live=True), build_request(scheme)
    )
    return result.decode().partition(";")[0]


def test_processes_with_the_same_secret_accept_the_same_sessions():
    session = sessions().find(build_request(cookie=cookie_of(sessions())))
    assert session is not None
    assert (session.holder, session.live) == ("Key00001", True)


def test_session_is_valid_only_for_its_console_and_installation():
    cookie = cookie_of(sessions())
    assert sessions(key=OTHER).find(build_request(cookie=cookie)) is None
    assert sessions("operator").find(build_request(cookie=cookie)) is None
    renamed = cookie.replace("florin_console", "florin_operator")
    assert sessions("operator").find(build_request(cookie=renamed)) is None


def test_cookie_over_tls_is_restricted_to_its_host_and_to_tls():
    known_sessions = sessions()
    _, result = known_sessions.build_session_cookie(
        known_sessions.start("Key00001", HOST, live=True), build_request("https")
    )
    assert result.startswith(b"__Host-florin_console=")
    assert result.endswith(b"; Path=/; Max-Age=28800; HttpOnly; SameSite=Strict; Secure")
    secure, plain = cookie_of(known_sessions, "https"), cookie_of(known_sessions)
    assert known_sessions.find(build_request("https", cookie=secure)) is not None
    # an attacker on plain HTTP, or on a neighboring host, could have set these
    assert known_sessions.find(build_request("https", cookie=plain)) is None


def test_valid_cookie_among_several_counts():
    known_sessions = sessions()
    cookie = cookie_of(known_sessions)
    assert (
        known_sessions.find(build_request(cookie=f"florin_console=x.y; a=b; {cookie}")) is not None
    )
    assert known_sessions.find(build_request(cookie="florin_console=; florin_console=..")) is None


def test_a_form_is_done_once_and_again_if_nothing_was_done():
    known_sessions = sessions()
    session, two = (known_sessions.start("Key00001", HOST, live=True) for _ in range(2))
    form = known_sessions.create_form_id()
    assert known_sessions.claim_form(session, form)
    assert not known_sessions.claim_form(session, form)
    assert known_sessions.claim_form(two, form)
    known_sessions.release_form(session, form)
    assert known_sessions.claim_form(session, form)
    assert not known_sessions.claim_form(session, "")


def test_form_token_is_valid_only_for_its_session():
    known_sessions = sessions()
    session, two = (known_sessions.start("Key00001", HOST, live=True) for _ in range(2))
    assert known_sessions.is_csrf_token(session, known_sessions.derive_csrf_token(session))
    assert not known_sessions.is_csrf_token(session, known_sessions.derive_csrf_token(two))
    assert not known_sessions.is_csrf_token(
        replace(session, id=""), known_sessions.derive_csrf_token(session)
    )
    assert not known_sessions.is_csrf_token(session, "é")


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
def test_request_without_origin_headers_is_cross_site(headers, own):
    assert is_same_origin_form(build_request(**headers)) is own


@pytest.mark.parametrize("text", ["/console", "/console/payments?status=succeeded&from=2027-01-15"])
def test_a_way_back_is_a_path_of_the_console(text):
    assert parse_return_path(text) == text
    for wrong in (f"https://evil.example{text}", f"//evil.example{text}", f"\\{text}", f"x{text}"):
        assert parse_return_path(wrong) == "/console"


def test_cookie_holds_the_sessions_of_several_keys_the_chosen_one_first():
    manager = sessions()
    first = manager.start("Key00001", HOST, live=False)
    both = first.add(manager.start("Key00002", HOST, live=True))
    _, header = manager.build_session_cookie(both, build_request())
    cookie = header.decode().partition(";")[0]
    session = manager.find(build_request(cookie=cookie))
    assert session is not None
    assert [each.holder for each in session.list_all()] == ["Key00002", "Key00001"]
    chosen = session.choose("Key00001")
    assert chosen is not None
    assert [each.holder for each in chosen.list_all()] == ["Key00001", "Key00002"]
    assert session.choose("Key00003") is None
    assert chosen.remove("Key00001") == session.list_all()[0]
    assert first.remove("Key00001") is None
    # each has tokens of its own, and a session of its own
    tokens = {manager.derive_csrf_token(each) for each in session.list_all()}
    assert len(tokens) == 2
    owner = manager.find_form_owner(session, manager.derive_csrf_token(first))
    assert owner is not None
    assert owner.holder == "Key00001"
    assert manager.find_form_owner(session, manager.derive_csrf_token(session)) is None


def test_cookie_of_a_single_key_is_read_by_older_releases():
    assert len(sessions().start("Key00001", HOST, live=False).to_fields()) == 7


def test_expired_sessions_among_the_others_are_dropped():
    clock = TestClock(1_800_000_000_000_000)
    manager = sessions(clock=clock)
    first = manager.start("Key00001", HOST, live=False)
    clock.advance(60)
    both = first.add(manager.start("Key00002", HOST, live=True))
    _, header = manager.build_session_cookie(both, build_request())
    cookie = header.decode().partition(";")[0]
    clock.advance(IDLE_S - 60)
    session = manager.find(build_request(cookie=cookie))
    assert session is not None
    assert session.remaining == ()


@pytest.mark.parametrize(("count", "text"), [(0, ""), (1, "1"), (99, "99"), (100, "99+")])
def test_count_beside_a_page_is_bounded(count, text):
    assert Shell(waiting={"/console/held": count}).get_count("/console/held") == text
    assert Shell().get_count("/console/held") == ""
