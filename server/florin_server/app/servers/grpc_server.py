"""The gRPC servers: one for callers, one on its own address for the operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Self

import grpc
from florin.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    gateway_pb2,
    gateway_pb2_grpc,
    merchant_pb2,
    merchant_pb2_grpc,
    operator_pb2,
    operator_pb2_grpc,
    webhook_service_pb2,
    webhook_service_pb2_grpc,
)
from google.protobuf.descriptor import ServiceDescriptor
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from florin_server.api.accounts.admin import AdminServicer
from florin_server.api.operator.service import OperatorServicer
from florin_server.api.payments.codec import PaymentCodec
from florin_server.api.payments.gateway import GatewayServicer
from florin_server.api.payments.merchant import MerchantServicer
from florin_server.api.server.auth import Authenticator
from florin_server.api.server.guarded_methods import GuardedMethods
from florin_server.api.server.idempotency import IdempotencyLocks
from florin_server.api.server.interceptors import AuthInterceptor
from florin_server.api.webhooks.webhooks import WebhookServicer
from florin_server.app.core import App
from florin_server.app.home import InstallationSecrets
from florin_server.app.servers import observing
from florin_server.app.servers.addresses import (
    GRPC_PORT_SETTING,
    OPERATOR_PORT_SETTING,
    build_bind_error,
    format_address,
    require_free_port,
)
from florin_server.app.servers.certificates import CertificateStore
from florin_server.app.servers.observing import RequestObservers
from florin_server.app.servers.peers import CallerResolver, find_token, get_proxies
from florin_server.app.servers.reflection import register_reflection
from florin_server.app.webhooks import build_event_encoder
from florin_server.settings import Settings

ServicerRegistration = Callable[[Any], None]

PUBLIC_SERVICES: tuple[ServiceDescriptor, ...] = (
    gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"],
    merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"],
)
OPERATOR_SERVICES: tuple[ServiceDescriptor, ...] = (
    operator_pb2.DESCRIPTOR.services_by_name["OperatorService"],
)

_OPTIONS = (
    # the defaults cancel more than half of 10,000 streams that open at once
    ("grpc.server.max_pending_requests", 20_000),
    ("grpc.server.max_pending_requests_hard_limit", 40_000),
    ("grpc.max_receive_message_length", 1024 * 1024),
    # below the hard limit gRPC refuses at random, from the soft one on
    ("grpc.max_metadata_size", 8192),
    ("grpc.absolute_max_metadata_size", 8192),
    ("grpc.max_concurrent_streams", 1000),
    # beyond this, connections are refused before they cost memory; a gateway needs one
    ("grpc.max_allowed_incoming_connections", 4000),
    # clients connect again automatically
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


# a second server on the same port would silently get half of the calls
_EXCLUSIVE_PORT = (("grpc.so_reuseport", 0),)


def _build_shared_options(settings: Settings) -> tuple[tuple[str, int], ...]:
    """Return options for shared ports.

    A connection must not stay with a process that a reload ends.
    """
    age_ms = int(settings.grpc_connection_s * 1000)
    return ("grpc.so_reuseport", 1), ("grpc.max_connection_age_ms", age_ms)


def _create_public_registration(app: App) -> ServicerRegistration:
    """Return what adds the services for all callers to a server; the servers share them."""
    codec = PaymentCodec(app)
    gateway = GatewayServicer(app, codec)
    merchant = MerchantServicer(app, codec)
    admin = AdminServicer(app, codec)
    webhooks = WebhookServicer(app, build_event_encoder())

    def register(server: Any) -> None:
        gateway_pb2_grpc.add_GatewayServiceServicer_to_server(gateway, server)
        merchant_pb2_grpc.add_MerchantServiceServicer_to_server(merchant, server)
        admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)
        webhook_service_pb2_grpc.add_WebhookServiceServicer_to_server(webhooks, server)

    return register


class _ListenAddress(NamedTuple):
    """The address of a server, and the setting of its port."""

    subject: str
    host: str
    port: int
    setting: str


class _HealthChecks(NamedTuple):
    """The health checks of a server, and the names of the services that it covers."""

    servicer: health.aio.HealthServicer
    service_names: Sequence[str]

    async def report(self, *, is_ready: bool) -> None:
        """Report all services as ready, or as not ready."""
        states = health_pb2.HealthCheckResponse
        for name in self.service_names:
            await self.servicer.set(name, states.SERVING if is_ready else states.NOT_SERVING)


class _StartedServer(NamedTuple):
    """A running server: where, and what answers its health checks."""

    target: str
    health_checks: _HealthChecks


@dataclass(frozen=True, slots=True)
class ConsoleBackends:
    """The backends of pages: merchants' with ids of keys, operators' with the operator's token.

    They have no listener.
    """

    merchant_interceptor: AuthInterceptor
    operator_interceptor: AuthInterceptor
    register_operator: ServicerRegistration
    installation_secrets: InstallationSecrets

    @classmethod
    def create(
        cls,
        app: App,
        installation_secrets: InstallationSecrets,
        locks: IdempotencyLocks,
        register_operator: ServicerRegistration,
        stack: AsyncExitStack,
    ) -> Self:
        """Return gates in which mutations end before the stack is closed."""
        proven = Authenticator(
            app,
            installation_secrets.pepper,
            installation_secrets.operator_token,
            accepts_key_ids=True,
        )
        auth = Authenticator(app, installation_secrets.pepper, installation_secrets.operator_token)
        observe = observing.build_grpc_observer(app, RequestObservers(tracer=app.traces))
        merchants = AuthInterceptor(app, proven, PUBLIC_SERVICES, locks, observe=observe)
        operator = AuthInterceptor(app, auth, OPERATOR_SERVICES, locks, observe=observe)
        for gate in (merchants, operator):
            stack.push_async_callback(gate.drain)
        return cls(merchants, operator, register_operator, installation_secrets)


@dataclass(frozen=True, slots=True)
class GrpcServers:
    """Running servers and what the embedded gateway calls; `target` is empty without callers.

    `interceptor` is for its callers, `consoles` for its pages, and `authenticator` for callers of
    routes that are no RPCs.
    """

    target: str
    operator_target: str
    authenticator: Authenticator
    interceptor: AuthInterceptor
    consoles: ConsoleBackends
    locks: IdempotencyLocks
    register: ServicerRegistration
    health_checks: Sequence[_HealthChecks]

    @classmethod
    async def start(
        cls,
        app: App,
        installation_secrets: InstallationSecrets,
        stack: AsyncExitStack,
        certificates: CertificateStore | None = None,
        *,
        serves_callers: bool = True,
        is_shared: bool = False,
        is_ready: bool = True,
    ) -> Self:
        """Start both servers; the operator's uses plain text, on this machine only.

        With `is_shared` other processes of the same supervisor listen on the same ports. Without
        `is_ready` health checks report them as not ready until `set_ready`.
        """
        auth = Authenticator(app, installation_secrets.pepper, installation_secrets.operator_token)
        register = _create_public_registration(app)

        def register_operator(server: Any) -> None:
            servicer = OperatorServicer(app, installation_secrets.pepper)
            operator_pb2_grpc.add_OperatorServiceServicer_to_server(servicer, server)

        settings = app.settings
        if app.limit_sync is not None:
            # processes that answer calls share their limits
            await stack.enter_async_context(app.limit_sync.run_in_background())
        guards = IdempotencyLocks(app)
        token = find_token(settings) or installation_secrets.gateway_token
        peers = CallerResolver(token, get_proxies(settings))
        believed = settings.tracing.trusted_callers
        counted = app.meters if settings.metrics_port is not None else None
        seen = RequestObservers(counted, app.traces, believed)
        observe = observing.build_grpc_observer(app, seen, peers)
        serve = partial(_start_server, app=app, stack=stack, is_shared=is_shared, is_ready=is_ready)
        started: list[_StartedServer] = []
        if serves_callers:
            public = AuthInterceptor(
                app, auth, PUBLIC_SERVICES, guards, resolve_peer=peers, observe=observe
            )
            place = _ListenAddress("gRPC", settings.host, settings.grpc_port, GRPC_PORT_SETTING)
            credentials = None if certificates is None else certificates.build_grpc_credentials()
            started.append(await serve(public, register, place, credentials=credentials))
        operator = AuthInterceptor(app, auth, OPERATOR_SERVICES, guards, observe=observe)
        place = _ListenAddress(
            "The operator's gRPC", "127.0.0.1", settings.operator_port, OPERATOR_PORT_SETTING
        )
        started.append(await serve(operator, register_operator, place))
        # the embedded gateway has its own gate: it wraps handlers that are not the server's
        observe = observing.build_grpc_observer(app, RequestObservers(tracer=app.traces))
        embedded = AuthInterceptor(app, auth, PUBLIC_SERVICES, guards, observe=observe)
        stack.push_async_callback(embedded.drain)
        consoles = ConsoleBackends.create(
            app, installation_secrets, guards, register_operator, stack
        )
        targets = [started_server.target for started_server in started]
        return cls(
            "".join(targets[:-1]),
            targets[-1],
            auth,
            embedded,
            consoles,
            guards,
            register,
            [started_server.health_checks for started_server in started],
        )

    async def set_ready(self, *, is_ready: bool = True) -> None:
        """Report to health checks that calls are welcome, or should go elsewhere for now."""
        for health_checks in self.health_checks:
            await health_checks.report(is_ready=is_ready)

    async def report_stopping(self) -> None:
        """Report in health checks that calls should go elsewhere; they are still answered."""
        for health_checks in self.health_checks:
            await health_checks.servicer.enter_graceful_shutdown()


async def _start_server(
    gate: AuthInterceptor,
    register: ServicerRegistration,
    place: _ListenAddress,
    *,
    app: App,
    stack: AsyncExitStack,
    is_shared: bool,
    is_ready: bool,
    credentials: grpc.ServerCredentials | None = None,
) -> _StartedServer:
    settings = app.settings
    # a connection has as much time for its handshakes as for the head of a request
    in_time = ("grpc.server_handshake_timeout_ms", int(settings.request_head_s * 1000))
    ports = _build_shared_options(settings) if is_shared else _EXCLUSIVE_PORT
    server = grpc.aio.server(options=(*_OPTIONS, *ports, in_time))
    guarded = GuardedMethods(gate)
    register(guarded)
    names = [service.full_name for service in gate.services]
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, guarded)
    checked = _HealthChecks(healthy, ("", *names))
    await checked.report(is_ready=is_ready)
    register_reflection(gate.services, guarded)
    server.add_generic_rpc_handlers((guarded,))
    host, port = place.host, place.port
    if not is_shared:
        # gRPC's own complaint comes with a line of its C core
        require_free_port(*place)
    try:
        if credentials is None:
            bound = server.add_insecure_port(format_address(host, port))
        else:
            bound = server.add_secure_port(format_address(host, port), credentials)
    except RuntimeError as error:
        raise build_bind_error(*place, str(error)) from error
    await server.start()

    async def end() -> None:
        await healthy.enter_graceful_shutdown()
        await server.stop(settings.shutdown_s)
        await gate.drain()

    stack.push_async_callback(end)
    return _StartedServer(format_address(host, bound), checked)
