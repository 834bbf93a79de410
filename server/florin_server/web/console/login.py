"""Signing in and out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainHandler, PlainRequest

from florin_server.domain.errors import Code, FlorinError
from florin_server.web.console.fields import read_form
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
_SECRET_CHARS = 512


def routes(site: Site) -> Mapping[tuple[str, str], PlainHandler]:
    """The handlers by method and path."""

    async def show(request: PlainRequest) -> PlainAnswer:
        check(site, request)
        back = back_of(dict(request.query).get("back", ""))
        return redirect(back) if await site.who(request) else site.sign_in(back)

    async def sign_in(request: PlainRequest) -> PlainAnswer:
        check(site, request)
        form = read_form(request)
        back = back_of(form.text("back"))
        if not is_own(request):
            return site.sign_in(back, 403, "This form was sent by another site.")
        secret = form.text("secret")
        if not secret or len(secret) > _SECRET_CHARS or not secret.isascii():
            return site.sign_in(back, 400, f"Enter {site.realm.shown}.")
        try:
            holder, live = await site.realm.prove(secret, request.peer)
        except RefusedError as refused:
            answer = site.sign_in(back, refused.status, told_of(refused))
            return replace(answer, headers=(*answer.headers, *refused.headers))
        session = site.sessions.begin(holder, live=live)
        return redirect(back, site.sessions.given(session, request))

    async def sign_out(visit: Visit) -> PlainAnswer:
        await site.end(visit.session)
        return redirect(LOGIN, site.sessions.taken(visit.request))

    return {
        ("GET", LOGIN): show,
        ("HEAD", LOGIN): show,
        ("POST", LOGIN): sign_in,
        ("POST", LOGOUT): site.writes(sign_out),
    }


def check(site: Site, request: PlainRequest) -> None:
    """RefusedError for an address that asks for too many pages, or by a name of another host."""
    if not site.realm.near(request):
        raise RefusedError(421, Code.INVALID_PARAMS, "The console is not served by this name")
    if wait_s := site.app.limits.page(request.peer):
        raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))
