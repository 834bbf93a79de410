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

from florin_server.boot.home import Secrets
from florin_server.boot.servers import observing
from florin_server.boot.servers.addresses import (
    GRPC_PORT,
    OPERATOR_PORT,
    check_free,
    refused,
    spelled,
)
from florin_server.boot.servers.certificates import Certificates
from florin_server.boot.servers.observing import Seen
from florin_server.boot.servers.peers import Peers, chosen_token, proxies_of
from florin_server.boot.servers.reflection import reflect
from florin_server.config import Settings
from florin_server.flows.app import App
from florin_server.rpc.accounts.admin import AdminServicer
from florin_server.rpc.operator.service import OperatorServicer
from florin_server.rpc.payments.codec import Codec
from florin_server.rpc.payments.gateway import GatewayServicer
from florin_server.rpc.payments.merchant import MerchantServicer
from florin_server.rpc.server.auth import Authenticator
from florin_server.rpc.server.guarded import Guarded
from florin_server.rpc.server.idempotency import Guards
from florin_server.rpc.server.interceptors import Gate
from florin_server.rpc.webhooks.webhooks import WebhookServicer

Register = Callable[[Any], None]

PUBLIC: tuple[ServiceDescriptor, ...] = (
    gateway_pb2.DESCRIPTOR.services_by_name["GatewayService"],
    merchant_pb2.DESCRIPTOR.services_by_name["MerchantService"],
    admin_pb2.DESCRIPTOR.services_by_name["AdminService"],
    webhook_service_pb2.DESCRIPTOR.services_by_name["WebhookService"],
)
OPERATOR: tuple[ServiceDescriptor, ...] = (
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
    # clients dial again by themselves
    ("grpc.max_connection_idle_ms", 300_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
)


# a second server on the same port would silently get half of the calls
_ALONE = (("grpc.so_reuseport", 0),)


def _shared(settings: Settings) -> tuple[tuple[str, int], ...]:
    """A connection that stays with one process would find it gone at the next reload."""
    age_ms = int(settings.grpc_connection_s * 1000)
    return ("grpc.so_reuseport", 1), ("grpc.max_connection_age_ms", age_ms)


class _Place(NamedTuple):
    """Who listens where, and what chooses another port."""

    what: str
    host: str
    port: int
    setting: str


class _Health(NamedTuple):
    """What answers health checks of a server, and the names of the services that it answers for."""

    servicer: health.aio.HealthServicer
    names: Sequence[str]

    async def report(self, *, ready: bool) -> None:
        """Report all services as ready, or as not ready."""
        states = health_pb2.HealthCheckResponse
        for name in self.names:
            await self.servicer.set(name, states.SERVING if ready else states.NOT_SERVING)


class _Started(NamedTuple):
    """A running server: where, and what answers its health checks."""

    target: str
    health: _Health


@dataclass(frozen=True, slots=True)
class Consoles:
    """What pages call through: `merchants` takes ids of keys, `operator` the operator's token.

    No listener has them.
    """

    merchants: Gate
    operator: Gate
    register_operator: Register
    kept: Secrets

    @classmethod
    def of(
        cls,
        app: App,
        kept: Secrets,
        guards: Guards,
        register_operator: Register,
        stack: AsyncExitStack,
    ) -> Self:
        """Gates that mutations end in before the stack is closed."""
        proven = Authenticator(app, kept.pepper, kept.operator_token, proven=True)
        auth = Authenticator(app, kept.pepper, kept.operator_token)
        observe = observing.of_grpc(app, Seen(traces=app.traces))
        merchants = Gate(app, proven, PUBLIC, guards, observe=observe)
        operator = Gate(app, auth, OPERATOR, guards, observe=observe)
        for gate in (merchants, operator):
            stack.push_async_callback(gate.drain)
        return cls(merchants, operator, register_operator, kept)


@dataclass(frozen=True, slots=True)
class GrpcServers:
    """Running servers and what the embedded gateway calls; `target` is empty without callers.

    `gate` is for its callers, `consoles` for its pages.
    """

    target: str
    operator_target: str
    gate: Gate
    consoles: Consoles
    guards: Guards
    register: Register
    healthy: Sequence[_Health]

    @classmethod
    async def start(
        cls,
        app: App,
        kept: Secrets,
        stack: AsyncExitStack,
        certificates: Certificates | None = None,
        *,
        answers_callers: bool = True,
        shared: bool = False,
        ready: bool = True,
    ) -> Self:
        """Starts both servers; the operator's speaks plain text, to this machine only.

        With `shared` other processes of the same supervisor listen on the same ports. Without
        `ready` health checks report them as not ready until `set_ready`.
        """
        answers = Codec(app)
        auth = Authenticator(app, kept.pepper, kept.operator_token)
        gateway = GatewayServicer(app, answers)
        merchant = MerchantServicer(app, answers)
        admin = AdminServicer(app, answers)
        webhooks = WebhookServicer(app)

        def register(server: Any) -> None:
            gateway_pb2_grpc.add_GatewayServiceServicer_to_server(gateway, server)
            merchant_pb2_grpc.add_MerchantServiceServicer_to_server(merchant, server)
            admin_pb2_grpc.add_AdminServiceServicer_to_server(admin, server)
            webhook_service_pb2_grpc.add_WebhookServiceServicer_to_server(webhooks, server)

        def register_operator(server: Any) -> None:
            servicer = OperatorServicer(app, kept.pepper)
            operator_pb2_grpc.add_OperatorServiceServicer_to_server(servicer, server)

        settings = app.settings
        if app.sharing is not None:
            # who answers calls keeps their limits together with the others
            await stack.enter_async_context(app.sharing.running())
        guards = Guards(app)
        token = chosen_token(settings) or kept.gateway_token
        peers = Peers(token, proxies_of(settings))
        believed = settings.tracing.trusted_callers
        counted = app.meters if settings.metrics_port is not None else None
        seen = Seen(counted, app.traces, believed)
        observe = observing.of_grpc(app, seen, peers)
        serve = partial(_serve, app=app, stack=stack, shared=shared, ready=ready)
        started: list[_Started] = []
        if answers_callers:
            public = Gate(app, auth, PUBLIC, guards, peer_of=peers, observe=observe)
            place = _Place("gRPC", settings.host, settings.grpc_port, GRPC_PORT)
            credentials = None if certificates is None else certificates.grpc()
            started.append(await serve(public, register, place, credentials=credentials))
        operator = Gate(app, auth, OPERATOR, guards, observe=observe)
        place = _Place("The operator's gRPC", "127.0.0.1", settings.operator_port, OPERATOR_PORT)
        started.append(await serve(operator, register_operator, place))
        # the embedded gateway gets a gate of its own: it wraps handlers that are not the server's
        observe = observing.of_grpc(app, Seen(traces=app.traces))
        embedded = Gate(app, auth, PUBLIC, guards, observe=observe)
        stack.push_async_callback(embedded.drain)
        consoles = Consoles.of(app, kept, guards, register_operator, stack)
        targets = [one.target for one in started]
        return cls(
            "".join(targets[:-1]),
            targets[-1],
            embedded,
            consoles,
            guards,
            register,
            [one.health for one in started],
        )

    async def set_ready(self, *, ready: bool = True) -> None:
        """Report to health checks that calls are welcome, or should go elsewhere for now."""
        for one in self.healthy:
            await one.report(ready=ready)

    async def tell_end(self) -> None:
        """Tells health checks that calls should go elsewhere; they are answered still."""
        for one in self.healthy:
            await one.servicer.enter_graceful_shutdown()


async def _serve(
    gate: Gate,
    register: Register,
    place: _Place,
    *,
    app: App,
    stack: AsyncExitStack,
    shared: bool,
    ready: bool,
    credentials: grpc.ServerCredentials | None = None,
) -> _Started:
    settings = app.settings
    # a connection gets as long for its handshakes as for the head of a request
    in_time = ("grpc.server_handshake_timeout_ms", int(settings.request_head_s * 1000))
    ports = _shared(settings) if shared else _ALONE
    server = grpc.aio.server(options=(*_OPTIONS, *ports, in_time))
    guarded = Guarded(gate)
    register(guarded)
    names = [service.full_name for service in gate.services]
    healthy = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(healthy, guarded)
    checked = _Health(healthy, ("", *names))
    await checked.report(ready=ready)
    reflect(gate.services, guarded)
    server.add_generic_rpc_handlers((guarded,))
    host, port = place.host, place.port
    if not shared:
        # gRPC's own complaint comes with a line of its C core
        check_free(*place)
    try:
        if credentials is None:
            bound = server.add_insecure_port(spelled(host, port))
        else:
            bound = server.add_secure_port(spelled(host, port), credentials)
    except RuntimeError as error:
        raise refused(*place, str(error)) from error
    await server.start()

    async def end() -> None:
        await healthy.enter_graceful_shutdown()
        await server.stop(settings.shutdown_s)
        await gate.drain()

    stack.push_async_callback(end)
    return _Started(spelled(host, bound), checked)
