"""Signing in and out.

On plain HTTP people sign in at one host name and are led to another one, which is random and their
session's own, by a ticket that is good once and for a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlencode

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import FlorinError
from florin_server.flows.accounts.sign_outs import take
from florin_server.web.console import hosts
from florin_server.web.console.fields import read_form
from florin_server.web.console.hosts import Place
from florin_server.web.console.session import TICKET_S
from florin_server.web.console.site import (
    LOGIN,
    ROOT,
    Site,
    Visit,
    back_of,
    is_own,
    redirect,
    told_of,
)
from florin_server.web.refusal import refusal

LOGOUT = f"{ROOT}/logout"
ENTER = f"{ROOT}/enter"
_AT = {Place.TLS, Place.ENTRY}


def routes(site: Site) -> Mapping[tuple[str, str], PlainHandler]:
    """The handlers by method and path."""

    async def show(request: PlainRequest) -> PlainAnswer:
        site.check(request)
        back = back_of(dict(request.query).get("back", ""))
        if await site.who(request):
            return redirect(back)
        if site.place(request) not in _AT:
            return site.sign_in_first(request, back)
        return site.sign_in(request, back)

    async def sign_in(request: PlainRequest) -> PlainAnswer:
        site.check(request)
        if (place := site.place(request)) not in _AT:
            raise site.elsewhere()
        form = read_form(request)
        back = back_of(form.text("back"))
        if not is_own(request):
            return site.sign_in(request, back, 403, "This form was sent by another site.")
        try:
            holder, live = await site.proved(form.text("secret"), request)
        except RefusedError as refused:
            answer = site.sign_in(request, back, refused.status, told_of(refused))
            return replace(answer, headers=(*answer.headers, *refused.headers))
        if place is Place.TLS:
            session = site.sessions.begin(holder, hosts.name_of(request), live=live)
            return redirect(back, site.sessions.given(session, request))
        # chosen now, so that whoever led a person to the sign-in does not know it
        host = hosts.new_name(site.app.randbytes)
        session = site.sessions.begin(holder, host, live=live)
        query = urlencode({"ticket": site.sessions.ticket(session), "back": back})
        return redirect(f"{hosts.address(host, request)}{ENTER}?{query}")

    async def enter(request: PlainRequest) -> PlainAnswer:
        return await _enter(site, request)

    async def sign_out(visit: Visit) -> PlainAnswer:
        await site.end(visit.session)
        return site.sign_in_first(visit.request, "", site.sessions.taken(visit.request))

    return {
        ("GET", LOGIN): show,
        ("HEAD", LOGIN): show,
        ("POST", LOGIN): sign_in,
        ("GET", ENTER): enter,
        ("POST", LOGOUT): site.writes(sign_out),
    }


async def _enter(site: Site, request: PlainRequest) -> PlainAnswer:
    site.check(request)
    query = dict(request.query)
    back = back_of(query.get("back", ""))
    # a page of another site may not put somebody into a session of its own
    led = request.header(b"sec-fetch-site") in {"", "same-site", "same-origin"}
    session = site.sessions.ticketed(request, query.get("ticket", "")) if led else None
    try:
        if session is None or not await take(site.app, session.id, TICKET_S):
            return site.sign_in_first(request, back)
    except FlorinError as down:
        raise refusal(down) from down
    return redirect(back, site.sessions.given(session, request))
