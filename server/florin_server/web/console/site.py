"""What all pages of a console pass: who signed in, whether a form is its own, how errors are told.

A refusal of an RPC is a page that says so and leads on. A session that is over leads to the sign-in
page, and from there back.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from florin_gateway.errors import RefusedError
from florin_gateway.plain import PlainAnswer, PlainEvents, PlainHandler, PlainRequest
from florin_gateway.rpc import Messages, Metadata
from google.protobuf.message import Message

from florin_server.domain.errors import Code, FlorinError
from florin_server.flows.accounts.sign_outs import end, has_ended
from florin_server.flows.app import App
from florin_server.web.console import hosts
from florin_server.web.console.calls import Calls
from florin_server.web.console.fields import Form, read_form
from florin_server.web.console.hosts import Place
from florin_server.web.console.session import LIFE_S, Header, Session, Sessions
from florin_server.web.console.view import Show
from florin_server.web.language import words
from florin_server.web.refusal import refusal
from florin_server.web.render import html, strict

ROOT: Final = "/console"
LOGIN: Final = f"{ROOT}/login"
_UNAUTHENTICATED = 401
_SECRET_CHARS = 512
# what the form brings that asks for the key again; never shown back
_AGAIN = "secret_again"
# unlike buyers' pages these are told from where they were asked: forms are held against it
_HEADERS = (
    *((name, value) for name, value in strict() if name != b"referrer-policy"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
)
_WORDS = words("en", "site")


class Prove(Protocol):
    """Finds out who shows a secret."""

    async def __call__(self, secret: str, peer: str) -> tuple[str, bool]:
        """The holder and whether it is of live data; RefusedError if it proves nothing."""
        ...


@dataclass(frozen=True, slots=True)
class Realm:
    """One of the two consoles.

    `shown` is what people sign in with, in words; `credential` is what a session's calls are made
    with. RPCs that are `keyed` know a form that comes twice by its id; others are kept from that
    here. `near` tells whether a request came by a name of this machine, where that is asked.
    """

    name: str
    shown: str
    links: tuple[tuple[str, str], ...]
    prove: Prove
    credential: Callable[[Session], Metadata]
    keyed: bool
    near: Callable[[PlainRequest], bool]


@dataclass(frozen=True, slots=True)
class Visit:
    """A request of somebody who signed in; `form` is what a POST brought."""

    site: Site
    request: PlainRequest
    session: Session
    form: Form = field(default_factory=Form)

    def path(self, name: str) -> str:
        """A variable of the path."""
        return self.request.variables[name]

    @property
    def query(self) -> Mapping[str, str]:
        """What the address asks for; of what comes several times, the last one."""
        return dict(self.request.query)

    async def ask(self, name: str, request: Message, *, merchant: str = "", key: str = "") -> Any:
        """The answer of an RPC; RefusedError if it is refused.

        `merchant` is whom it is about, `key` makes it once.
        """
        told = self._metadata(merchant, key)
        return await self.site.calls.ask(name, request, told, self.request.peer)

    def follow(self, name: str, request: Message, *, merchant: str) -> Messages:
        """The messages of a stream, to be closed."""
        told = self._metadata(merchant, "")
        return self.site.calls.follow(name, request, told, self.request.peer)

    def _metadata(self, merchant: str, key: str) -> Metadata:
        named = {"merchant-id": merchant, "idempotency-key": key}
        given = [(name, value) for name, value in named.items() if value]
        return (*self.site.realm.credential(self.session), *given)

    def page(self, template: str, title: str, status: int = 200, **values: Any) -> PlainAnswer:
        """A page with what all pages of the console show."""
        return self.site.page(self, f"console/{template}.html", title, status, values)

    def see(self, path: str) -> PlainAnswer:
        """The answer to a form that was done: look there."""
        return redirect(path)


Page = Callable[[Visit], Awaitable[PlainAnswer | PlainEvents]]


class Site:
    """One console: its sessions, its calls, and what stands before its pages."""

    def __init__(self, app: App, realm: Realm, calls: Calls, sessions: Sessions) -> None:
        self.app = app
        self.realm = realm
        self.calls = calls
        self.sessions = sessions
        self.show = Show(app)

    def reads(self, page: Page) -> PlainHandler:
        """A page for who signed in; others are led to sign in, and back."""

        async def answer(request: PlainRequest) -> PlainAnswer | PlainEvents:
            self._check_near(request)
            session = await self.who(request)
            if session is None:
                return self._led(request)
            visit = Visit(self, request, session)
            found = await self._told(visit, page)
            if isinstance(found, PlainEvents):
                return found
            given = self.sessions.renewed(session, request)
            return replace(found, headers=(*found.headers, *given))

        return answer

    def tells(self, page: Page) -> PlainHandler:
        """The same for scripts: they are told 401, and keep no session alive."""

        async def answer(request: PlainRequest) -> PlainAnswer | PlainEvents:
            self._check_near(request)
            session = await self.who(request)
            if session is None:
                raise RefusedError(_UNAUTHENTICATED, "unauthorized", "Sign in again")
            try:
                return await page(Visit(self, request, session))
            except FlorinError as refused:
                raise refusal(refused) from refused

        return answer

    def writes(self, page: Page, *, once: bool = False, fresh: bool = False) -> PlainHandler:
        """What a form of this console does, once; what others send does nothing.

        `once` if its RPC does not know a form that comes twice, though those of the realm do;
        `fresh` if it takes a sign-in of the last ten minutes.
        """

        async def answer(request: PlainRequest) -> PlainAnswer | PlainEvents:
            self._check_near(request)
            session = await self.who(request)
            if session is None:
                if self.place(request) not in {Place.TLS, Place.OWN}:
                    raise self.elsewhere()
                if self.sessions.strays(request):
                    raise self.elsewhere()
                return self.sign_in_first(request, ROOT)
            visit = Visit(self, request, session)
            if not is_own(request):
                return self.wrong(visit, 403, "This form was sent by another site.")
            return await self._told(visit, self._checked(page, once, fresh))

        return answer

    async def who(self, request: PlainRequest) -> Session | None:
        """Whose request it is; None without a session, or after its end."""
        session = self.sessions.of(request)
        if session is None:
            return None
        try:
            return None if await has_ended(self.app, session.id) else session
        except FlorinError as down:
            raise refusal(down) from down

    async def end(self, session: Session) -> None:
        """Has no process take a session any more, whoever may have a copy of its cookie."""
        await end(self.app, session.id, LIFE_S)

    def _checked(self, page: Page, once: bool, fresh: bool) -> Page:
        keyed = self.realm.keyed and not once

        async def act(visit: Visit) -> PlainAnswer | PlainEvents:
            return await (page(visit) if keyed else self._once(visit, page))

        async def answer(visit: Visit) -> PlainAnswer | PlainEvents:
            form = read_form(visit.request)
            if not self.sessions.is_token(visit.session, form.text("csrf")):
                return self.wrong(visit, 403, "This form is of another session. Load it again.")
            filled = replace(visit, form=form)
            if fresh and not self.sessions.is_fresh(visit.session):
                return await self._after_proof(filled, act)
            return await act(filled)

        return answer

    async def _after_proof(self, visit: Visit, act: Page) -> PlainAnswer | PlainEvents:
        """Asks for the key again, keeping what the form brought, and goes on once that is shown."""
        session, request = visit.session, visit.request
        secret = visit.form.text(_AGAIN)
        if not secret:
            return self._ask_again(visit, 403, "")
        try:
            self.check(request)
            shown = await self.proved(secret, request)
        except RefusedError as refused:
            answer = self._ask_again(visit, refused.status, told_of(refused))
            return replace(answer, headers=(*answer.headers, *refused.headers))
        if shown != (session.holder, session.live):
            return self._ask_again(visit, 403, "You signed in with another key. Enter that one.")
        proved = self.sessions.proved(session)
        done = await self._told(replace(visit, session=proved), act)
        if isinstance(done, PlainEvents):
            return done
        # first, so that a refusal that takes the cookie has the last word
        return replace(done, headers=(self.sessions.given(proved, request), *done.headers))

    def _ask_again(self, visit: Visit, status: int, problem: str) -> PlainAnswer:
        kept = [
            (name, value)
            for name, values in visit.form.values.items()
            if name != _AGAIN
            for value in values
        ]
        return visit.page("again", "Sign in again", status, kept=kept, problem=problem, name=_AGAIN)

    async def _once(self, visit: Visit, page: Page) -> PlainAnswer | PlainEvents:
        form_id = visit.form.text("form")
        if not self.sessions.take(visit.session, form_id):
            return self.wrong(visit, 409, "This form was sent already. Look at what came of it.")
        try:
            return await page(visit)
        except RefusedError:
            # nothing was done: it may be sent again with what was wrong put right
            self.sessions.give_back(visit.session, form_id)
            raise

    async def _told(self, visit: Visit, page: Page) -> PlainAnswer | PlainEvents:
        try:
            return await page(visit)
        except RefusedError as refused:
            return await self._refused(visit, refused)
        except FlorinError as refused:
            return await self._refused(visit, refusal(refused))

    async def _refused(self, visit: Visit, refused: RefusedError) -> PlainAnswer:
        if refused.status == _UNAUTHENTICATED:
            # its key was revoked, or the operator's token is another one now
            await self.end(visit.session)
            return self._led(visit.request, self.sessions.taken(visit.request))
        request_id = next((str(v) for name, v in refused.metadata if name == "request-id"), "")
        answer = self.wrong(visit, refused.status, told_of(refused), request_id)
        return replace(answer, headers=(*answer.headers, *refused.headers))

    def wrong(self, visit: Visit, status: int, message: str, request_id: str = "") -> PlainAnswer:
        """A page that says what went wrong, and where to go on; the log has the request's id."""
        title = "Not allowed" if status == 403 else "Not done"
        return visit.page("wrong", title, status, message=message, request_id=request_id)

    def page(
        self, visit: Visit, template: str, title: str, status: int, values: Mapping[str, Any]
    ) -> PlainAnswer:
        """A page of somebody who signed in."""
        common = {
            "title": title,
            "words": _WORDS,
            "show": self.show,
            "realm": self.realm,
            "session": visit.session,
            "csrf": self.sessions.token(visit.session),
            "form_id": self.sessions.form_id,
            "at": path_of(visit.request),
        }
        return html(template, status, self._headers(visit.request), **common, **values)

    def sign_in(
        self, request: PlainRequest, back: str, status: int = 200, problem: str = ""
    ) -> PlainAnswer:
        """The page where people sign in."""
        return html(
            "console/login.html",
            status,
            self._headers(request),
            words=_WORDS,
            realm=self.realm,
            back=back,
            problem=problem,
        )

    def place(self, request: PlainRequest) -> Place:
        """Where a request came to."""
        return hosts.place_of(request, self.app.links.base)

    def check(self, request: PlainRequest) -> None:
        """RefusedError for an address that asks for too many pages, or by a name of elsewhere."""
        self._check_near(request)
        if wait_s := self.app.limits.page(request.peer):
            raise refusal(FlorinError(Code.RATE_LIMITED, retry_after_s=wait_s))

    async def proved(self, secret: str, request: PlainRequest) -> tuple[str, bool]:
        """Who shows a secret, and whether it is of live data; RefusedError if it proves nothing."""
        if not secret or len(secret) > _SECRET_CHARS or not secret.isascii():
            raise RefusedError(400, Code.INVALID_PARAMS, f"Enter {self.realm.shown}.")
        return await self.realm.prove(secret, request.peer)

    def elsewhere(self) -> RefusedError:
        """The refusal of what came by a name that it does not belong to."""
        return RefusedError(421, Code.INVALID_PARAMS, "The console is not served by this name")

    def sign_in_first(self, request: PlainRequest, back: str, *headers: Header) -> PlainAnswer:
        """Leads to the sign-in, wherever that is, and from there to `back`."""
        place = self.place(request)
        if place is Place.FAR:
            raise self.elsewhere()
        start = "" if place is Place.TLS else hosts.address(hosts.ENTRY, request)
        query = f"?{urlencode({'back': back})}" if back else ""
        return redirect(f"{start}{LOGIN}{query}", *headers)

    def _check_near(self, request: PlainRequest) -> None:
        place = self.place(request)
        if place in {Place.ENTRY, Place.OWN}:
            return
        if not self.realm.near(request):
            raise self.elsewhere()
        if place is Place.FAR:
            told = "Over plain HTTP the console opens on this machine only: use HTTPS"
            raise RefusedError(421, Code.INVALID_PARAMS, told)

    def _headers(self, request: PlainRequest) -> tuple[Header, ...]:
        own = b"form-action 'self'"
        wider = own + hosts.forms(request, self.place(request)).encode()
        return tuple((name, value.replace(own, wider)) for name, value in _HEADERS)

    def _led(self, request: PlainRequest, *headers: Header) -> PlainAnswer:
        back = path_of(request) if request.method in {"GET", "HEAD"} else ROOT
        return self.sign_in_first(request, back, *headers)


