"""Puts together what the flows work with: for a service, for commands without one, for tests."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import Protocol

from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import Board
from florin_server.domain.screening.blocklist import Blocklist
from florin_server.domain.sealed import Seal
from florin_server.feed import Hub
from florin_server.flows.app import (
    Accounts,
    App,
    ChainState,
    Core,
    Links,
    ProcessName,
    Sender,
    Settler,
)
from florin_server.flows.icons.icons import Icons
from florin_server.flows.ledger.postings import wallets_of
from florin_server.flows.limits.limits import Limits
from florin_server.flows.limits.sharing import Sharing
from florin_server.flows.operator.health import OF_CHAIN, OF_INSTALLATION
from florin_server.flows.quarantine.quarantine import Quarantine
from florin_server.flows.screening.cache import Screening
from florin_server.hints import Hints
from florin_server.meters import Meters
from florin_server.pricing.prices import FixedPrices, PriceSource
from florin_server.rails.protocol import Rail
from florin_server.store.engine.store import Store
from florin_server.store.payments import payments
from florin_server.tracing import NO_TRACES, Traces

_NO_LINKS = Links("", frozenset())
_NO_PRICES = FixedPrices({})


class Worker(Settler, Protocol):
    """A settler or payout worker, with the keys that it alone uses."""

    @property
    def chain_id(self) -> str:
        """CAIP-2 of the chain that it works on."""

    @property
    def executors(self) -> Sequence[Executor]:
        """Who sends for it."""


class Executor(Sender, Protocol):
    """A sender that knows which account it sends from."""

    @property
    def account(self) -> str:
        """CAIP-10."""


def core_of(
    settings: Settings,
    store: Store,
    clock: Clock,
    rails: Iterable[Rail],
    *,
    links: Links = _NO_LINKS,
    prices: PriceSource = _NO_PRICES,
    seal: Seal | None = None,
    meters: Meters | None = None,
    traces: Traces = NO_TRACES,
    off: frozenset[str] = frozenset(),
    outside: Callable[[], Mapping[ConditionName, str]] = dict,
    randbytes: Callable[[int], bytes] = os.urandom,
    limits_key: bytes | None = None,
) -> Core:
    """What flows and workers share; every rail has a state.

    With a `limits_key` limits hold for all processes that have the store.
    """
    by_chain = {rail.chain_id: rail for rail in rails}
    meters = meters or Meters()
    hints = Hints() if store.notices is None else Hints(randbytes(8).hex(), meters)
    for rail in by_chain.values():
        meters.expect(rail.chain_id, wallets_of(rail))
    limits, sharing = Limits(settings.limits, clock, meters), None
    if limits_key is not None and not store.exclusive:
        name = randbytes(8).hex()
        sharing = Sharing(limits, store, clock, meters, secret=limits_key, process=name)
    return Core(
        settings=settings,
        clock=clock,
        randbytes=randbytes,
        store=store,
        hub=Hub(store.reader.payment, lambda seen: store.read(payments.newer(seen)), clock),
        links=links,
        rails=MappingProxyType(by_chain),
        chains=MappingProxyType({chain_id: _state(clock) for chain_id in by_chain}),
        limits=limits,
        icons=Icons(store, clock, enabled=settings.fetch_icons),
        sharing=sharing,
        meters=meters,
        traces=traces,
        screening=Screening(store, clock, hints),
        accounts=Accounts(hints),
        hints=hints,
        board=Board(OF_INSTALLATION, clock.now_us),
        process=_process(store),
        quarantine=Quarantine(store, clock, randbytes, hints),
        off=off,
        outside=outside,
        blocked=Blocklist(settings.blocked_accounts),
        seal=seal or Seal(),
        prices=prices,
    )


def _process(store: Store) -> ProcessName:
    host = socket.gethostname()
    if store.exclusive:
        # the next one on the machine goes on with what this one reported
        return ProcessName(f"process:{host}", host)
    label = f"{host}:{os.getpid()}"
    return ProcessName(f"process:{label}:{secrets.token_hex(4)}", host, label)


def _state(clock: Clock) -> ChainState:
    return ChainState(Board(OF_CHAIN, clock.now_us))


def app_of(core: Core, settlers: Sequence[Worker] = (), payouts: Sequence[Worker] = ()) -> App:
    """A service with workers that were made for its core; nobody can be added to it later."""
    executors = {one.account: one for worker in (*settlers, *payouts) for one in worker.executors}
    return App(
        **{one.name: getattr(core, one.name) for one in fields(Core)},
        settlers=MappingProxyType({worker.chain_id: worker for worker in settlers}),
        payout_workers=MappingProxyType({worker.chain_id: worker for worker in payouts}),
        executors=MappingProxyType(executors),
    )
