"""One process that does everything, or its role in it: gRPC, REST, workers, embedded chain."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from grpc_rest_gateway.server import HttpServer

from florin_server.app import archive, event_sink, log_redaction, stores
from florin_server.app import traces as tracing
from florin_server.app.app import build_app, build_core
from florin_server.app.chains import connected, prices
from florin_server.app.core import App, Core
from florin_server.app.home import InstallationSecrets, SetupError, StateFolder
from florin_server.app.housekeeping.records import record_start
from florin_server.app.housekeeping.store_time import set_to_store_time
from florin_server.app.role import FULL_ROLE, InheritedSockets, ProcessRole
from florin_server.app.sandbox import RunningEmbeddedChain
from florin_server.app.servers import gateway, metrics, public_address
from florin_server.app.servers.addresses import check_bind
from florin_server.app.servers.certificates import CertificateStore
from florin_server.app.servers.grpc_server import GrpcServers
from florin_server.app.servers.listeners import stop_listening
from florin_server.app.workers import BackgroundTasks, WorkerSet
from florin_server.base.clock import Clock, ShiftedClock, SystemClock
from florin_server.base.meters import Meters
from florin_server.base.tracing import Tracer
from florin_server.db import installation
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.credentials import parse_key
from florin_server.domain.cipher import Cipher
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.features.monitoring.service.process import ProcessFacts
from florin_server.features.receipts.service import keys
from florin_server.money.settlement.worker.senders import release_dead_leases
from florin_server.operations.store import executors
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.pricing.market import MarketPrices
from florin_server.rails.protocol import Rail
from florin_server.settings import Settings

_log = logging.getLogger(__name__)

# the time for calls on the newest connection
_MARGIN_S = 0.5
# between two checks of the store
_POLL_S = 1.0


@dataclass(slots=True)
class FlorinService:
    """A running service. Addresses hold the real ports; those of what it has not are empty."""

    settings: Settings
    home: StateFolder
    secrets: InstallationSecrets
    app: App
    grpc: GrpcServers
    http_url: str
    metrics_url: str
    workers: BackgroundTasks
    evm_chain: RunningEmbeddedChain | None
    solana_chain: RunningEmbeddedChain | None
    certificates: CertificateStore | None
    _http: HttpServer | None
    _stack: AsyncExitStack

    @classmethod
    async def start(
        cls,
        settings: Settings,
        *,
        role: ProcessRole = FULL_ROLE,
        inherited: InheritedSockets | None = None,
        clock: Clock | None = None,
        randbytes: Callable[[int], bytes] = os.urandom,
        fault_hook: Callable[[str], None] | None = None,
        tracer: Tracer | None = None,
        defers_ready: bool = False,
    ) -> Self:
        """Start everything and return when it answers.

        With `defers_ready` it is ready at `set_ready`. Supervisors set `inherited`, tests set
        `fault_hook`.
        """
        check_bind(settings)
        certificates = CertificateStore.from_settings(settings)
        home = StateFolder(settings.home).open()
        async with AsyncExitStack() as stack:
            # a file's lock, acquired first, keeps a second server away
            meters = Meters()
            store = await _open_store(settings, meters, fault_hook, stack)
            clock = clock or await _build_clock(settings, store)
            secrets = _open_secrets(settings, home)
            listener = _open_listener(settings, role, inherited, stack)
            started = await connected.start_chains(settings, home, secrets, clock, stack)
            home.keep_private()  # with the databases that were just created
            http_url = _get_http_url(listener, certificates)
            links = _build_links(settings, http_url)
            check_exposure = partial(
                public_address.list_conditions, settings, links.base_url, certificates
            )
            core = build_core(
                settings,
                store,
                clock,
                started.rails,
                links=links,
                check_exposure=check_exposure,
                prices=_build_market(settings, started.rails, stack),
                cipher=Cipher(secrets.capture_keys),
                meters=meters,
                tracer=tracing.start_tracer(settings, stack) if tracer is None else tracer,
                disabled_ids=_list_disabled_ids(settings, home),
                randbytes=randbytes,
                limits_key=secrets.limits_key,
            )
            staff = await _build_worker_set(core, role, inherited)
            app = build_app(core, staff.settlement_workers, staff.payout_workers)
            running = await _ServerStarter(
                app, secrets, certificates, inherited, stack, defers_ready
            ).start(role, staff, listener)
            return cls(
                settings=settings,
                home=home,
                secrets=secrets,
                app=app,
                grpc=running.grpc,
                http_url=http_url,
                metrics_url=running.metrics_url,
                workers=running.workers,
                evm_chain=started.evm,
                solana_chain=started.solana,
                certificates=certificates,
                _http=running.http,
                _stack=stack.pop_all(),
            )
        raise AssertionError

    @property
    def evm_rpc_url(self) -> str:
        """Return the embedded chain's JSON-RPC address; empty if it is off."""
        return self.evm_chain.rpc_url if self.evm_chain else ""

    @property
    def solana_rpc_url(self) -> str:
        """Return the embedded Solana chain's JSON-RPC address; empty if it is off."""
        return self.solana_chain.rpc_url if self.solana_chain else ""

    async def set_ready(self) -> None:
        """Report the service as ready, to `/readyz` and to health checks.

        Callers that start it with `prepares` write files first, for example demo.env.
        """
        self.workers.is_starting = False
        await self.grpc.set_ready()

    def reload_certificates(self) -> None:
        """Read the certificate's files now, if there are any."""
        if self.certificates is not None:
            self.certificates.reload_if_changed()

    async def drain(self) -> None:
        """Leave new connections to other processes on the same ports.

        Return when callers are there. Calls are answered meanwhile, also on existing connections.
        """
        if self._http is not None:
            await self._http.drain()
        targets = self.grpc.target, self.grpc.operator_target
        ports = [int(target.rpartition(":")[2]) for target in targets if target]
        if await stop_listening(*ports):
            # the core of gRPC takes up to a tenth more
            await asyncio.sleep(1.1 * self.settings.grpc_connection_s + _MARGIN_S)

    async def stop(self) -> None:
        """Report the end, end streams, let open calls finish, then close everything.

        What was started last is closed first.
        """
        self.workers.is_stopping = True
        await self.grpc.report_stopping()
        await self.app.clock.sleep(self.settings.drain_s)
        await self._stack.aclose()


