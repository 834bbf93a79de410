"""The keys that are signed in in a browser: add one, switch between them, sign out of one.

A key is of one partner and one mode. Each has a session of its own, with its own forms: a form
of a page that was loaded with another key is refused.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainResponse

from florin_server.accounts.service.sign_outs import has_ended
from florin_server.web.console.paths import ROOT, SESSIONS, redirect
from florin_server.web.console.refusals import ConsoleError, describe_refusal
from florin_server.web.console.session import SESSIONS_MAX
from florin_server.web.console.site import ConsoleRequest

PATH: Final = SESSIONS
ADD_PATH: Final = f"{SESSIONS}/add"
SWITCH_PATH: Final = f"{SESSIONS}/switch"
END_PATH: Final = f"{SESSIONS}/end"


async def show(console_request: ConsoleRequest) -> PlainResponse:
    """Show the keys that are signed in, and the form that adds one."""
    return _render(console_request)


async def add(console_request: ConsoleRequest) -> PlainResponse:
    """Sign in with another key, and choose it; the others stay signed in."""
    console, request = console_request.console, console_request.request
    try:
        console.check_request(request)
        holder, live = await console.verify_secret(console_request.form.text("secret"), request)
        session = console_request.session.add(
            console.sessions.start(holder, console_request.session.host, live=live)
        )
        if len(session.list_all()) > SESSIONS_MAX:
            raise ConsoleError(400, "fault.sessions_limit", limit=SESSIONS_MAX)
    except RefusedError as refused:
        answer = _render(
            console_request, refused.status, describe_refusal(refused, console_request.texts)
        )
        return replace(answer, headers=(*answer.headers, *refused.headers))
    for former in console_request.session.list_all():
        if former.holder == holder:
            await console.end_session(former)
    return redirect(ROOT, console.sessions.build_session_cookie(session, request))


async def switch(console_request: ConsoleRequest) -> PlainResponse:
    """Choose another key that is signed in."""
    console = console_request.console
    holder = console_request.form.text("key")
    session = console_request.session.choose(holder)
    if session is None:
        message = console_request.texts.plain("sessions.gone")
        return _render(console_request, 409, message)
    if await has_ended(console.app, session.id):
        remaining = session.remove(holder)
        cookie = console.sessions.build_session_cookie(
            remaining or console_request.session, console_request.request
        )
        return redirect(f"{PATH}?ended=1", cookie)
    cookie = console.sessions.build_session_cookie(session, console_request.request)
    return redirect(ROOT, cookie)


async def end(console_request: ConsoleRequest) -> PlainResponse:
    """Sign out of one key; of the last one, leave the console."""
    console, request = console_request.console, console_request.request
    holder = console_request.form.text("key")
    for session in console_request.session.list_all():
        if session.holder == holder:
            await console.end_session(session)
    remaining = console_request.session.remove(holder)
    if remaining is None:
        return console.redirect_to_sign_in(
            request, "", console.sessions.build_removal_cookie(request)
        )
    return redirect(PATH, console.sessions.build_session_cookie(remaining, request))


def _render(console_request: ConsoleRequest, status: int = 200, problem: str = "") -> PlainResponse:
    return console_request.render_page(
        "merchant/sessions",
        console_request.texts.plain("nav.sessions"),
        status,
        problem=problem,
        ended=console_request.query.get("ended") == "1",
        limit=SESSIONS_MAX,
    )
