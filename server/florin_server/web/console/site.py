"""Checks that all pages of a console pass: sessions, the origin of forms, and errors.

A refused RPC becomes a page with the reason; an ended session leads to the sign-in and back.
"""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from google.protobuf.message import Message
from grpc_rest_gateway.errors import RefusedError
from grpc_rest_gateway.plain import PlainEvents, PlainHandler, PlainRequest, PlainResponse
from grpc_rest_gateway.rpc import MessageStream, Metadata

from florin_server.accounts.service.sign_outs import end_session, has_ended
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.web.console import hosts
from florin_server.web.console.calls import ConsoleRpcClient
from florin_server.web.console.config import ConsoleConfig
from florin_server.web.console.confirmation import (
    CODE_FIELD,
    REAUTH_FIELD,
    TYPED_FIELD,
    ActionConfirmation,
    Confirmer,
)
from florin_server.web.console.context import ConsoleContext
from florin_server.web.console.fields import FormValues, read_form
from florin_server.web.console.hosts import HostKind
from florin_server.web.console.languages import (
    find_chosen_language,
    get_texts,
    list_language_values,
    switch_language,
)
from florin_server.web.console.paths import (
    HEADERS,
    ROOT,
    SESSIONS,
    build_sign_in_path,
    get_request_path,
    redirect,
)
from florin_server.web.console.refusals import ConsoleError, describe_refusal
from florin_server.web.console.session import (
    LIFE_S,
    ConsoleSession,
    HttpHeader,
    SessionManager,
)
from florin_server.web.console.shell import EMPTY, Shell, parse_merchant
from florin_server.web.console.undo import UndoOffer, build_undo_path, find_offer
from florin_server.web.console.view import Formatter
from florin_server.web.forms import is_same_origin_form
from florin_server.web.handlers import READ_METHODS
from florin_server.web.language import Translations
from florin_server.web.refusal import check_page_rate, to_refused_error
from florin_server.web.render import render_page

_UNAUTHENTICATED = 401
_SECRET_CHARS = 512


@dataclass(frozen=True, slots=True)
class ConsoleRequest:
    """A request within a session; `form` has the fields of a POST, `shell` the page's frame."""

    console: Console
    request: PlainRequest
    session: ConsoleSession
    form: FormValues = field(default_factory=FormValues)
    shell: Shell = EMPTY

    def get_path_variable(self, name: str) -> str:
        """Return a variable of the path."""
        return self.request.variables[name]

    @property
    def query(self) -> Mapping[str, str]:
        """Return the query parameters; of a repeated one, the last value."""
        return dict(self.request.query)

    @property
    def texts(self) -> Translations:
        """Return the messages in the language of the reader."""
        return get_texts(self.request)

    @property
    def formatter(self) -> Formatter:
        """Return the formats in the language of the reader."""
        return Formatter(self.console.app, self.texts)

    async def call(self, name: str, request: Message, *, merchant: str = "", key: str = "") -> Any:
        """Return the answer of an RPC; RefusedError if it is refused.

        `merchant` is the id of the merchant it concerns, `key` its idempotency key.
        """
        metadata = self._build_metadata(merchant, key)
        return await self.console.rpc_client.call(name, request, metadata, self.request.peer)

    def stream(self, name: str, request: Message, *, merchant: str) -> MessageStream:
        """Return the messages of a stream, which the caller closes."""
        metadata = self._build_metadata(merchant, "")
        return self.console.rpc_client.stream(name, request, metadata, self.request.peer)

    def _build_metadata(self, merchant: str, key: str) -> Metadata:
        named = {"merchant-id": merchant, "idempotency-key": key}
        entries = [(name, value) for name, value in named.items() if value]
        return (*self.console.config.build_metadata(self.session), *entries)

    def render_page(
        self, template: str, title: str, status: int = 200, **values: Any
    ) -> PlainResponse:
        """Return a page with the values that all pages of the console show."""
        return self.console.render_page(self, f"console/{template}.html", title, status, values)

    def redirect_to(self, path: str) -> PlainResponse:
        """Return a redirect to a page, the answer to a form that succeeded."""
        return redirect(path)

    def redirect_with_undo(self, path: str, offer: UndoOffer) -> PlainResponse:
        """Return a redirect to a page that offers to take the action back."""
        now_us, sessions = self.console.app.clock.now_us(), self.console.sessions
        return redirect(build_undo_path(sessions, self.session, now_us, path, offer))


PageHandler = Callable[[ConsoleRequest], Awaitable[PlainResponse | PlainEvents]]


