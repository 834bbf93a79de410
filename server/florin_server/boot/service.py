"""One process that does everything, or its role in it: gRPC, REST, workers, embedded chain."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from florin_gateway.server import HttpServer

from florin_server.boot import hidden, stores, webhooks
from florin_server.boot import traces as tracing
from florin_server.boot.app import app_of, core_of
from florin_server.boot.chains import connected, prices
from florin_server.boot.chains.embedded import Embedded
from florin_server.boot.home import Home, Refused, Secrets
from florin_server.boot.role import EVERYTHING, Handed, Role
from florin_server.boot.servers import gateway, metrics, public_address
from florin_server.boot.servers.addresses import check_bind
from florin_server.boot.servers.certificates import Certificates
from florin_server.boot.servers.grpc_server import GrpcServers
from florin_server.boot.servers.listeners import stop_listening
from florin_server.boot.workers import Staff, Workers
from florin_server.clock import Clock, ShiftedClock, SystemClock
from florin_server.config import Settings
from florin_server.domain.accounts.credentials import parse_key
from florin_server.domain.sealed import Seal
from florin_server.flows.app import App, Core, Links
from florin_server.flows.operator.process import ProcessFacts
from florin_server.flows.receipts import keys
from florin_server.meters import Meters
from florin_server.pricing.market import Market
from florin_server.rails.evm.rail import EvmRail
from florin_server.rails.protocol import Rail
from florin_server.store.engine.store import Store
from florin_server.store.operator import executors, installation
from florin_server.tracing import Traces
from florin_server.workers.housekeeping.store_time import set_to_store_time
from florin_server.workers.settlement.senders import free_of_dead

_log = logging.getLogger(__name__)

# what calls on the newest connection get
_MARGIN_S = 0.5
# between two looks at whether the store is reached
_LOOK_S = 1.0


@dataclass(slots=True)
class Service:
    """A running service. Addresses hold the real ports; those of what it has not are empty."""

    settings: Settings
    home: Home
    secrets: Secrets
    app: App
    grpc: GrpcServers
    http_url: str
    metrics_url: str
    workers: Workers
    evm: Embedded | None
    solana: Embedded | None
    certificates: Certificates | None
    _http: HttpServer | None
    _stack: AsyncExitStack

    @classmethod
    async def start(
        cls,
        settings: Settings,
        *,
        role: Role = EVERYTHING,
        handed: Handed | None = None,
        clock: Clock | None = None,
        randbytes: Callable[[int], bytes] = os.urandom,
        fault: Callable[[str], None] | None = None,
        traces: Traces | None = None,
        prepares: bool = False,
    ) -> Self:
        """Starts everything and returns when it answers.

        With `prepares` it is ready at `set_ready`. Supervisors set `handed`, tests set `fault`.
        """
        check_bind(settings)
        certificates = Certificates.of(settings)
        home = Home(settings.home).open()
        async with AsyncExitStack() as stack:
            # a file's lock, taken first, keeps a second server away from all the rest
            meters = Meters()
            store = await stores.opened(settings, fault=meters.steps(fault))
            stack.push_async_callback(store.close)
            clock = clock or await _clock(settings, store)
            kept = home.secrets()
            hidden.hide(settings, *hidden.of(kept))
            listener = _listener(settings, role, handed, stack)
            started = await connected.start(settings, home, kept, clock, stack)
            # databases that were just made
            home.keep_private()
            tls = certificates is not None
            http_url = "" if listener is None else gateway.url_of(listener, tls=tls)
            links = _links(settings, http_url)
            core = core_of(
                settings,
                store,
                clock,
                started.rails,
                links=links,
                outside=lambda: public_address.conditions(settings, links.base, certificates),
                prices=_market(settings, started.rails, stack),
                seal=Seal(kept.capture_keys),
                meters=meters,
                traces=tracing.start(settings, stack) if traces is None else traces,
                off=_off(settings, home),
                randbytes=randbytes,
                limits_key=kept.limits_key,
            )
            staff = await _staff(core, role, handed)
            app = app_of(core, staff.settlers, staff.payouts)
            app.webhooks.body = webhooks.bodies()
            calls = _Calls(app, kept, certificates, handed, stack, prepares)
            running = await calls.start(role, staff, listener)
            return cls(
                settings=settings,
                home=home,
                secrets=kept,
                app=app,
                grpc=running.grpc,
                http_url=http_url,
                metrics_url=running.metrics_url,
                workers=running.workers,
                evm=started.evm,
                solana=started.solana,
                certificates=certificates,
                _http=running.http,
                _stack=stack.pop_all(),
            )
        raise AssertionError

    @property
    def evm_rpc_url(self) -> str:
        """The embedded chain's JSON-RPC address; empty if it is off."""
        return self.evm.rpc_url if self.evm else ""

    @property
    def solana_rpc_url(self) -> str:
        """The embedded Solana chain's JSON-RPC address; empty if it is off."""
        return self.solana.rpc_url if self.solana else ""

    async def set_ready(self) -> None:
        """Report the service as ready, to `/readyz` and to health checks.

        Callers who start it with `prepares` write files first, for example demo.env.
        """
        self.workers.starting = False
        await self.grpc.set_ready()

    def look_again(self) -> None:
        """Reads the certificate's files now, if there are any."""
        if self.certificates is not None:
            self.certificates.look()

    async def make_way(self) -> None:
        """Leaves new connections to others on the same ports; returns when callers are there.

        Calls are answered meanwhile, those on connections that there are too.
        """
        if self._http is not None:
            await self._http.make_way()
        targets = self.grpc.target, self.grpc.operator_target
        ports = [int(one.rpartition(":")[2]) for one in targets if one]
        if await stop_listening(*ports):
            # the core of gRPC takes up to a tenth more
            await asyncio.sleep(1.1 * self.settings.grpc_connection_s + _MARGIN_S)

    async def stop(self) -> None:
        """Tells that it ends, ends streams, lets open calls finish, then closes everything.

        What was started last is closed first.
        """
        self.workers.ending = True
        await self.grpc.tell_end()
        await self.app.clock.sleep(self.settings.drain_s)
        await self._stack.aclose()


