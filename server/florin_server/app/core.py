"""The application object: what services and workers share, and the workers of this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from florin_server.accounts.service.key_uses import KeyUses
from florin_server.base.clock import Clock
from florin_server.base.meters import Meters
from florin_server.base.notifier import Notifier
from florin_server.base.tracing import NULL_TRACER, Tracer
from florin_server.base.ttl_cache import TtlCache
from florin_server.compliance.screening.service.cache import ScreeningCache
from florin_server.db.engine.store import Store
from florin_server.domain.cipher import Cipher
from florin_server.domain.conditions import ConditionName
from florin_server.domain.health import ConditionTracker
from florin_server.domain.payments.links import CheckoutLinks
from florin_server.domain.screening.blocklist import Blocklist
from florin_server.features.icons.service import IconCache
from florin_server.features.reports.service.statement import StatementData
from florin_server.limits.service.limits import ServiceLimits
from florin_server.limits.service.shared_limits import LimitSync
from florin_server.money.archive.service.reader import PaymentArchive
from florin_server.money.payments.store.listing import PaymentTotals
from florin_server.money.settlement.store.gas import GasUsage
from florin_server.operations.process import (
    EventSinkHealth,
    PartitionHealth,
    ProcessName,
    StoreHealth,
    WorkerFailures,
)
from florin_server.operations.roles import KeySender, LeasedWorker
from florin_server.operations.service.quarantine import Quarantine
from florin_server.operations.service.sign_in_failures import SignInFailures
from florin_server.rails.chain_state import ChainState
from florin_server.rails.pricing.prices import FixedPrices, PriceSource
from florin_server.rails.protocol import Rail
from florin_server.rails.types import Asset
from florin_server.settings import Settings

# callers that read a list page by page get the totals of the first page for a minute; this many
# lists are read at the same time, each cached in less than a kilobyte
_TOTALS_MAX_AGE_US, _TOTALS_MAX = 60_000_000, 1000
# the rest of a budget is read once a second for each chain, for any number of confirms; a process
# that spends of it drops the cached value
_USAGE_MAX_AGE_US, _CHAINS_MAX = 1_000_000, 1000

# a statement can add up a million payments: those that are read again and again are cached
_STATEMENT_MAX_AGE_US, _STATEMENTS_MAX = 60_000_000, 500


def _create_totals_cache() -> TtlCache[PaymentTotals]:
    return TtlCache(_TOTALS_MAX, _TOTALS_MAX_AGE_US)


def _create_statement_cache() -> TtlCache[StatementData]:
    return TtlCache(_STATEMENTS_MAX, _STATEMENT_MAX_AGE_US)


def _create_usage_cache() -> TtlCache[GasUsage]:
    return TtlCache(_CHAINS_MAX, _USAGE_MAX_AGE_US)


# a merchant's credit is a sum of its books: buyers who open links do not make Florin add it up
_CREDIT_MAX_AGE_US, _CREDITS_MAX = 10_000_000, 1000


def _create_credit_cache() -> TtlCache[int]:
    return TtlCache(_CREDITS_MAX, _CREDIT_MAX_AGE_US)


@dataclass(frozen=True, slots=True, kw_only=True)
class Core:
    """The state that services and workers share. Each rail has its chain state, both by CAIP-2."""

    settings: Settings
    clock: Clock
    randbytes: Callable[[int], bytes]
    store: Store
    notifier: Notifier
    links: CheckoutLinks
    rails: Mapping[str, Rail]
    chains: Mapping[str, ChainState]
    limits: ServiceLimits
    icons: IconCache
    archive: PaymentArchive
    screening: ScreeningCache
    conditions: ConditionTracker  # the conditions of the installation that are found on request
    quarantine: Quarantine  # items that workers leave out
    # with other processes; None if no other process can use the store
    limit_sync: LimitSync | None = None
    meters: Meters = field(default_factory=Meters)
    traces: Tracer = NULL_TRACER
    totals_cache: TtlCache[PaymentTotals] = field(default_factory=_create_totals_cache)
    statement_cache: TtlCache[StatementData] = field(default_factory=_create_statement_cache)
    usage_cache: TtlCache[GasUsage] = field(
        default_factory=_create_usage_cache
    )  # in this hour, by chain
    # minor units that merchants can still owe, by merchant and asset
    credit_cache: TtlCache[int] = field(default_factory=_create_credit_cache)
    # workers of this process that failed unexpectedly, by name
    worker_failures: WorkerFailures = field(default_factory=WorkerFailures)
    store_health: StoreHealth = field(default_factory=StoreHealth)
    partition_health: PartitionHealth = field(default_factory=PartitionHealth)
    event_sink_health: EventSinkHealth = field(default_factory=EventSinkHealth)
    process_name: ProcessName = field(default_factory=ProcessName)
    # ids of keys and app ids that do not work while the test accounts are off
    disabled_ids: frozenset[str] = frozenset()
    blocklist: Blocklist = field(default_factory=Blocklist)
    key_uses: KeyUses = field(default_factory=KeyUses)
    sign_in_failures: SignInFailures = field(default_factory=SignInFailures)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class App(Core):
    """One service: what its calls share, and the workers that it runs, all of them or none.

    Settlers and payout workers are by chain (CAIP-2), the latter where there is a key; executors,
    whose transactions theirs are, by CAIP-10.
    """

    settlers: Mapping[str, LeasedWorker]
    payout_workers: Mapping[str, LeasedWorker]
    executors: Mapping[str, KeySender]