class _RunningServers(NamedTuple):
    """The servers and workers that run."""

    grpc: GrpcServers
    workers: BackgroundTasks
    http: HttpServer | None
    metrics_url: str


@dataclass(frozen=True, slots=True)
class _ServerStarter:
    """Starts servers and workers, one after the other."""

    app: App
    installation_secrets: InstallationSecrets
    certificates: CertificateStore | None
    inherited: InheritedSockets | None
    stack: AsyncExitStack
    defers_ready: bool

    async def start(
        self, role: ProcessRole, staff: WorkerSet, listener: socket.socket | None
    ) -> _RunningServers:
        await record_start(self.app)
        archive.require_usable(self.app.settings)
        await event_sink.start_queue(self.app, runs_workers=role.runs_workers)
        grpc = await self._start_grpc(role)
        workers = BackgroundTasks(self.app, staff)
        workers.is_starting = self.defers_ready
        self.stack.push_async_callback(workers.stop)
        following = asyncio.create_task(_report_store_health(self.app, grpc, workers))
        self.stack.callback(following.cancel)
        http = None if listener is None else await self._start_rest(grpc, listener, workers)
        self.stack.callback(self.app.notifier.close)
        return _RunningServers(grpc, workers, http, await self._start_metrics(grpc))

    async def _start_grpc(self, role: ProcessRole) -> GrpcServers:
        return await GrpcServers.start(
            self.app,
            self.installation_secrets,
            self.stack,
            self.certificates,
            serves_callers=role.serves_callers,
            is_shared=self.inherited is not None,
            is_ready=not self.defers_ready,
        )

    async def _start_rest(
        self, grpc: GrpcServers, listener: socket.socket, workers: BackgroundTasks
    ) -> HttpServer:
        # known to all readers before it signs anything
        await keys.ensure_key(self.app)
        problems, certificates = workers.find_problems, self.certificates
        return await gateway.start_gateway(
            self.app, grpc, listener, self.stack, problems, certificates=certificates
        )

    async def _start_metrics(self, grpc: GrpcServers) -> str:
        scraped = None if self.inherited is None else self.inherited.metrics
        restarts = None if self.inherited is None else self.inherited.restart_count

        def facts() -> ProcessFacts:
            shown = self.certificates
            return ProcessFacts(
                restarts, None if shown is None else shown.pair.valid_until.timestamp()
            )

        return await metrics.start_metrics(self.app, grpc, self.stack, scraped, read_facts=facts)