class _Running(NamedTuple):
    """Who answers and who works."""

    grpc: GrpcServers
    workers: Workers
    http: HttpServer | None
    metrics_url: str


@dataclass(frozen=True, slots=True)
class _Calls:
    """Starts who listens, and who works, one after the other."""

    app: App
    kept: Secrets
    certificates: Certificates | None
    handed: Handed | None
    stack: AsyncExitStack
    prepares: bool

    async def start(self, role: Role, staff: Staff, listener: socket.socket | None) -> _Running:
        grpc = await self._grpc(role)
        workers = Workers(self.app, staff)
        workers.starting = self.prepares
        self.stack.push_async_callback(workers.end)
        following = asyncio.create_task(_follow_store(self.app, grpc, workers))
        self.stack.callback(following.cancel)
        http = None if listener is None else await self._rest(grpc, listener, workers)
        self.stack.callback(self.app.hub.close)
        self.stack.callback(self.app.payouts.close)
        return _Running(grpc, workers, http, await self._metrics(grpc))

    async def _grpc(self, role: Role) -> GrpcServers:
        return await GrpcServers.start(
            self.app,
            self.kept,
            self.stack,
            self.certificates,
            answers_callers=role.answers,
            shared=self.handed is not None,
            ready=not self.prepares,
        )

    async def _rest(
        self, grpc: GrpcServers, listener: socket.socket, workers: Workers
    ) -> HttpServer:
        # known to all before anything is signed with it
        await keys.ensure(self.app)
        problems, certificates = workers.problems, self.certificates
        return await gateway.start(
            self.app, grpc, listener, self.stack, problems, certificates=certificates
        )

    async def _metrics(self, grpc: GrpcServers) -> str:
        scraped = None if self.handed is None else self.handed.metrics
        restarts = None if self.handed is None else self.handed.restarts

        def facts() -> ProcessFacts:
            shown = self.certificates
            return ProcessFacts(restarts, None if shown is None else shown.pair.until.timestamp())

        return await metrics.start(self.app, grpc, self.stack, scraped, facts=facts)


