"""The gateway as an ASGI application: one request, from its headers to its answer.

Order of checks: headers, route, printable ASCII, media type and size; then the RPC, in which the
server checks credentials, version and rate. A fault of body or query is known before the RPC but
must not be told to strangers: it travels with the RPC, for the server to refuse in its turn.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
from google.protobuf.descriptor import ServiceDescriptor

from florin_gateway.errors import (
    FAULT_KEY,
    INVALID_PARAMS,
    RefusedError,
    internal_error,
    refusal_of,
)
from florin_gateway.exchange import ClientGoneError, Exchange, Scope, Send, path_of, peer_of
from florin_gateway.forwarded import is_near
from florin_gateway.headers import HeaderRules, Headers, Incoming, event_id, request_id_of
from florin_gateway.hold import End, Hold, Receive
from florin_gateway.httprule import ROOT, PathError, Router, TemplateError, parse_template
from florin_gateway.jsoncodec import Codec
from florin_gateway.longpoll import hold_answer
from florin_gateway.observed import Observe, Observed
from florin_gateway.parameters import parse_query
from florin_gateway.plain import (
    PlainAnswer,
    PlainEvents,
    PlainHandler,
    PlainRequest,
    PlainRoute,
    Refusals,
    wants_page,
)
from florin_gateway.routes import (
    Binding,
    RouteError,
    add_routes,
    check_aliases,
    compile_routes,
)
from florin_gateway.rpc import Backend, CallError, Metadata
from florin_gateway.settings import GatewaySettings
from florin_gateway.sse import EventStream

logger = logging.getLogger(__name__)

_SCHEMES = (b"http", b"https")


class Gateway:
    """REST over the RPCs of a back end.

    `services` are the descriptors whose google.api.http rules become routes; RouteError if one of
    them is wrong. Further plain routes may be added before the first request. `observe` is told of
    every request. `refusals` may answer people who read in a browser what is no RPC. Gateways of
    the same services in one process may share a `codec`, which compiles for them once; it then
    says what becomes of unknown members, instead of the settings.
    """

    def __init__(
        self,
        backend: Backend,
        services: Iterable[ServiceDescriptor],
        settings: GatewaySettings | None = None,
        *,
        observe: Observe | None = None,
        refusals: Refusals | None = None,
        codec: Codec | None = None,
    ) -> None:
        self.settings = settings or GatewaySettings()
        self._observe = observe
        self._refusals = refusals
        self.rules = HeaderRules(self.settings.headers)
        self._router: Router[Binding | PlainRoute] = Router()
        codec = codec or Codec(ignore_unknown=self.settings.ignore_unknown)
        self.bindings = list(compile_routes(services, backend, codec))
        check_aliases(self.bindings, self.rules)
        add_routes(self._router, self.bindings)
        self._held: set[Hold] = set()
        self._stopping = False
        self._wondered = False
        self._told_by = self.settings.proxies.header.encode()

    def add_route(
        self, method: str, path: str, handler: PlainHandler, *, cors: bool = False
    ) -> None:
        """Serve a path template, or "/", with a plain handler; RouteError if the path is taken."""
        try:
            template = ROOT if path == ROOT.text else parse_template(path)
            self._router.add(method, template, PlainRoute(template, handler, cors))
        except TemplateError as error:
            raise RouteError(str(error)) from error

    def reserve(self, *segments: str) -> None:
        """Keep paths that begin with one of them from routes that begin with a variable."""
        for segment in segments:
            self._router.reserve(segment)

    def stop(self) -> None:
        """End what is held: polls answer what they saw last, streams close. Later ones too."""
        self._stopping = True
        for hold in list(self._held):
            hold.finish(End.STOPPED)

    def allows_cors(self, path: str) -> bool:
        """True if browsers of every origin may read answers at this path, errors included."""
        if self.settings.lenient_paths:
            path = _without_extra_slashes(path)
        if self._lists_cors(path):
            return True
        try:
            methods = self._router.methods(path)
            found = [self._router.find(method, path) for method in methods]
        except PathError:
            return False
        return any(route is not None and route[0].cors for route in found)

    def headers_at(self, method: str, path: str) -> Headers:
        """Headers of every answer to such a request beyond the usual ones, refusals included."""
        try:
            found = self._find(method, path)
        except PathError:
            found = None
        own = found[0].headers if found is not None else []
        return [*self.rules.cors, *own] if self.allows_cors(path) else own

    def _lists_cors(self, path: str) -> bool:
        return any(
            path == listed or (listed.endswith("*") and path.startswith(listed[:-1]))
            for listed in self.settings.cors_paths
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        if scope["type"] != "http":
            return
        exchange = Exchange(scope, receive, send, self.rules)
        if self._observe is None:
            await self._serve(exchange)
            return
        seen = Observed(exchange, self._observe(scope["headers"], partial(self._peer, scope)))
        try:
            await self._serve(exchange)
        finally:
            seen.end()

    async def _serve(self, exchange: Exchange) -> None:
        try:
            try:
                await self._handle(exchange)
            except CallError as failure:
                if failure.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                    _note_late(exchange)
                raise refusal_of(failure, exchange.request_type) from failure
            except PathError as error:
                raise RefusedError(400, INVALID_PARAMS, f"The path holds {error}") from error
        except ClientGoneError:
            return
        except RefusedError as refused:
            await self._refuse(exchange, refused)
        except asyncio.CancelledError:
            # the server waits no longer; an answer that has begun just ends
            with contextlib.suppress(RuntimeError):
                await self._refuse(exchange, internal_error(503))
            raise
        except Exception:
            told = {"request_id": exchange.incoming.request_id}
            logger.exception("a request failed", extra=told)
            await self._refuse(exchange, internal_error())

    def _peer(self, scope: Scope) -> str:
        peer = peer_of(scope)
        told_by = self._told_by
        listed = [value.decode("latin-1") for name, value in scope["headers"] if name == told_by]
        if not listed:
            return peer
        client = self.settings.proxies.client(peer, listed)
        if client == peer and not self._wondered and is_near(peer):
            self._wondered = True
            logger.warning(
                "%s says whom it was called by and is no trusted proxy: all that comes through it "
                "counts as one address",
                peer,
            )
        return client

    def _scheme(self, scope: Scope) -> str:
        """How the caller came: a proxy that ends TLS says so."""
        said: bytes | None = dict(scope["headers"]).get(b"x-forwarded-proto")
        if said in _SCHEMES and self.settings.proxies.trusts(peer_of(scope)):
            return str(said, "ascii")
        # a server may leave it out: ASGI has a default for it
        return str(scope.get("scheme", "http"))

    async def _refuse(self, exchange: Exchange, refused: RefusedError) -> None:
        incoming = exchange.incoming
        if not incoming.request_id:
            incoming.request_id = request_id_of(exchange.scope["headers"])
        exchange.cors = exchange.cors or self.allows_cors(exchange.path)
        if (page := self._page_of(exchange, refused)) is not None:
            await self._answer_plain(exchange, page)
            return
        body = refused.body(incoming.request_id)
        await exchange.answer(refused.status, body, refused.metadata, list(refused.headers))

    def _page_of(self, exchange: Exchange, refused: RefusedError) -> PlainAnswer | None:
        """The page that tells a refusal to people; None for programs."""
        scope = exchange.scope
        # RPCs are named, plain routes are called by their paths
        rpc = exchange.route and not exchange.route.startswith("/")
        if self._refusals is None or rpc or not wants_page(scope["method"], scope["headers"]):
            return None
        try:
            query = parse_query(scope["query_string"])
        except RefusedError:
            query = []
        request = PlainRequest(
            scope["method"], {}, query, scope["headers"], b"", exchange.peer, self._scheme(scope)
        )
        page = self._refusals(request, exchange.path, refused)
        return page and replace(page, headers=(*page.headers, *refused.headers))

    async def _handle(self, exchange: Exchange) -> None:
        scope, incoming = exchange.scope, exchange.incoming
        exchange.path = path_of(scope)
        method = scope["method"]
        # first, as refusals of the headers are answers of the route too
        found = self._find(method, exchange.path)
        if found is not None:
            exchange.route_headers = found[0].headers
        self.rules.read(scope["headers"], incoming)
        incoming.profile = self.settings.profile or incoming.profile
        if incoming.encoded:
            raise RefusedError(415, INVALID_PARAMS, "Content-Encoding is not supported")
        if found is None:
            await self._handle_unrouted(exchange, method)
            return
        route, texts = found
        exchange.route = route.name
        exchange.cors = route.cors or self._lists_cors(exchange.path)
        exchange.peer = self._peer(scope)
        if isinstance(route, PlainRoute):
            await self._plain(exchange, route, texts)
            return
        exchange.request_type = route.method.input_type
        if route.aliases:
            self.rules.read_aliases(scope["headers"], incoming, route.aliases)
        incoming.check_ascii()
        exchange.timeout_s = self.settings.deadline_s
        if incoming.timeout_s is not None:
            exchange.timeout_s = min(exchange.timeout_s, incoming.timeout_s)
        if route.stream is not None:
            await self._stream(exchange, route, texts)
        else:
            await self._unary(exchange, route, texts)

    # routing
    def _find(self, method: str, path: str) -> tuple[Binding | PlainRoute, tuple[str, ...]] | None:
        found = self._router.find(method, path)
        if found is None and self.settings.lenient_paths:
            other = _without_extra_slashes(path)
            found = self._router.find(method, other) if other != path else None
        return found

    async def _handle_unrouted(self, exchange: Exchange, method: str) -> None:
        path = exchange.path
        if self.settings.lenient_paths:
            path = _without_extra_slashes(path)
        exchange.cors = self.allows_cors(path)
        if method == "OPTIONS" and exchange.cors:
            headers = self.rules.preflight(
                exchange.incoming.request_id, self.settings.cors_max_age_s
            )
            await exchange.send({"type": "http.response.start", "status": 204, "headers": headers})
            await exchange.send({"type": "http.response.body", "body": b""})
            return
        methods = self._router.methods(path)
        if not methods:
            raise RefusedError(404, INVALID_PARAMS, "Path not found")
        if exchange.cors:
            methods.append("OPTIONS")
        allow = ", ".join(methods).encode()
        raise RefusedError(405, INVALID_PARAMS, "Method not allowed", headers=[(b"allow", allow)])

    # RPCs with one answer
    async def _unary(self, exchange: Exchange, binding: Binding, texts: tuple[str, ...]) -> None:
        started = time.monotonic()
        body = b""
        limit = binding.body_bytes_max or self.settings.body_bytes_max
        if binding.has_body:
            exchange.incoming.check_json()
            body = await exchange.body(limit)
        elif exchange.scope["method"] == "GET":
            exchange.check_unread_body(limit)
        else:
            # ignored, but no longer than any other
            await exchange.body(limit)
        try:
            request, held_ms = binding.read_request(
                body, exchange.scope["query_string"], texts, exchange.incoming.profile
            )
        except RefusedError as fault:
            await self._refuse_in_turn(exchange, binding, fault)
            return
        seconds = min((held_ms or 0) / 1000, self.settings.poll_s_max)
        hold = seconds > 0 and binding.poll is not None and not self._stopping
        answer: Any = None
        metadata: Metadata = ()
        if hold and binding.poll is not None:
            exchange.route = binding.poll.name
        if hold and binding.reads:
            answer, metadata = await self._hold(exchange, binding, texts, None, seconds)
        if answer is None:
            answer, metadata = await self._call(exchange, binding, request)
            if hold and not binding.reads and not answer.is_final:
                left = seconds - (time.monotonic() - started)
                answer, _ = await self._hold(exchange, binding, texts, answer, left)
        encode = binding.encode[exchange.incoming.profile]
        await exchange.answer(binding.success_status, encode(answer), metadata)

    async def _call(
        self, exchange: Exchange, binding: Binding, request: Any
    ) -> tuple[Any, Metadata]:
        call = binding.unary
        if call is None:
            raise RuntimeError("a stream was called for one answer")
        # what changes something runs to its end, whether or not its client stays
        receive = exchange.receive if binding.reads else None
        timeout_s = exchange.timeout_s
        with Hold(receive, seconds=timeout_s, patience_s=self.settings.patience_s) as wait:
            return await call(request, exchange.incoming.metadata, timeout_s, exchange.peer)
        if wait.end is End.CLIENT_GONE:
            raise ClientGoneError
        _note_late(exchange)
        raise internal_error(503)

    async def _hold(
        self,
        exchange: Exchange,
        binding: Binding,
        texts: tuple[str, ...],
        seen: Any,
        seconds: float,
    ) -> tuple[Any, Metadata]:
        plan = binding.poll
        if plan is None or seconds <= 0:
            return seen, ()
        metadata = [m for m in exchange.incoming.metadata if m[0] != "idempotency-key"]
        # the hold ends the stream; its own deadline is for a back end that hangs
        timeout_s = seconds + self.settings.deadline_s
        messages = plan.stream(
            plan.request(texts, exchange.incoming.profile), metadata, timeout_s, exchange.peer
        )
        held = await hold_answer(
            plan, messages, seen, receive=exchange.receive, seconds=seconds, held=self._held
        )
        if held.client_gone:
            raise ClientGoneError
        return held.answer, held.metadata

    async def _refuse_in_turn(
        self, exchange: Exchange, binding: Binding, fault: RefusedError
    ) -> None:
        """Let the server refuse a faulty request after it knows the caller."""
        exchange.incoming.metadata.append((FAULT_KEY, fault.as_rpc_status()))
        request, metadata = binding.empty_request(), exchange.incoming.metadata
        if binding.stream is None:
            await self._call(exchange, binding, request)
            # this back end knows nothing of faults
            raise fault
        messages = binding.stream(request, metadata, exchange.timeout_s, exchange.peer)
        try:
            with Hold(exchange.receive, seconds=exchange.timeout_s):
                await anext(messages, None)
        finally:
            await messages.close()
        raise fault

    # streams
    async def _stream(self, exchange: Exchange, binding: Binding, texts: tuple[str, ...]) -> None:
        incoming, stream = exchange.incoming, binding.stream
        if stream is None:
            raise RuntimeError("one answer was asked for as a stream")
        exchange.check_unread_body(binding.body_bytes_max or self.settings.body_bytes_max)
        try:
            request, _ = binding.read_request(
                b"", exchange.scope["query_string"], texts, incoming.profile
            )
            if binding.resume is not None and incoming.last_event_id is not None:
                setattr(request, binding.resume, event_id(incoming.last_event_id))
        except RefusedError as fault:
            await self._refuse_in_turn(exchange, binding, fault)
            return
        if self._stopping:
            raise internal_error(503)
        seconds = self._stream_seconds(incoming)
        messages = stream(
            request, incoming.metadata, seconds + self.settings.deadline_s, exchange.peer
        )
        events = EventStream(
            messages,
            binding.encode[incoming.profile],
            exchange.send,
            exchange.headers,
            self.settings,
        )
        await events.run(exchange.receive, seconds, self._held)

    def _stream_seconds(self, incoming: Incoming) -> float:
        longest = self.settings.stream_s_max
        return longest if incoming.timeout_s is None else min(longest, incoming.timeout_s)

    # plain routes
    async def _plain(self, exchange: Exchange, route: PlainRoute, texts: tuple[str, ...]) -> None:
        scope = exchange.scope
        names = [".".join(variable.field_path) for variable in route.template.variables]
        gets = scope["method"] == "GET"
        body = b"" if gets else await exchange.body(self.settings.body_bytes_max)
        request = PlainRequest(
            scope["method"],
            dict(zip(names, texts, strict=True)),
            parse_query(scope["query_string"]),
            scope["headers"],
            body,
            exchange.peer,
            self._scheme(scope),
            exchange.path,
        )
        request.refuse_nul()
        answer = await route.handler(request)
        if isinstance(answer, PlainEvents):
            await self._plain_events(exchange, answer)
            return
        await self._answer_plain(exchange, answer)

    @staticmethod
    async def _answer_plain(exchange: Exchange, answer: PlainAnswer) -> None:
        headers = exchange.headers(length=len(answer.body))
        headers[:2] = (
            (b"content-type", answer.content_type.encode("ascii")),
            (b"cache-control", answer.cache_control),
        )
        headers += answer.headers
        await exchange.send(
            {"type": "http.response.start", "status": answer.status, "headers": headers}
        )
        await exchange.send({"type": "http.response.body", "body": answer.body})

    async def _plain_events(self, exchange: Exchange, answer: PlainEvents) -> None:
        try:
            if self._stopping:
                raise internal_error(503)
            events = EventStream(
                answer.messages(),
                lambda event: event.body,
                exchange.send,
                exchange.headers,
                self.settings,
                admitted=True,
            )
            seconds = self._stream_seconds(exchange.incoming)
            await events.run(exchange.receive, seconds, self._held)
        finally:
            answer.release()


def _without_extra_slashes(path: str) -> str:
    if path.startswith("//"):
        path = path[1:]
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": message["type"] + ".complete"})
        if message["type"] == "lifespan.shutdown":
            return


def _note_late(exchange: Exchange) -> None:
    """The client is told no reason; who wished for less time than it has needs no note."""
    if exchange.incoming.timeout_s is None:
        told = {"request_id": exchange.incoming.request_id}
        logger.warning("%s took longer than %g s", exchange.route, exchange.timeout_s, extra=told)
