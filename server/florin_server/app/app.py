"""Build the state that services share: for a server, for commands without one, for tests."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Protocol

from florin_server.app.core import App, Core
from florin_server.base.clock import Clock
from florin_server.base.feed import PaymentFeed
from florin_server.base.meters import Meters
from florin_server.base.notifier import Notifier
from florin_server.base.process_bus import ProcessBus
from florin_server.base.tracing import NULL_TRACER, Tracer
from florin_server.compliance.screening.service.cache import ScreeningCache
from florin_server.db.engine.store import Store
from florin_server.domain.cipher import Cipher
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ConditionTracker
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.domain.payments.payment import Payment
from florin_server.domain.screening.blocklist import Blocklist
from florin_server.features.icons.service import IconCache
from florin_server.features.monitoring.service.health import (
    CHAIN_CONDITIONS,
    INSTALLATION_CONDITIONS,
)
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.shared_limits import LimitSync
from florin_server.money.archive.service.reader import PaymentArchive
from florin_server.money.payments.store import payments
from florin_server.operations.process import ProcessName
from florin_server.operations.roles import KeySender, LeasedWorker
from florin_server.operations.service.quarantine import Quarantine
from florin_server.rails.chain_state import ChainState
from florin_server.rails.pricing.prices import FixedPrices, PriceSource
from florin_server.rails.protocol import Rail
from florin_server.rails.wallets import list_wallets
from florin_server.settings import Settings

_EMPTY_LINKS = CheckoutLinks("", frozenset())
_EMPTY_PRICES = FixedPrices({})


class ExecutorWorker(LeasedWorker, Protocol):
    """A settler or payout worker, with the keys that it alone uses."""

    @property
    def chain_id(self) -> str:
        """Return the CAIP-2 id of its chain."""

    @property
    def executors(self) -> Sequence[ExecutorSender]:
        """Return its senders."""


class ExecutorSender(KeySender, Protocol):
    """A sender that knows which account it sends from."""

    @property
    def account(self) -> str:
        """Return the account, CAIP-10."""


def build_core(
    settings: Settings,
    store: Store,
    clock: Clock,
    rails: Iterable[Rail],
    *,
    links: CheckoutLinks = _EMPTY_LINKS,
    prices: PriceSource = _EMPTY_PRICES,
    cipher: Cipher | None = None,
    meters: Meters | None = None,
    tracer: Tracer = NULL_TRACER,
    disabled_ids: frozenset[str] = frozenset(),
    check_exposure: Callable[[], Mapping[ConditionName, str]] = dict,
    randbytes: Callable[[int], bytes] = os.urandom,
    limits_key: bytes | None = None,
) -> Core:
    """Return the state that services and workers share; every rail has one.

    With a `limits_key` limits apply to all processes on the store together.
    """
    by_chain = {rail.chain_id: rail for rail in rails}
    meters = meters or Meters()
    notifier = build_notifier(store, clock, meters, tracer, randbytes)
    for rail in by_chain.values():
        meters.initialize_chain(rail.chain_id, list_wallets(rail))
    limits, sharing = ServiceLimits(settings.limits, clock, meters), None
    if limits_key is not None and not store.is_exclusive:
        name = randbytes(8).hex()
        sharing = LimitSync(limits, store, clock, meters, secret=limits_key, process_id=name)
    return Core(
        settings=settings,
        clock=clock,
        randbytes=randbytes,
        store=store,
        notifier=notifier,
        links=links,
        rails=MappingProxyType(by_chain),
        chains=MappingProxyType({chain_id: _build_chain_state(clock) for chain_id in by_chain}),
        limits=limits,
        icons=IconCache(store, clock, enabled=settings.fetch_icons),
        archive=PaymentArchive(store, clock.now_us, settings.archive.folder),
        limit_sync=sharing,
        meters=meters,
        traces=tracer,
        screening=ScreeningCache(store, clock, notifier),
        conditions=ConditionTracker(INSTALLATION_CONDITIONS, clock.now_us),
        process_name=_build_process_name(store),
        quarantine=Quarantine(store, clock, randbytes, notifier),
        disabled_ids=disabled_ids,
        check_exposure=check_exposure,
        blocklist=Blocklist(settings.blocked_accounts),
        cipher=cipher or Cipher(),
        prices=prices,
    )


def build_notifier(
    store: Store,
    clock: Clock,
    meters: Meters,
    tracer: Tracer = NULL_TRACER,
    randbytes: Callable[[int], bytes] = os.urandom,
) -> Notifier:
    """Return the notifications of a process on a store; changes of payments are also measured."""

    def record_change(payment: Payment) -> None:
        meters.record_payment_change(payment.status)
        if payment.status.is_final:
            times = payment.created_at_us, payment.updated_at_us
            tracer.record_root(payment.id, "payment", *times, status=payment.status)

    has_channel = store.notification_channel is not None
    return Notifier(
        PaymentFeed(store.payments.find, lambda seen: store.read(payments.list_newer(seen)), clock),
        ProcessBus(randbytes(8).hex(), meters) if has_channel else ProcessBus(),
        record_change,
    )


def _build_process_name(store: Store) -> ProcessName:
    host = socket.gethostname()
    if store.is_exclusive:
        # the next process on the machine continues what this one reported
        return ProcessName(f"process:{host}", host)
    label = f"{host}:{os.getpid()}"
    return ProcessName(f"process:{label}:{secrets.token_hex(4)}", host, label)


def _build_chain_state(clock: Clock) -> ChainState:
    return ChainState(ConditionTracker(CHAIN_CONDITIONS, clock.now_us))


def build_app(
    core: Core, settlers: Sequence[ExecutorWorker] = (), payouts: Sequence[ExecutorWorker] = ()
) -> App:
    """Return a service with the workers of its core; workers cannot be added later."""
    executors = {
        sender.account: sender for worker in (*settlers, *payouts) for sender in worker.executors
    }
    return App(
        **{field.name: getattr(core, field.name) for field in fields(Core)},
        settlers=MappingProxyType({worker.chain_id: worker for worker in settlers}),
        payout_workers=MappingProxyType({worker.chain_id: worker for worker in payouts}),
        executors=MappingProxyType(executors),
    )
