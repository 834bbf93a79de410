"""The application object of the flows, built by boot."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from florin_server.base.clock import Clock
from florin_server.base.feed import ChangeFeed, PaymentFeed
from florin_server.base.hints import ProcessBus
from florin_server.base.meters import Meters
from florin_server.base.tracing import NULL_TRACER, Tracer
from florin_server.base.ttl_cache import TtlCache
from florin_server.compliance.screening.service.cache import ScreeningCache
from florin_server.db.engine.store import Store
from florin_server.domain.accounts.account import CredentialStatus, WalletApp
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ChainHealth, ConditionTracker
from florin_server.domain.payments.payment import Merchant, Payment
from florin_server.domain.screening.blocklist import Blocklist
from florin_server.domain.sealed import Cipher
from florin_server.domain.settlement.pace import ChainPace
from florin_server.domain.settlement.settle_times import SettleTimes, compute_promise_s
from florin_server.domain.webhooks.snapshot import PaymentSnapshot
from florin_server.features.icons.service import IconCache
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.sharing import LimitSync
from florin_server.money.payments.store.listing import PaymentTotals
from florin_server.money.settlement.store.gas import GasUsage
from florin_server.operations.service.quarantine import Quarantine
from florin_server.rails.pricing.prices import FixedPrices, PriceSource
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset, GasShortage, is_unfunded
from florin_server.settings import Settings

# callers that read a list page by page get the totals of the first page for a minute; this many
# lists are read at the same time, each cached in less than a kilobyte
_TOTALS_MAX_AGE_US, _TOTALS_MAX = 60_000_000, 1000
# the rest of a budget is read once a second for each chain, for any number of confirms; a process
# that spends of it drops the cached value
_USAGE_MAX_AGE_US, _CHAINS_MAX = 1_000_000, 1000
# a failed worker counts as failing for this long; it waits less than this before it restarts
WORKER_FAILED_US = 300_000_000


class LeasedWorker(Protocol):
    """Settles what was accepted on one chain, or pays out there."""

    @property
    def head(self) -> int:
        """Return the newest block that it has seen; 0 if it has seen none."""

    @property
    def leases(self) -> Mapping[str, int]:
        """Return the leases that this process has for the work, each with its epoch.

        Empty until it has read everything that the former holder left.
        """

    def wake(self) -> None:
        """Notify it of new work."""

    def health(self) -> ChainHealth:
        """Return the health of the chain."""


class KeySender(Protocol):
    """Sends with one key on one chain."""

    @property
    def open_transactions(self) -> int:
        """Return how many transactions are neither final nor replaced."""

    @property
    def has_lease(self) -> bool:
        """Return True while this process has the lease of the key."""

    @property
    def is_paused(self) -> bool:
        """Return True while it begins nothing new."""

    def pause(self) -> None:
        """Start nothing new from now on; what was sent is followed to its end."""

    def resume(self) -> None:
        """Resume what was left."""


@dataclass(slots=True)
class AccountInvalidation:
    """Notifies the caches of accounts of a change.

    `listeners` are called whenever the generation rises.
    """

    bus: ProcessBus = field(default_factory=ProcessBus)
    version: int = 0
    listeners: list[Callable[[], None]] = field(default_factory=list)

    def publish_change(self) -> None:
        """Drop all cached accounts, here and in other processes, after a change in this process."""
        self.invalidate()
        self.bus.publish_cache_invalidation()

    def invalidate(self) -> None:
        """Drop what is cached."""
        self.version += 1
        for listener in self.listeners:
            listener()


@dataclass(frozen=True, slots=True)
class CheckoutLinks:
    """The base of payment links. `hosts` are the hosts whose links can name a payment."""

    base_url: str
    hosts: frozenset[str]

    def get_url(self, payment_id: str) -> str:
        """Return the checkout link of a payment."""
        return f"{self.base_url}/{payment_id}"


@dataclass(slots=True)
class WebhookState:
    """State of webhooks that flows share with the delivery worker.

    `delivery_event` is set if there can be deliveries; `encode_event` writes an event.
    """

    delivery_event: asyncio.Event = field(default_factory=asyncio.Event)
    encode_event: Callable[[PaymentSnapshot], bytes] | None = None


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
            f"{name} failed {failure.count} times and is restarted: {failure.reason}"
            for name, failure in self.by_worker.items()
            if now_us - failure.at_us < WORKER_FAILED_US
        ]


# a failover of the database ends sooner, and no load balancer should remove every process for it
_UNREADY_US: Final = 10_000_000


@dataclass(slots=True)
class StoreHealth:
    """The process's reach of its store: the problem, and since when (steady µs)."""

    problem: str = ""
    failing_since_us: int | None = None

    def record(self, problem: str, steady_us: int) -> None:
        """Remember how the newest look ended; an empty problem is an answer."""
        self.problem = problem
        if not problem:
            self.failing_since_us = None
        elif self.failing_since_us is None:
            self.failing_since_us = steady_us

    def describe_unready(self, steady_us: int) -> str:
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