def redirect(path: str, *headers: Header) -> PlainAnswer:
    """Has a browser load a path of this host."""
    return PlainAnswer(303, b"", "text/plain", ((b"location", path.encode()), *headers, *_HEADERS))


def told_of(refused: RefusedError) -> str:
    """A refusal in words, with what is wrong with which field."""
    if refused.status == 403:
        return f"{refused.message}: what you signed in with may not do this."
    told = [f"{one.field} {one.message}" for one in refused.issues]
    return ". ".join(told or [refused.message])


def path_of(request: PlainRequest) -> str:
    """What was asked for, with its query."""
    query = urlencode(list(request.query))
    return f"{request.path}?{query}" if query else request.path


def back_of(text: str) -> str:
    """Where to go after the sign-in: a path of the console, whatever was asked for."""
    parts = urlsplit(text)
    inside = parts.path == ROOT or parts.path.startswith(f"{ROOT}/")
    plain = text.startswith("/") and not parts.netloc and text.isprintable() and "\\" not in text
    if not (inside and plain) or parts.path == LOGIN:
        return ROOT
    return quote(text, safe="/?&=%:+,.-_~")


def is_own(request: PlainRequest) -> bool:
    """False for what another site sent, or whoever tells nothing of where it came from."""
    site = request.header(b"sec-fetch-site")
    if site:
        return site == "same-origin"
    origin = request.header(b"origin")
    return bool(origin) and urlsplit(origin).netloc == request.header(b"host")
