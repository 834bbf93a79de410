"""What the flows work with, put together by boot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from florin_server.clock import Clock
from florin_server.config import Settings
from florin_server.domain.accounts.account import Standing, WalletApp
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import Board, Health
from florin_server.domain.payments.payment import Merchant, Payment
from florin_server.domain.screening.blocklist import Blocklist
from florin_server.domain.sealed import Seal
from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.settle_times import SettleTimes, promise_s
from florin_server.domain.webhooks.snapshot import PaymentSnapshot
from florin_server.feed import Changes, Hub
from florin_server.flows.icons.icons import Icons
from florin_server.flows.limits.limits import Limits
from florin_server.flows.limits.sharing import Sharing
from florin_server.flows.quarantine.quarantine import Quarantine
from florin_server.flows.recent import Recent
from florin_server.flows.screening.cache import Screening
from florin_server.hints import Hints
from florin_server.meters import Meters
from florin_server.pricing.prices import FixedPrices, PriceSource
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset, Shortage, is_unfunded
from florin_server.store.engine.store import Store
from florin_server.store.payments.listing import Totals
from florin_server.store.settlement.gas import Usage
from florin_server.tracing import NO_TRACES, Traces

# who reads a list page by page is told the totals of the first page for a minute; so many lists
# are read at the same time, each remembered in less than a kilobyte
_TOTALS_US, _TOTALS_KEPT = 60_000_000, 1000
# what a budget has left is read once a second for each chain, however many confirm; a process that
# spends of it forgets what it read
_SPENT_US, _CHAINS_KEPT = 1_000_000, 1000
# a worker that failed counts as failing for so long; it waits less than this before it starts again
WORKER_FAILED_US = 300_000_000


class Settler(Protocol):
    """Settles what was accepted on one chain, or pays out there."""

    @property
    def head(self) -> int:
        """The newest block that it has seen; 0 if it has seen none."""

    @property
    def leases(self) -> Mapping[str, int]:
        """The leases that this process holds for the work, each with its epoch.

        Empty until it has looked at everything that the holder before it left.
        """

    def wake(self) -> None:
        """Tells that there is something to do."""

    def health(self) -> Health:
        """How the chain looks now."""


class Sender(Protocol):
    """Sends with one key on one chain."""

    @property
    def open_transactions(self) -> int:
        """How many transactions are neither final nor replaced."""

    @property
    def leads(self) -> bool:
        """True while this process has the lease of the key."""

    @property
    def paused(self) -> bool:
        """True while it begins nothing new."""

    def pause(self) -> None:
        """Begins nothing new from now on; what was sent is followed to its end."""

    def resume(self) -> None:
        """Takes up again what was left."""


@dataclass(slots=True)
class Accounts:
    """Tells whoever remembers accounts that one of them was changed.

    `listeners` are called whenever the generation rises.
    """

    hints: Hints = field(default_factory=Hints)
    generation: int = 0
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def changed(self) -> None:
        """One was changed in this process: here and elsewhere nobody remembers it."""
        self.forget()
        self.hints.remembered()

    def forget(self) -> None:
        """What was remembered before is not to be used any more."""
        self.generation += 1
        for listener in self.listeners:
            listener()


@dataclass(frozen=True, slots=True)
class Links:
    """Where buyers go. `hosts` are the hosts whose links may name a payment."""

    base: str
    hosts: frozenset[str]

    def of(self, payment_id: str) -> str:
        """The checkout link of a payment."""
        return f"{self.base}/{payment_id}"


@dataclass(slots=True)
class Webhooks:
    """What flows and whoever delivers share of webhooks.

    `asked` is set when there may be something to deliver; `body` writes an event.
    """

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    body: Callable[[PaymentSnapshot], bytes] | None = None


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """The newest unexpected end of a worker: when, how often since it worked, and why."""

    at_us: int
    count: int
    reason: str


@dataclass(slots=True)
class WorkerFailures:
    """Workers of this process that failed unexpectedly; there are as many as it has workers."""

    by_worker: dict[str, WorkerFailure] = field(default_factory=dict)

    def describe(self, now_us: int) -> list[str]:
        """Return a sentence for each worker that failed lately."""
        return [
            f"{name} failed {one.count} times, and is started again: {one.reason}"
            for name, one in self.by_worker.items()
            if now_us - one.at_us < WORKER_FAILED_US
        ]


# a failover of the database ends sooner, and no balancer should take every process away for it
_UNREADY_US: Final = 10_000_000


@dataclass(slots=True)
class StoreHealth:
    """Whether this process reaches its store: why not, and since when (steady µs)."""

    problem: str = ""
    failing_since_us: int | None = None

    def note(self, problem: str, steady_us: int) -> None:
        """Remember how the newest look ended; an empty problem is an answer."""
        self.problem = problem
        if not problem:
            self.failing_since_us = None
        elif self.failing_since_us is None:
            self.failing_since_us = steady_us

    def unready(self, steady_us: int) -> str:
        """Return why the process should get no calls; empty within seconds of the last answer."""
        since_us = self.failing_since_us
        return self.problem if since_us is not None and steady_us - since_us >= _UNREADY_US else ""


@dataclass(frozen=True, slots=True)
class ProcessName:
    """The name under which a process reports conditions of its own.

    `source` is unique, `host` its machine; `label` names it in sentences, empty where it is alone.
    """

    source: str = "process"
    host: str = "localhost"
    label: str = ""


def _remembered_totals() -> Recent[Totals]:
    return Recent(_TOTALS_KEPT, _TOTALS_US)


def _remembered_usage() -> Recent[Usage]:
    return Recent(_CHAINS_KEPT, _SPENT_US)


@dataclass(frozen=True, slots=True)
class Wallet:
    """What an account (CAIP-10) of ours holds of an asset (CAIP-19), in minor units."""

    account: str
    asset: str
    held: int
    booked: int


# what is signed meanwhile may lapse before the chain can be asked again
_FAILING_S: Final = 180


@dataclass(slots=True)
class ChainState:
    """What flows and workers tell each other of one chain.

    `board` has what is found when somebody asks how the chain is doing. Nothing is sent from its
    wallets before their books have begun; `lacking` says what they hold less than is booked, in a
    sentence, and `wallets` what each was found to hold when they were compared last, at
    `compared_at_us` (0 if they never were). `has_new_receivers` tells that some were registered
    since the settler looked, and `payout_asked` is set when there may be something to pay out.
    `paid_in` are the blocks that pay open payments, final or not, by payment id, as far as the
    settler of this process has seen them. `failing_since_us` is since when (steady µs) every look
    of that settler ended as the chain could not be asked; None while it works. `shortages` are keys
    that run out of coin, as of `funds_read_at_us` (steady µs; None if they were not looked at),
    `funds_look` is the newest look at them, and `unfunded` says in a sentence that none of them can
    pay for one more payment. `pace` is how fast its blocks come (None before that was measured),
    `times` how long its newest payments took.
    """

    board: Board
    failing_since_us: int | None = None
    shortages: Sequence[Shortage] = ()
    funds_read_at_us: int | None = None
    funds_look: asyncio.Future[None] | None = None
    unfunded: str = ""
    books_begun: bool = False
    lacking: str = ""
    wallets: Sequence[Wallet] = ()
    compared_at_us: int = 0
    has_new_receivers: bool = False
    payout_asked: asyncio.Event = field(default_factory=asyncio.Event)
    paid_in: Mapping[str, int] = field(default_factory=dict)
    pace: ChainPace | None = None
    times: SettleTimes = field(default_factory=SettleTimes)

    def promise_s(self, eta_s: int, guess_s: int) -> float:
        """Return the seconds to promise where the settings promise `eta_s`.

        `guess_s` is what they promise for the chain's shortest way to pay.
        """
        return promise_s(eta_s, guess_s, self.times.median_s)

    def note_funds(self, shortages: Sequence[Shortage], senders: int, steady_us: int) -> None:
        """Remember which of so many keys run out of coin, as it was found at a time."""
        self.shortages, self.funds_read_at_us = shortages, steady_us
        told = "; ".join(one.text for one in shortages)
        empty = is_unfunded(shortages, senders)
        self.unfunded = f"{told}; not offered until there is coin" if empty else ""

    def settlement_problem(self, steady_us: int) -> str:
        """Return why the chain is not offered, as nothing settled for minutes; empty otherwise."""
        since_us = self.failing_since_us
        if since_us is None or steady_us - since_us < _FAILING_S * 1_000_000:
            return ""
        minutes = (steady_us - since_us) // 60_000_000
        return f"settling has failed for {minutes} min; not offered until it works"


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """What flows and workers share. There is a state for every rail, both by CAIP-2."""

    settings: Settings
    clock: Clock
    randbytes: Callable[[int], bytes]
    store: Store
    hub: Hub
    links: Links
    rails: Mapping[str, Rail]
    chains: Mapping[str, ChainState]
    limits: Limits
    icons: Icons
    screening: Screening
    board: Board  # what is found of the installation when somebody asks
    quarantine: Quarantine  # items that workers leave out
    # with other processes; None if no other one can have the store
    sharing: Sharing | None = None
    meters: Meters = field(default_factory=Meters)
    traces: Traces = NO_TRACES
    # those who follow payouts, by id; a refund's payout has the id of the refund
    payouts: Changes = field(default_factory=Changes)
    accounts: Accounts = field(default_factory=Accounts)
    webhooks: Webhooks = field(default_factory=Webhooks)
    # what other processes on the store are told
    hints: Hints = field(default_factory=Hints)
    totals: Recent[Totals] = field(default_factory=_remembered_totals)
    spent: Recent[Usage] = field(default_factory=_remembered_usage)  # in this hour, by chain
    # workers of this process that failed unexpectedly, by name
    failures: WorkerFailures = field(default_factory=WorkerFailures)
    store_health: StoreHealth = field(default_factory=StoreHealth)
    process: ProcessName = ProcessName()
    # ids of keys and app ids that do not work while the test accounts are off
    off: frozenset[str] = frozenset()
    blocked: Blocklist = field(default_factory=Blocklist)
    seal: Seal = field(default_factory=Seal)
    prices: PriceSource = field(default_factory=lambda: FixedPrices({}))
    # what is wrong with what others see of the installation, in sentences
    outside: Callable[[], Mapping[ConditionName, str]] = dict

    def assets(self, *, live: bool) -> dict[str, tuple[Rail, Asset]]:
        """Every asset that can be paid with in one mode, by CAIP-19."""
        return {
            asset.id: (rail, asset)
            for rail in self.rails.values()
            if rail.live is live
            for asset in rail.assets.values()
        }

    def asset(self, asset_id: str) -> Asset | None:
        """One asset by CAIP-19, in either mode."""
        for rail in self.rails.values():
            if (asset := rail.assets.get(asset_id)) is not None:
                return asset
        return None

    def wake_payouts(self) -> None:
        """Tells whoever pays out, here or elsewhere, that there is something new."""
        self.ask_payouts()
        self.hints.pay_out()

    def ring(self, *ids: str) -> None:
        """Tells those who follow payouts that these may have changed."""
        self.payouts.ring(*ids)
        self.webhooks.asked.set()
        self.hints.payouts(*ids)

    def ask_payouts(self) -> None:
        """Has this process look what is to be paid out."""
        for chain in self.chains.values():
            chain.payout_asked.set()

    async def changed(self, payment: Payment) -> Payment:
        """Tells watchers about a committed change; gives the payment back."""
        self.meters.changed(payment.status)
        if payment.status.is_final:
            times = payment.created_at_us, payment.updated_at_us
            self.traces.whole(payment.id, "payment", *times, status=payment.status)
        self.hub.publish(payment)
        self.webhooks.asked.set()
        self.hints.payment(payment.id, payment.version)
        return payment


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Core):
    """One service: what its flows share, and the workers that it runs, all of them or none.

    Settlers and payout workers are by chain (CAIP-2), the latter where there is a key; executors,
    whose transactions theirs are, by CAIP-10.
    """

    settlers: Mapping[str, Settler]
    payout_workers: Mapping[str, Settler]
    executors: Mapping[str, Sender]

    def wake_settler(self, chain_id: str) -> None:
        """Tells whoever settles on a chain, here or elsewhere, that there is something to do."""
        if (settler := self.settlers.get(chain_id)) is not None:
            settler.wake()
        self.hints.settle(chain_id)

    def expect_receivers(self, chain_id: str) -> None:
        """The same of somebody new who is to be paid there."""
        self.chains[chain_id].has_new_receivers = True
        if (settler := self.settlers.get(chain_id)) is not None:
            settler.wake()
        self.hints.receivers(chain_id)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key, its scope, and the fingerprint of the request that it stands for."""

    scope: str
    key: str
    fingerprint: bytes
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """Who calls, as proven by its credential.

    `credential` names the credential (not its secret), for limits; the operator has none.
    `merchant` is set on merchant paths, `app` when a wallet came with an App-Id. `wcp_profile`
    tells that the caller speaks the deployed wire profile. `network` is where the call came from,
    as limits count addresses. `standing` is looked at again where money moves; the operator has
    none. `request_id` is set on calls that change something, or have a key.
    """

    live: bool
    credential: str = ""
    partner_id: str | None = None
    merchant: Merchant | None = None
    app: WalletApp | None = None
    wcp_profile: bool = False
    version: str = ""
    idempotency: IdempotencyKey | None = None
    network: str = ""
    standing: Standing | None = None
    request_id: str = ""

    @property
    def origin(self) -> str:
        """Who counts as one caller beside others: a key, or where a public App-Id came from."""
        return self.network if self.app is not None else self.credential

    @property
    def partner(self) -> str:
        """The partner on paths where the access rule asks for one."""
        if self.partner_id is None:
            raise RuntimeError("the access rule of a partner's call must ask for a partner")
        return self.partner_id