def _create_totals_cache() -> TtlCache[PaymentTotals]:
    return TtlCache(_TOTALS_MAX, _TOTALS_MAX_AGE_US)


def _create_usage_cache() -> TtlCache[GasUsage]:
    return TtlCache(_CHAINS_MAX, _USAGE_MAX_AGE_US)


@dataclass(frozen=True, slots=True)
class WalletBalance:
    """The balance of an account (CAIP-10) of Florin in an asset (CAIP-19), in minor units."""

    account: str
    asset: str
    chain_balance: int
    booked_balance: int


# signatures of the meantime can lapse before the chain answers again
_FAILING_S: Final = 180


@dataclass(slots=True)
class ChainState:
    """State of one chain that flows and workers share.

    `conditions` has the conditions that are found on request. Nothing is sent from its wallets
    before their ledger is open. `shortfall` says in a sentence how much less they have than the
    ledger says, and `balances` what each had when they were last compared, at `reconciled_at_us`
    (0 if never). `has_new_receivers` means that receivers were registered since the settler's last
    check, and `payout_event` is set if there can be something to pay out. `paying_blocks` are the
    blocks that pay open payments, final or not, by payment id, as far as the settler of this
    process has read them. `failing_since_us` is the time (steady µs) since when the settler could
    not reach the chain; None while it works. `shortages` are keys that run out of coin, as of
    `funds_read_at_us` (steady µs; None if they were not checked), `funds_refresh` is the latest
    check, and `funding_problem` says in a sentence that none of them can pay for another payment.
    `pace` is the pace of its blocks (None before a measurement), `settle_times` the durations of
    its newest payments.
    """

    conditions: ConditionTracker
    failing_since_us: int | None = None
    shortages: Sequence[GasShortage] = ()
    funds_read_at_us: int | None = None
    funds_refresh: asyncio.Future[None] | None = None
    funding_problem: str = ""
    has_opening_balances: bool = False
    shortfall: str = ""
    balances: Sequence[WalletBalance] = ()
    reconciled_at_us: int = 0
    has_new_receivers: bool = False
    payout_event: asyncio.Event = field(default_factory=asyncio.Event)
    paying_blocks: Mapping[str, int] = field(default_factory=dict)
    pace: ChainPace | None = None
    settle_times: SettleTimes = field(default_factory=SettleTimes)

    def get_promised_s(self, eta_s: int, guess_s: int) -> float:
        """Return the seconds to promise where the settings promise `eta_s`.

        `guess_s` is what they promise for the chain's shortest way to pay.
        """
        return compute_promise_s(eta_s, guess_s, self.settle_times.median_s)

    def record_funds(self, shortages: Sequence[GasShortage], senders: int, steady_us: int) -> None:
        """Store which of so many keys run out of coin, as of a time."""
        self.shortages, self.funds_read_at_us = shortages, steady_us
        problem = "; ".join(shortage.text for shortage in shortages)
        empty = is_unfunded(shortages, senders)
        self.funding_problem = (
            f"{problem}; not offered until a relayer key has native coin" if empty else ""
        )

    def describe_settlement_problem(self, steady_us: int) -> str:
        """Return why the chain is not offered, as nothing settled for minutes; empty otherwise."""
        since_us = self.failing_since_us
        if since_us is None or steady_us - since_us < _FAILING_S * 1_000_000:
            return ""
        minutes = (steady_us - since_us) // 60_000_000
        return f"settlement has failed for {minutes} min; not offered until it works again"


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The state that flows and workers share. Each rail has its chain state, both by CAIP-2."""

    settings: Settings
    clock: Clock
    randbytes: Callable[[int], bytes]
    store: Store
    payment_feed: PaymentFeed
    links: CheckoutLinks
    rails: Mapping[str, Rail]
    chains: Mapping[str, ChainState]
    limits: ServiceLimits
    icons: IconCache
    screening: ScreeningCache
    conditions: ConditionTracker  # the conditions of the installation that are found on request
    quarantine: Quarantine  # items that workers leave out
    # with other processes; None if no other process can use the store
    limit_sync: LimitSync | None = None
    meters: Meters = field(default_factory=Meters)
    traces: Tracer = NULL_TRACER
    # the streams that follow payouts, by id; a refund's payout has the id of the refund
    payout_feed: ChangeFeed = field(default_factory=ChangeFeed)
    account_invalidation: AccountInvalidation = field(default_factory=AccountInvalidation)
    webhooks: WebhookState = field(default_factory=WebhookState)
    # notifications to other processes on the store
    bus: ProcessBus = field(default_factory=ProcessBus)
    totals_cache: TtlCache[PaymentTotals] = field(default_factory=_create_totals_cache)
    usage_cache: TtlCache[GasUsage] = field(
        default_factory=_create_usage_cache
    )  # in this hour, by chain
    # workers of this process that failed unexpectedly, by name
    worker_failures: WorkerFailures = field(default_factory=WorkerFailures)
    store_health: StoreHealth = field(default_factory=StoreHealth)
    process_name: ProcessName = ProcessName()
    # ids of keys and app ids that do not work while the test accounts are off
    disabled_ids: frozenset[str] = frozenset()
    blocklist: Blocklist = field(default_factory=Blocklist)
    cipher: Cipher = field(default_factory=Cipher)
    prices: PriceSource = field(default_factory=lambda: FixedPrices({}))
    # the faults of the installation's public view, in sentences
    check_exposure: Callable[[], Mapping[ConditionName, str]] = dict

    def list_assets(self, *, live: bool) -> dict[str, tuple[Rail, Asset]]:
        """Return every asset that can be paid with in one mode, by CAIP-19."""
        return {
            asset.id: (rail, asset)
            for rail in self.rails.values()
            if rail.live is live
            for asset in rail.assets.values()
        }

    def find_asset(self, asset_id: str) -> Asset | None:
        """Return one asset by CAIP-19, in either mode."""
        for rail in self.rails.values():
            if (asset := rail.assets.get(asset_id)) is not None:
                return asset
        return None

    def wake_payouts(self) -> None:
        """Notify the payout worker, here or in another process, of new work."""
        self.wake_local_payouts()
        self.bus.publish_payouts_due()

    def notify_payouts(self, *ids: str) -> None:
        """Notify the streams of these payouts that they may have changed."""
        self.payout_feed.notify(*ids)
        self.webhooks.delivery_event.set()
        self.bus.publish_payouts(*ids)

    def wake_local_payouts(self) -> None:
        """Let this process check what to pay out."""
        for chain in self.chains.values():
            chain.payout_event.set()

    async def publish_change(self, payment: Payment) -> Payment:
        """Notify watchers of a committed change; return the payment."""
        self.meters.record_payment_change(payment.status)
        if payment.status.is_final:
            times = payment.created_at_us, payment.updated_at_us
            self.traces.record_root(payment.id, "payment", *times, status=payment.status)
        self.payment_feed.publish(payment)
        self.webhooks.delivery_event.set()
        self.bus.publish_payment(payment.id, payment.version)
        return payment


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Core):
    """One service: what its flows share, and the workers that it runs, all of them or none.

    Settlers and payout workers are by chain (CAIP-2), the latter where there is a key; executors,
    whose transactions theirs are, by CAIP-10.
    """

    settlers: Mapping[str, LeasedWorker]
    payout_workers: Mapping[str, LeasedWorker]
    executors: Mapping[str, KeySender]

    def wake_settler(self, chain_id: str) -> None:
        """Notify the settler of a chain, here or in another process, of new work."""
        if (settler := self.settlers.get(chain_id)) is not None:
            settler.wake()
        self.bus.publish_settlement(chain_id)

    def announce_receivers(self, chain_id: str) -> None:
        """Notify the settler of a chain of a new receiver."""
        self.chains[chain_id].has_new_receivers = True
        if (settler := self.settlers.get(chain_id)) is not None:
            settler.wake()
        self.bus.publish_receivers(chain_id)


@dataclass(frozen=True, slots=True)
class IdempotencyKey:
    """A caller's key, its scope, and the fingerprint of its request."""

    scope: str
    key: str
    fingerprint: bytes
    permanent: bool = False


@dataclass(frozen=True, slots=True)
class Caller:
    """The caller, as proven by its credential.

    `credential` names the credential (not its secret), for limits; the operator has none.
    `merchant` is set on merchant paths, `app` when a wallet came with an App-Id. `wcp_profile`
    means that the caller uses the deployed wire profile. `network` is the network of the call, as
    limits count addresses. `credential_status` is checked again where money moves; the operator
    has none. `request_id` is set on calls that change something, or have a key.
    """

    live: bool
    credential: str = ""
    partner_id: str | None = None
    merchant: Merchant | None = None
    app: WalletApp | None = None
    wcp_profile: bool = False
    version: str = ""
    idempotency_key: IdempotencyKey | None = None
    network: str = ""
    credential_status: CredentialStatus | None = None
    request_id: str = ""

    @property
    def origin(self) -> str:
        """Return the caller that limits count: a key, or a public App-Id's network."""
        return self.network if self.app is not None else self.credential

    @property
    def required_partner_id(self) -> str:
        """Return the partner on paths where the access rule requires a partner."""
        if self.partner_id is None:
            raise RuntimeError("the access rule of a partner's call must ask for a partner")
        return self.partner_id
