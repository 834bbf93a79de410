"""The gateway as an ASGI application: one request, from its headers to its response.

Order of checks: headers, route, printable ASCII, media type and size; then the RPC, in which the
server checks credentials, version and rate. The gateway finds faults of body and query before the
RPC. A service can want to keep them from unknown callers: then they travel with the RPC, and the
server refuses them in the order of its checks.
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

from grpc_rest_gateway.errors import (
    FAULT_KEY,
    INVALID_PARAMS,
    RefusedError,
    make_internal_error,
    to_refused_error,
)
from grpc_rest_gateway.exchange import (
    ClientGoneError,
    HttpExchange,
    Scope,
    Send,
    complete_lifespan,
    get_path,
    get_peer,
)
from grpc_rest_gateway.forwarded import is_private_peer
from grpc_rest_gateway.headers import (
    HeaderRules,
    Headers,
    RequestHeaders,
    get_request_id,
    parse_event_id,
)
from grpc_rest_gateway.hold import Receive, RequestWait, WaitEnd
from grpc_rest_gateway.httprule import ROOT, PathError, PathRouter, TemplateError, parse_template
from grpc_rest_gateway.jsoncodec import JsonCodec
from grpc_rest_gateway.longpoll import poll_response
from grpc_rest_gateway.observed import ObservedExchange, RequestObserver
from grpc_rest_gateway.parameters import parse_query
from grpc_rest_gateway.plain import (
    PlainEvents,
    PlainHandler,
    PlainRequest,
    PlainResponse,
    PlainRoute,
    RefusalRenderer,
    is_page_request,
)
from grpc_rest_gateway.routes import (
    RouteBinding,
    RouteError,
    add_routes,
    check_aliases,
    compile_routes,
)
from grpc_rest_gateway.rpc import CallError, Metadata, RpcBackend
from grpc_rest_gateway.settings import GatewaySettings
from grpc_rest_gateway.sse import EventStream

logger = logging.getLogger(__name__)

_SCHEMES = (b"http", b"https")


class RestGateway:
    """REST over the RPCs of a backend.

    The google.api.http rules of `services` become routes; raise RouteError if a rule is invalid.
    Further plain routes can be added before the first request. `observer` is called for every
    request. `render_refusal` can render errors as pages for people in browsers, except for RPCs.
    Gateways of equal services in one process can share a `codec`, which compiles for them once; it
    then decides about unknown members, instead of the settings.
    """

    def __init__(
        self,
        backend: RpcBackend,
        services: Iterable[ServiceDescriptor],
        settings: GatewaySettings | None = None,
        *,
        observer: RequestObserver | None = None,
        render_refusal: RefusalRenderer | None = None,
        codec: JsonCodec | None = None,
    ) -> None:
        self.settings = settings or GatewaySettings()
        self._observer = observer
        self._render_refusal = render_refusal
        self.header_rules = HeaderRules(self.settings.headers)
        self._router: PathRouter[RouteBinding | PlainRoute] = PathRouter()
        codec = codec or JsonCodec(ignore_unknown=self.settings.ignore_unknown)
        self.bindings = list(compile_routes(services, backend, codec))
        check_aliases(self.bindings, self.header_rules)
        add_routes(self._router, self.bindings)
        self._waits: set[RequestWait] = set()
        self._is_stopping = False
        self._has_warned_of_proxy = False
        self._proxy_header = self.settings.proxies.header.encode()

    def add_route(
        self, method: str, path: str, handler: PlainHandler, *, cors: bool = False
    ) -> None:
        """Serve a path template, or "/", with a plain handler; RouteError if the path is taken."""
        try:
            template = ROOT if path == ROOT.text else parse_template(path)
            self._router.add(method, template, PlainRoute(template, handler, cors))
        except TemplateError as error:
            raise RouteError(str(error)) from error

    def reserve_paths(self, *segments: str) -> None:
        """Reserve first segments of paths: routes that start with a variable do not match them."""
        for segment in segments:
            self._router.reserve(segment)

    def stop(self) -> None:
        """End long polls and streams: polls return the last state they saw, streams close.

        Later polls and streams end at once too.
        """
        self._is_stopping = True
        for hold in list(self._waits):
            hold.finish(WaitEnd.STOPPED)

    def allows_cors(self, path: str) -> bool:
        """Return True if browsers of every origin can read responses and errors at this path."""
        if self.settings.lenient_paths:
            path = _strip_extra_slashes(path)
        if self._is_cors_path(path):
            return True
        try:
            methods = self._router.list_methods(path)
            routes = [self._router.find_route(method, path) for method in methods]
        except PathError:
            return False
        return any(route is not None and route[0].cors for route in routes)

    def list_response_headers(self, method: str, path: str) -> Headers:
        """Return the extra headers of every response to such a request, errors included."""
        try:
            route = self._find_route(method, path)
        except PathError:
            route = None
        own = route[0].headers if route is not None else []
        return [*self.header_rules.cors_headers, *own] if self.allows_cors(path) else own

    def _is_cors_path(self, path: str) -> bool:
        return any(
            path == listed or (listed.endswith("*") and path.startswith(listed[:-1]))
            for listed in self.settings.cors_paths
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one ASGI connection."""
        if scope["type"] == "lifespan":
            await complete_lifespan(receive, send)
        if scope["type"] != "http":
            return
        exchange = HttpExchange(scope, receive, send, self.header_rules)
        if self._observer is None:
            await self._serve(exchange)
            return
        seen = ObservedExchange(
            exchange, self._observer(scope["headers"], partial(self._get_peer, scope))
        )
        try:
            await self._serve(exchange)
        finally:
            seen.end()

    async def _serve(self, exchange: HttpExchange) -> None:
        try:
            try:
                await self._handle(exchange)
            except CallError as failure:
                if failure.code is grpc.StatusCode.DEADLINE_EXCEEDED:
                    _log_deadline_exceeded(exchange)
                raise to_refused_error(
                    failure, exchange.request_type, map_codes=self.settings.map_codes
                ) from failure
            except PathError as error:
                raise RefusedError(400, INVALID_PARAMS, f"The path contains {error}") from error
        except ClientGoneError:
            return
        except RefusedError as refused:
            await self._refuse(exchange, refused)
        except asyncio.CancelledError:
            # the server no longer waits; a response that has started just ends
            with contextlib.suppress(RuntimeError):
                await self._refuse(exchange, make_internal_error(503))
            raise
        except Exception:
            log_fields = {"request_id": exchange.request_headers.request_id}
            logger.exception("request failed unexpectedly", extra=log_fields)
            await self._refuse(exchange, make_internal_error())

    def _get_peer(self, scope: Scope) -> str:
        peer = get_peer(scope)
        proxy_header = self._proxy_header
        listed = [
            value.decode("latin-1") for name, value in scope["headers"] if name == proxy_header
        ]
        if not listed:
            return peer
        client = self.settings.proxies.get_client(peer, listed)
        if client == peer and not self._has_warned_of_proxy and is_private_peer(peer):
            self._has_warned_of_proxy = True
            logger.warning(
                "%s sends forwarding headers but is no trusted proxy: all its clients count as one "
                "address; if it is your proxy, add it to the trusted proxies",
                peer,
            )
        return client

    def _get_scheme(self, scope: Scope) -> str:
        """Return the scheme that the client used, as reported by a proxy that ends TLS."""
        scheme: bytes | None = dict(scope["headers"]).get(b"x-forwarded-proto")
        if scheme in _SCHEMES and self.settings.proxies.is_trusted(get_peer(scope)):
            return str(scheme, "ascii")
        # servers can omit it: ASGI defines a default
        return str(scope.get("scheme", "http"))

    async def _refuse(self, exchange: HttpExchange, refusal: RefusedError) -> None:
        incoming = exchange.request_headers
        if not incoming.request_id:
            incoming.request_id = get_request_id(exchange.scope["headers"])
        exchange.cors = exchange.cors or self.allows_cors(exchange.path)
        if (page := self._find_refusal_page(exchange, refusal)) is not None:
            await self._send_plain(exchange, page)
            return
        body = refusal.encode_body(incoming.request_id)
        await exchange.send_json(refusal.status, body, refusal.metadata, list(refusal.headers))

    def _find_refusal_page(
        self, exchange: HttpExchange, refusal: RefusedError
    ) -> PlainResponse | None:
        """Return the page that shows an error to people; None for programs."""
        scope = exchange.scope
        # routes of RPCs have names, plain routes have paths
        rpc = exchange.route and not exchange.route.startswith("/")
        if (
            self._render_refusal is None
            or rpc
            or not is_page_request(scope["method"], scope["headers"])
        ):
            return None
        try:
            query = parse_query(scope["query_string"])
        except RefusedError:
            query = []
        request = PlainRequest(
            scope["method"],
            {},
            query,
            scope["headers"],
            b"",
            exchange.peer,
            self._get_scheme(scope),
        )
        page = self._render_refusal(request, exchange.path, refusal)
        return page and replace(page, headers=(*page.headers, *refusal.headers))

    async def _handle(self, exchange: HttpExchange) -> None:
        scope, incoming = exchange.scope, exchange.request_headers
        exchange.path = get_path(scope)
        method = scope["method"]
        # first, because errors about headers are responses of the route too
        match = self._find_route(method, exchange.path)
        if match is not None:
            exchange.route_headers = match[0].headers
        self.header_rules.parse_headers(scope["headers"], incoming)
        incoming.profile = self.settings.profile or incoming.profile
        if incoming.has_content_encoding:
            raise RefusedError(415, INVALID_PARAMS, "Content-Encoding is not supported")
        if match is None:
            await self._handle_unrouted(exchange, method)
            return
        route, texts = match
        exchange.route = route.name
        exchange.cors = route.cors or self._is_cors_path(exchange.path)
        exchange.peer = self._get_peer(scope)
        if isinstance(route, PlainRoute):
            await self._handle_plain(exchange, route, texts)
            return
        exchange.request_type = route.method.input_type
        if route.aliases:
            self.header_rules.parse_aliases(scope["headers"], incoming, route.aliases)
        incoming.check_ascii()
        exchange.timeout_s = self.settings.deadline_s
        if incoming.timeout_s is not None:
            exchange.timeout_s = min(exchange.timeout_s, incoming.timeout_s)
        if route.stream_method is not None:
            await self._handle_stream(exchange, route, texts)
        else:
            await self._handle_unary(exchange, route, texts)

    # routing
    def _find_route(
        self, method: str, path: str
    ) -> tuple[RouteBinding | PlainRoute, tuple[str, ...]] | None:
        match = self._router.find_route(method, path)
        if match is None and self.settings.lenient_paths:
            other = _strip_extra_slashes(path)
            match = self._router.find_route(method, other) if other != path else None
        return match

    async def _handle_unrouted(self, exchange: HttpExchange, method: str) -> None:
        path = exchange.path
        if self.settings.lenient_paths:
            path = _strip_extra_slashes(path)
        exchange.cors = self.allows_cors(path)
        if method == "OPTIONS" and exchange.cors:
            headers = self.header_rules.build_preflight_headers(
                exchange.request_headers.request_id, self.settings.cors_max_age_s
            )
            await exchange.send({"type": "http.response.start", "status": 204, "headers": headers})
            await exchange.send({"type": "http.response.body", "body": b""})
            return
        methods = self._router.list_methods(path)
        if not methods:
            raise RefusedError(404, INVALID_PARAMS, "Path not found")
        if exchange.cors:
            methods.append("OPTIONS")
        allow = ", ".join(methods).encode()
        raise RefusedError(405, INVALID_PARAMS, "Method not allowed", headers=[(b"allow", allow)])

    # RPCs with one answer
    async def _handle_unary(
        self, exchange: HttpExchange, binding: RouteBinding, texts: tuple[str, ...]
    ) -> None:
        started = time.monotonic()
        body = b""
        limit = binding.body_bytes_max or self.settings.body_bytes_max
        if binding.has_body:
            exchange.request_headers.check_json()
            body = await exchange.read_body(limit)
        elif exchange.scope["method"] == "GET":
            exchange.check_unread_body_size(limit)
        else:
            # ignored, but limited like any other body
            await exchange.read_body(limit)
        try:
            incoming = exchange.request_headers
            request, held_ms = binding.parse_request(
                body, exchange.scope["query_string"], texts, incoming.profile, incoming.metadata
            )
        except RefusedError as fault:
            await self._refuse_after_auth(exchange, binding, fault)
            return
        seconds = min((held_ms or 0) / 1000, self.settings.poll_s_max)
        hold = seconds > 0 and binding.poll_plan is not None and not self._is_stopping
        answer: Any = None
        metadata: Metadata = ()
        if hold and binding.poll_plan is not None:
            exchange.route = binding.poll_plan.name
        if hold and binding.is_read:
            answer, metadata = await self._long_poll(exchange, binding, texts, None, seconds)
        if answer is None:
            answer, metadata = await self._call_unary(exchange, binding, request)
            if hold and not binding.is_read and not answer.is_final:
                left = seconds - (time.monotonic() - started)
                answer, _ = await self._long_poll(exchange, binding, texts, answer, left)
        encode = binding.encoders[exchange.request_headers.profile]
        await exchange.send_json(binding.success_status, encode(answer), metadata)

    async def _call_unary(
        self, exchange: HttpExchange, binding: RouteBinding, request: Any
    ) -> tuple[Any, Metadata]:
        call = binding.unary_method
        if call is None:
            raise RuntimeError("a streaming RPC was called as a unary RPC")
        # mutations run to their end, whether or not the client stays
        receive = exchange.receive if binding.is_read else None
        timeout_s = exchange.timeout_s
        with RequestWait(
            receive, timeout_s=timeout_s, watch_delay_s=self.settings.disconnect_watch_delay_s
        ) as wait:
            return await call(request, exchange.request_headers.metadata, timeout_s, exchange.peer)
        if wait.end is WaitEnd.CLIENT_GONE:
            raise ClientGoneError
        _log_deadline_exceeded(exchange)
        raise make_internal_error(503)

    async def _long_poll(
        self,
        exchange: HttpExchange,
        binding: RouteBinding,
        texts: tuple[str, ...],
        last_response: Any,
        seconds: float,
    ) -> tuple[Any, Metadata]:
        plan = binding.poll_plan
        if plan is None or seconds <= 0:
            return last_response, ()
        metadata = [m for m in exchange.request_headers.metadata if m[0] != "idempotency-key"]
        # the poll ends the stream; the deadline of the stream is for a backend that hangs
        timeout_s = seconds + self.settings.deadline_s
        messages = plan.stream_method(
            plan.build_request(texts, exchange.request_headers.profile),
            metadata,
            timeout_s,
            exchange.peer,
        )
        held = await poll_response(
            plan,
            messages,
            last_response,
            receive=exchange.receive,
            timeout_s=seconds,
            waits=self._waits,
        )
        if held.is_client_gone:
            raise ClientGoneError
        return held.response, held.metadata

    async def _refuse_after_auth(
        self, exchange: HttpExchange, binding: RouteBinding, fault: RefusedError
    ) -> None:
        """Let the server refuse a faulty request once it knows the caller, if it can."""
        if not self.settings.defer_faults:
            # the service would take the substitute for the caller's own request
            raise fault
        status = fault.to_rpc_status(self.settings.error_domain)
        exchange.request_headers.metadata.append((FAULT_KEY, status))
        request, metadata = binding.create_request(), exchange.request_headers.metadata
        if binding.stream_method is None:
            await self._call_unary(exchange, binding, request)
            # this backend does not support faults
            raise fault
        messages = binding.stream_method(request, metadata, exchange.timeout_s, exchange.peer)
        try:
            with RequestWait(exchange.receive, timeout_s=exchange.timeout_s):
                await anext(messages, None)
        finally:
            await messages.close()
        raise fault

    # streams
    async def _handle_stream(
        self, exchange: HttpExchange, binding: RouteBinding, texts: tuple[str, ...]
    ) -> None:
        incoming, stream = exchange.request_headers, binding.stream_method
        if stream is None:
            raise RuntimeError("a unary RPC was called as a streaming RPC")
        exchange.check_unread_body_size(binding.body_bytes_max or self.settings.body_bytes_max)
        try:
            request, _ = binding.parse_request(
                b"", exchange.scope["query_string"], texts, incoming.profile
            )
            if binding.resume_field is not None and incoming.last_event_id is not None:
                setattr(request, binding.resume_field, parse_event_id(incoming.last_event_id))
        except RefusedError as fault:
            await self._refuse_after_auth(exchange, binding, fault)
            return
        if self._is_stopping:
            raise make_internal_error(503)
        seconds = self._get_stream_seconds(incoming)
        messages = stream(
            request, incoming.metadata, seconds + self.settings.deadline_s, exchange.peer
        )
        events = EventStream(
            messages,
            binding.encoders[incoming.profile],
            exchange.send,
            exchange.build_headers,
            self.settings,
        )
        await events.run(exchange.receive, seconds, self._waits)

    def _get_stream_seconds(self, request_headers: RequestHeaders) -> float:
        longest = self.settings.stream_s_max
        return (
            longest
            if request_headers.timeout_s is None
            else min(longest, request_headers.timeout_s)
        )

    # plain routes
    async def _handle_plain(
        self, exchange: HttpExchange, route: PlainRoute, texts: tuple[str, ...]
    ) -> None:
        scope = exchange.scope
        names = [".".join(variable.field_path) for variable in route.template.variables]
        gets = scope["method"] == "GET"
        body = b"" if gets else await exchange.read_body(self.settings.body_bytes_max)
        request = PlainRequest(
            scope["method"],
            dict(zip(names, texts, strict=True)),
            parse_query(scope["query_string"]),
            scope["headers"],
            body,
            exchange.peer,
            self._get_scheme(scope),
            exchange.path,
        )
        request.reject_nul()
        answer = await route.handler(request)
        if isinstance(answer, PlainEvents):
            await self._send_plain_events(exchange, answer)
            return
        await self._send_plain(exchange, answer)

    @staticmethod
    async def _send_plain(exchange: HttpExchange, response: PlainResponse) -> None:
        headers = exchange.build_headers(length=len(response.body))
        headers[:2] = (
            (b"content-type", response.content_type.encode("ascii")),
            (b"cache-control", response.cache_control),
        )
        headers += response.headers
        await exchange.send(
            {"type": "http.response.start", "status": response.status, "headers": headers}
        )
        await exchange.send({"type": "http.response.body", "body": response.body})

    async def _send_plain_events(
        self, exchange: HttpExchange, events_response: PlainEvents
    ) -> None:
        try:
            if self._is_stopping:
                raise make_internal_error(503)
            events = EventStream(
                events_response.to_message_stream(),
                lambda event: event.body,
                exchange.send,
                exchange.build_headers,
                self.settings,
                is_admitted=True,
            )
            seconds = self._get_stream_seconds(exchange.request_headers)
            await events.run(exchange.receive, seconds, self._waits)
        finally:
            events_response.release()


def _strip_extra_slashes(path: str) -> str:
    if path.startswith("//"):
        path = path[1:]
    return path[:-1] if len(path) > 1 and path.endswith("/") else path


def _log_deadline_exceeded(exchange: HttpExchange) -> None:
    """Log an exceeded deadline, unless the client set a shorter one; the client gets no reason."""
    if exchange.request_headers.timeout_s is None:
        log_fields = {"request_id": exchange.request_headers.request_id}
        logger.warning(
            "%s took longer than %g s", exchange.route, exchange.timeout_s, extra=log_fields
        )