async def _report_store_health(app: App, grpc: GrpcServers, workers: BackgroundTasks) -> None:
    """Work until canceled: have health checks of gRPC report a lost store as `/readyz` does."""
    ready = True
    while True:
        await app.clock.sleep(_POLL_S)
        reached = not app.store_health.describe_unready(app.clock.steady_us())
        if reached is not ready and not workers.is_starting:
            ready = reached
            await grpc.set_ready(is_ready=ready)


async def _build_worker_set(
    core: Core, role: ProcessRole, inherited: InheritedSockets | None
) -> WorkerSet:
    """Return the workers of the chains, or stand-ins.

    Leases of dead processes are free for them.
    """
    if inherited is not None:
        await release_dead_leases(core.store, inherited.dead_owners)
    owner = "" if inherited is None else inherited.lease_owner
    pay_out = [
        f"{rail.chain_id}:{rail.payouts.sender}" for rail in core.rails.values() if rail.payouts
    ]
    copied_at_us = await core.store.write(executors.pause_on_copy(pay_out, core.clock.now_us()))
    pauses = await core.store.read(executors.list_pauses())
    return WorkerSet.create(
        core, pauses, runs_workers=role.runs_workers, lease_owner=owner, copied_at_us=copied_at_us
    )


def _open_listener(
    settings: Settings, role: ProcessRole, inherited: InheritedSockets | None, stack: AsyncExitStack
) -> socket.socket | None:
    """Return the address of REST, if it is served."""
    if not role.serves_callers:
        return None
    listener = (
        gateway.bind_socket(settings.host, settings.http_port)
        if inherited is None
        else inherited.http
    )
    stack.callback(listener.close)
    return listener


def _list_disabled_ids(settings: Settings, home: StateFolder) -> frozenset[str]:
    """Return the test accounts' keys and app id, where they must not work."""
    demo_env = {} if settings.has_demo else home.read_demo_env()
    if demo_env:
        _log.warning(
            "embedded chains and the test accounts of %s are off, because a live chain exists, "
            "FLORIN_DEMO is false, or florin-sandbox is not installed",
            home.demo_env_path,
        )
    keys = (parse_key(demo_env.get(f"FLORIN_{kind}_KEY", "")) for kind in ("PARTNER", "WALLET"))
    return frozenset([demo_env.get("FLORIN_APP_ID", ""), *(key.key_id for key in keys if key)])


def _build_market(settings: Settings, rails: Sequence[Rail], stack: AsyncExitStack) -> MarketPrices:
    readers = {rail.chain_id: rail.reader for rail in rails if isinstance(rail, EvmRail)}
    market = prices.build_market(settings, readers)
    stack.push_async_callback(market.close)
    return market


def _open_secrets(settings: Settings, home: StateFolder) -> InstallationSecrets:
    """Return the secrets of the installation, which the log leaves out from now on."""
    installation_secrets = home.get_or_create_secrets()
    log_redaction.hide_settings(settings, *log_redaction.list_secret_forms(installation_secrets))
    return installation_secrets


def _get_http_url(listener: socket.socket | None, certificates: CertificateStore | None) -> str:
    return "" if listener is None else gateway.get_url(listener, tls=certificates is not None)


async def _open_store(
    settings: Settings,
    meters: Meters,
    fault_hook: Callable[[str], None] | None,
    stack: AsyncExitStack,
) -> Store:
    store = await stores.open_configured_store(
        settings, fault_hook=meters.create_store_step_counter(fault_hook)
    )
    stack.push_async_callback(store.close)
    return store


async def _build_clock(settings: Settings, store: Store) -> Clock:
    """Return the store's time or else the machine's, moved on where tests may do that.

    No chain but an embedded one would follow.
    """
    ahead_us = await store.read(installation.get_clock_offset())
    embedded_only = not settings.chains and not settings.solana_chains
    if ahead_us and not embedded_only:
        raise SetupError(
            "tests moved the clock of this installation, which only embedded chains follow: "
            "start with a new state folder (--home)"
        )
    clock = ShiftedClock(ahead_us) if embedded_only else SystemClock()
    await set_to_store_time(store, clock)
    return clock


def _build_links(settings: Settings, http_url: str) -> CheckoutLinks:
    base = settings.pay_url.rstrip("/") or http_url
    if not base:
        # a process without callers is not asked
        return CheckoutLinks("", frozenset())
    host = urlsplit(base).hostname
    if host is None:
        raise SetupError(f"pay_url is not a valid URL: {settings.pay_url}")
    if settings.has_live and (link_problem := public_address.find_link_problem(base)):
        _log.warning("%s: set FLORIN_PAY_URL", link_problem)
    return CheckoutLinks(base, frozenset({host}))