async def _follow_store(app: App, grpc: GrpcServers, workers: Workers) -> None:
    """Work until cancelled: have health checks of gRPC report a lost store as `/readyz` does."""
    ready = True
    while True:
        await app.clock.sleep(_LOOK_S)
        reached = not app.store_health.unready(app.clock.steady_us())
        if reached is not ready and not workers.starting:
            ready = reached
            await grpc.set_ready(ready=ready)


async def _staff(core: Core, role: Role, handed: Handed | None) -> Staff:
    """Who works on the chains, or looks on; what dead processes had is free for them."""
    if handed is not None:
        await free_of_dead(core.store, handed.dead)
    owner = "" if handed is None else handed.owner
    pay_out = [
        f"{rail.chain_id}:{rail.payouts.sender}" for rail in core.rails.values() if rail.payouts
    ]
    copied_at_us = await core.store.write(executors.begin(pay_out, core.clock.now_us()))
    pauses = await core.store.read(executors.pauses())
    return Staff.of(core, pauses, settles=role.settles, owner=owner, copied_at_us=copied_at_us)


def _listener(
    settings: Settings, role: Role, handed: Handed | None, stack: AsyncExitStack
) -> socket.socket | None:
    """Where REST is served, if it is."""
    if not role.answers:
        return None
    found = gateway.bind(settings.host, settings.http_port) if handed is None else handed.http
    stack.callback(found.close)
    return found


def _off(settings: Settings, home: Home) -> frozenset[str]:
    """The test accounts' keys and app id, where they must not work."""
    told = {} if settings.has_demo else home.read_demo_env()
    if told:
        _log.warning(
            "embedded chains and the test accounts of %s are off, as there is a live chain or "
            "FLORIN_DEMO says so",
            home.demo_env,
        )
    keys = (parse_key(told.get(f"FLORIN_{kind}_KEY", "")) for kind in ("PARTNER", "WALLET"))
    return frozenset([told.get("FLORIN_APP_ID", ""), *(one.key_id for one in keys if one)])


def _market(settings: Settings, rails: Sequence[Rail], stack: AsyncExitStack) -> Market:
    readers = {rail.chain_id: rail.reader for rail in rails if isinstance(rail, EvmRail)}
    market = prices.market(settings, readers)
    stack.push_async_callback(market.close)
    return market


async def _clock(settings: Settings, store: Store) -> Clock:
    """The store's time or else the machine's, moved on where tests may do that.

    No chain but an embedded one would follow.
    """
    ahead_us = await store.read(installation.clock_ahead())
    embedded_only = not settings.chains and not settings.solana_chains
    if ahead_us and not embedded_only:
        raise Refused(
            "the time of this installation was moved on by tests, which no other chain than an "
            "embedded one follows: begin a new one (--home)"
        )
    clock = ShiftedClock(ahead_us) if embedded_only else SystemClock()
    await set_to_store_time(store, clock)
    return clock


def _links(settings: Settings, http_url: str) -> Links:
    base = settings.pay_url.rstrip("/") or http_url
    if not base:
        # nobody asks a process that answers no callers
        return Links("", frozenset())
    host = urlsplit(base).hostname
    if host is None:
        raise Refused(f"pay_url is no address: {settings.pay_url}")
    if settings.has_live and (told := public_address.problem(base)):
        _log.warning("%s: set FLORIN_PAY_URL", told)
    return Links(base, frozenset({host}))