class Console:
    """One console: its sessions, its RPCs, and the checks before its pages."""

    def __init__(
        self,
        app: ConsoleContext,
        config: ConsoleConfig,
        rpc_client: ConsoleRpcClient,
        sessions: SessionManager,
    ) -> None:
        self.app = app
        self.config = config
        self.rpc_client = rpc_client
        self.sessions = sessions

    def wrap_read(self, handler: PageHandler) -> PlainHandler:
        """Return the handler of a page; without a session it redirects to the sign-in and back."""

        async def answer(request: PlainRequest) -> PlainResponse | PlainEvents:
            self._check_host(request)
            if switch := self.switch_language(request):
                return switch
            session = await self.find_session(request)
            if session is None:
                return self._redirect_and_return(request)
            console_request = await self._open_request(request, session)
            response = await self._run_handler(console_request, handler)
            if isinstance(response, PlainEvents):
                return response
            renewal_headers = self.sessions.build_renewal_headers(session, request)
            return replace(response, headers=(*response.headers, *renewal_headers))

        return answer

    def wrap_script_read(self, handler: PageHandler) -> PlainHandler:
        """Return the handler of a script's request: 401 without a session, and no renewal of it."""

        async def answer(request: PlainRequest) -> PlainResponse | PlainEvents:
            self._check_host(request)
            session = await self.find_session(request)
            if session is None:
                raise RefusedError(_UNAUTHENTICATED, "unauthorized", "Sign in again")
            try:
                return await handler(ConsoleRequest(self, request, session))
            except ApiError as refused:
                raise to_refused_error(refused) from refused

        return answer

    def wrap_write(
        self,
        handler: PageHandler,
        *,
        deduplicate: bool = False,
        needs_fresh_sign_in: bool = False,
        confirm: Confirmer | None = None,
    ) -> PlainHandler:
        """Return the handler of a form; it acts once, and refuses forms of other sites.

        `deduplicate` if its RPC does not recognize a repeated form, although those of the console
        do; `needs_fresh_sign_in` if it requires a sign-in from the last ten minutes. `confirm`
        returns what to ask before the form acts.
        """

        async def answer(request: PlainRequest) -> PlainResponse | PlainEvents:
            self._check_host(request)
            session = await self.find_session(request)
            if session is None:
                if self.classify_host(request) not in {HostKind.TLS, HostKind.SESSION}:
                    raise self.make_wrong_host_error()
                if self.sessions.has_foreign_cookie(request):
                    raise self.make_wrong_host_error()
                return self.redirect_to_sign_in(request, ROOT)
            console_request = await self._open_request(request, session)
            if not is_same_origin_form(request):
                return self.render_error(
                    console_request, 403, console_request.texts.plain("fault.foreign_form")
                )
            return await self._run_handler(
                console_request,
                self._wrap_form_checks(handler, deduplicate, needs_fresh_sign_in, confirm),
            )

        return answer

    async def _open_request(self, request: PlainRequest, session: ConsoleSession) -> ConsoleRequest:
        shell = await self.config.read_shell(session, request.peer)
        return ConsoleRequest(self, request, session, shell=shell)

    async def find_session(self, request: PlainRequest) -> ConsoleSession | None:
        """Return the session of a request; None without one, or after it ended."""
        session = self.sessions.find(request)
        if session is None:
            return None
        try:
            return None if await has_ended(self.app, session.id) else session
        except ApiError as down:
            raise to_refused_error(down) from down

    async def end_session(self, session: ConsoleSession) -> None:
        """End a session in all processes, including copies of its cookie."""
        await end_session(self.app, session.id, LIFE_S)

    def _wrap_form_checks(
        self,
        handler: PageHandler,
        deduplicate: bool,
        needs_fresh_sign_in: bool,
        confirm: Confirmer | None,
    ) -> PageHandler:
        keyed = self.config.has_idempotency_keys and not deduplicate

        async def act(console_request: ConsoleRequest) -> PlainResponse | PlainEvents:
            question = None if confirm is None else await confirm(console_request)
            if question is not None and not self._is_confirmed(console_request, question):
                return self._render_confirmation(console_request, question)
            return await (
                handler(console_request) if keyed else self._run_once(console_request, handler)
            )

        async def answer(console_request: ConsoleRequest) -> PlainResponse | PlainEvents:
            form = read_form(console_request.request)
            session, token = console_request.session, form.text("csrf")
            if (owner := self.sessions.find_form_owner(session, token)) is not None:
                # another tab has switched to another key since the page was loaded
                title = console_request.texts.plain("sessions.another")
                return console_request.render_page("switched", title, 409, owner=owner.holder)
            if not self.sessions.is_csrf_token(session, token):
                return self.render_error(
                    console_request, 403, console_request.texts.plain("fault.foreign_session")
                )
            console_request = replace(console_request, form=form)
            if needs_fresh_sign_in and not self.sessions.is_fresh(console_request.session):
                return await self._run_after_verification(console_request, act)
            return await act(console_request)

        return answer

    def _compute_code(self, console_request: ConsoleRequest, question: ActionConfirmation) -> str:
        key = self.sessions.derive_confirmation_key(console_request.session)
        path = console_request.request.path
        return question.compute_code(key, path, console_request.form, (REAUTH_FIELD,))

    def _is_confirmed(self, console_request: ConsoleRequest, question: ActionConfirmation) -> bool:
        """Return True if a form comes from the page that asked this question."""
        code = self._compute_code(console_request, question).encode()
        same = hmac.compare_digest(code, console_request.form.text(CODE_FIELD).encode())
        return same and question.is_typed(console_request.form)

    def _render_confirmation(
        self, console_request: ConsoleRequest, question: ActionConfirmation
    ) -> PlainResponse:
        """Ask; the fields of the form are kept, and nothing has changed yet."""
        form = console_request.form
        problem = question.find_problem(form)
        fields = form.list_pairs({CODE_FIELD, TYPED_FIELD, REAUTH_FIELD})
        return console_request.render_page(
            "confirm",
            question.title,
            question=question,
            fields=[*fields, (CODE_FIELD, self._compute_code(console_request, question))],
            typed_field=TYPED_FIELD,
            problem=problem and console_request.texts.plain(problem),
        )

    async def _run_after_verification(
        self, console_request: ConsoleRequest, handler: PageHandler
    ) -> PlainResponse | PlainEvents:
        """Ask for the key again, keep the fields of the form, and act once the key is right."""
        session, request = console_request.session, console_request.request
        secret = console_request.form.text(REAUTH_FIELD)
        if not secret:
            return self._render_reauthentication(console_request, 403, "")
        try:
            self.check_request(request)
            holder_and_mode = await self.verify_secret(secret, request)
        except RefusedError as refused:
            answer = self._render_reauthentication(
                console_request, refused.status, describe_refusal(refused, console_request.texts)
            )
            return replace(answer, headers=(*answer.headers, *refused.headers))
        if holder_and_mode != (session.holder, session.live):
            return self._render_reauthentication(
                console_request, 403, console_request.texts.plain("reauthenticate.other_key")
            )
        proved = self.sessions.mark_verified(session)
        done = await self._run_handler(replace(console_request, session=proved), handler)
        if isinstance(done, PlainEvents):
            return done
        # first, so that the header of a refusal that removes the cookie wins
        return replace(
            done, headers=(self.sessions.build_session_cookie(proved, request), *done.headers)
        )

    def _render_reauthentication(
        self, console_request: ConsoleRequest, status: int, problem: str
    ) -> PlainResponse:
        """Ask for the key; the fields of the form are kept, and nothing has changed yet."""
        return console_request.render_page(
            "reauthenticate",
            console_request.texts.plain("reauthenticate.title"),
            status,
            fields=console_request.form.list_pairs({REAUTH_FIELD}),
            problem=problem,
            name=REAUTH_FIELD,
        )

    async def _run_once(
        self, console_request: ConsoleRequest, handler: PageHandler
    ) -> PlainResponse | PlainEvents:
        form_id = console_request.form.text("form")
        if not self.sessions.claim_form(console_request.session, form_id):
            return self.render_error(
                console_request, 409, console_request.texts.plain("fault.sent_again")
            )
        try:
            return await handler(console_request)
        except RefusedError:
            # nothing has changed: the corrected form can be sent again
            self.sessions.release_form(console_request.session, form_id)
            raise

    async def _run_handler(
        self, console_request: ConsoleRequest, handler: PageHandler
    ) -> PlainResponse | PlainEvents:
        try:
            return await handler(console_request)
        except RefusedError as refused:
            return await self._render_refusal(console_request, refused)
        except ApiError as refused:
            return await self._render_refusal(console_request, to_refused_error(refused))

    async def _render_refusal(
        self, console_request: ConsoleRequest, error: RefusedError
    ) -> PlainResponse:
        if error.status == _UNAUTHENTICATED:
            # its key was revoked, or the operator's token was replaced
            await self.end_session(console_request.session)
            remaining = console_request.session.remove(console_request.session.holder)
            if remaining is not None:
                cookie = self.sessions.build_session_cookie(remaining, console_request.request)
                return redirect(f"{SESSIONS}?ended=1", cookie)
            return self._redirect_and_return(
                console_request.request, self.sessions.build_removal_cookie(console_request.request)
            )
        request_id = next((str(v) for name, v in error.metadata if name == "request-id"), "")
        text = describe_refusal(error, console_request.texts)
        answer = self.render_error(console_request, error.status, text, request_id)
        return replace(answer, headers=(*answer.headers, *error.headers))

    def render_error(
        self, console_request: ConsoleRequest, status: int, message: str, request_id: str = ""
    ) -> PlainResponse:
        """Return a page that says what went wrong; the log has the request's id."""
        key = "error.not_allowed" if status == 403 else "error.failed"
        return console_request.render_page(
            "error",
            console_request.texts.plain(key),
            status,
            sign="lock" if status == 403 else "alert",
            message=message,
            request_id=request_id,
        )

    def render_page(
        self,
        console_request: ConsoleRequest,
        template: str,
        title: str,
        status: int,
        values: Mapping[str, Any],
    ) -> PlainResponse:
        """Return a page within a session."""
        common = {
            **list_language_values(console_request.request),
            "config": self.config,
            "title": title,
            "formatter": console_request.formatter,
            "session": console_request.session,
            "shell": console_request.shell,
            "chosen_merchant": parse_merchant(console_request.query),
            "csrf": self.sessions.derive_csrf_token(console_request.session),
            "form_id": self.sessions.create_form_id,
            "request_path": get_request_path(console_request.request),
            "undo": find_offer(
                self.sessions,
                console_request.session,
                self.app.clock.now_us(),
                console_request.query,
            ),
        }
        return render_page(
            template, status, self._build_headers(console_request.request), **common, **values
        )

    def render_sign_in(
        self, request: PlainRequest, back: str, status: int = 200, problem: str = ""
    ) -> PlainResponse:
        """Return the sign-in page."""
        return render_page(
            "console/login.html",
            status,
            self._build_headers(request),
            **list_language_values(request),
            config=self.config,
            back=back,
            problem=problem,
        )

    def switch_language(self, request: PlainRequest) -> PlainResponse | None:
        """Return the redirect that stores a chosen language; None if the query names none."""
        return switch_language(request, secure=self.classify_host(request) is HostKind.TLS)

    def classify_host(self, request: PlainRequest) -> HostKind:
        """Return the kind of host that a request addressed."""
        return hosts.classify_host(request, self.app.links.base_url)

    def check_request(self, request: PlainRequest) -> None:
        """Raise RefusedError above the rate limit of pages, or for a wrong host name."""
        self._check_host(request)
        check_page_rate(self.app, request)

    async def verify_secret(self, secret: str, request: PlainRequest) -> tuple[str, bool]:
        """Return the holder of a secret and whether its data is live; RefusedError if wrong."""
        if not secret or len(secret) > _SECRET_CHARS or not secret.isascii():
            raise ConsoleError(400, f"fault.enter_secret.{self.config.name}")
        return await self.config.verify_secret(secret, request.peer)

    def make_wrong_host_error(self) -> RefusedError:
        """Return the refusal of a request by a host name that has no console."""
        return RefusedError(421, ErrorCode.INVALID_PARAMS, "This host name has no console")

    def redirect_to_sign_in(
        self, request: PlainRequest, back: str, *headers: HttpHeader
    ) -> PlainResponse:
        """Redirect to the sign-in, on its own host if need be, and from there to `back`."""
        place = self.classify_host(request)
        if place is HostKind.REMOTE:
            raise self.make_wrong_host_error()
        if place is HostKind.TLS:
            return redirect(build_sign_in_path(back, ""), *headers)
        # the cookies of a session's own host end with it
        path = build_sign_in_path(back, find_chosen_language(request))
        return redirect(f"{hosts.build_origin(hosts.ENTRY, request)}{path}", *headers)

    def _check_host(self, request: PlainRequest) -> None:
        place = self.classify_host(request)
        if place in {HostKind.SIGN_IN, HostKind.SESSION}:
            return
        if not self.config.is_allowed_host(request):
            raise self.make_wrong_host_error()
        if place is HostKind.REMOTE:
            message = "Over plain HTTP the console opens on this machine only. Use HTTPS."
            raise RefusedError(421, ErrorCode.INVALID_PARAMS, message)

    def _build_headers(self, request: PlainRequest) -> tuple[HttpHeader, ...]:
        own = b"form-action 'self'"
        wider = own + hosts.get_form_sources(request, self.classify_host(request)).encode()
        return tuple((name, value.replace(own, wider)) for name, value in HEADERS)

    def _redirect_and_return(self, request: PlainRequest, *headers: HttpHeader) -> PlainResponse:
        back = get_request_path(request) if request.method in READ_METHODS else ROOT
        return self.redirect_to_sign_in(request, back, *headers)
