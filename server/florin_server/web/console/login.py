"""Signing in and out.

On plain HTTP people sign in at one host name. A ticket, valid once and for a minute, then takes the
browser to the random host name of the session.
"""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import urlencode

from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainRequest, PlainResponse

from florin_server.accounts.service.sign_outs import use_ticket
from florin_server.domain.errors import ApiError
from florin_server.web.console import hosts
from florin_server.web.console.fields import read_form
from florin_server.web.console.hosts import HostKind
from florin_server.web.console.languages import (
    build_language_cookie,
    find_chosen_language,
    get_texts,
)
from florin_server.web.console.paths import LOGIN, ROOT, parse_return_path, redirect
from florin_server.web.console.refusals import ConsoleError, describe_refusal
from florin_server.web.console.session import TICKET_S
from florin_server.web.console.sign_ins import record_sign_in
from florin_server.web.console.site import Console, ConsoleRequest
from florin_server.web.forms import is_same_origin_form, is_same_site_link
from florin_server.web.handlers import Routes, build_read_routes
from florin_server.web.language import PARAMETER
from florin_server.web.refusal import to_refused_error

LOGOUT = f"{ROOT}/logout"
ENTER = f"{ROOT}/enter"
_SIGN_IN_HOSTS = {HostKind.TLS, HostKind.SIGN_IN}


def build_routes(console: Console) -> Routes:
    """Return the handlers by method and path."""

    async def show(request: PlainRequest) -> PlainResponse:
        return await _show_sign_in(console, request)

    async def sign_in(request: PlainRequest) -> PlainResponse:
        console.check_request(request)
        if (place := console.classify_host(request)) not in _SIGN_IN_HOSTS:
            raise console.make_wrong_host_error()
        form = read_form(request)
        back = parse_return_path(form.text("back"))
        try:
            if not is_same_origin_form(request):
                raise ConsoleError(403, "fault.foreign_form")
            holder, live = await console.verify_secret(form.text("secret"), request)
        except RefusedError as refused:
            problem = describe_refusal(refused, get_texts(request))
            answer = console.render_sign_in(request, back, refused.status, problem)
            return replace(answer, headers=(*answer.headers, *refused.headers))
        await record_sign_in(console, request, holder, live=live)
        if place is HostKind.TLS:
            session = console.sessions.start(holder, hosts.get_host_name(request), live=live)
            return redirect(back, console.sessions.build_session_cookie(session, request))
        # chosen now, so that a site that links to the sign-in cannot know it
        host = hosts.create_host_name(console.app.randbytes)
        session = console.sessions.start(holder, host, live=live)
        query = _build_enter_query(request, console.sessions.create_ticket(session), back)
        return redirect(f"{hosts.build_origin(host, request)}{ENTER}?{query}")

    async def enter(request: PlainRequest) -> PlainResponse:
        return await _enter_session(console, request)

    async def sign_out(console_request: ConsoleRequest) -> PlainResponse:
        for session in console_request.session.list_all():
            await console.end_session(session)
        return console.redirect_to_sign_in(
            console_request.request,
            "",
            console.sessions.build_removal_cookie(console_request.request),
        )

    return {
        **build_read_routes({LOGIN: show}),
        ("POST", LOGIN): sign_in,
        ("GET", ENTER): enter,
        ("POST", LOGOUT): console.wrap_write(sign_out),
    }


async def _show_sign_in(console: Console, request: PlainRequest) -> PlainResponse:
    console.check_request(request)
    if switch := console.switch_language(request):
        return switch
    back = parse_return_path(dict(request.query).get("back", ""))
    if await console.find_session(request):
        return redirect(back)
    if console.classify_host(request) not in _SIGN_IN_HOSTS:
        return console.redirect_to_sign_in(request, back)
    return console.render_sign_in(request, back)


def _build_enter_query(request: PlainRequest, ticket: str, back: str) -> str:
    """Return the query that takes a session and the chosen language to the session's host."""
    values = {"ticket": ticket, "back": back, PARAMETER: find_chosen_language(request)}
    return urlencode({name: value for name, value in values.items() if value})


async def _enter_session(console: Console, request: PlainRequest) -> PlainResponse:
    console.check_request(request)
    query = dict(request.query)
    back = parse_return_path(query.get("back", ""))
    # another site must not sign a person in to a session of its own
    is_own = is_same_site_link(request)
    session = console.sessions.find_by_ticket(request, query.get("ticket", "")) if is_own else None
    try:
        if session is None or not await use_ticket(console.app, session.id, TICKET_S):
            return console.redirect_to_sign_in(request, back)
    except ApiError as down:
        raise to_refused_error(down) from down
    # the choice made at the sign-in, whose host has other cookies
    language = find_chosen_language(request)
    chosen = (build_language_cookie(language, secure=False),) if language else ()
    return redirect(back, console.sessions.build_session_cookie(session, request), *chosen)
