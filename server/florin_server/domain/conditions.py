"""Conditions: named states of a chain or of the whole installation that operators act on.

Programs rely on the name alone. The reason is a text for people: its words can change in any
release.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ConditionState(StrEnum):
    """The state of a condition, from best to worst."""

    OK = "ok"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"


class ConditionName(StrEnum):
    """The names of all conditions, in the order of reports."""

    SETTLEMENT_PAUSED = "settlement_paused"
    SETTLEMENT_STARTING = "settlement_starting"
    SETTLEMENT_LEASED_ELSEWHERE = "settlement_leased_elsewhere"
    SETTLEMENT_FAILING = "settlement_failing"
    BLOCKS_UNREAD = "blocks_unread"
    TRANSACTION_STUCK = "transaction_stuck"
    PAYERS_BLOCKED = "payers_blocked"
    EVENTS_MISSING = "events_missing"
    GAS_BUDGET_EXHAUSTED = "gas_budget_exhausted"
    PAYMENTS_GIVEN_UP = "payments_given_up"
    PAYMENTS_UNDONE = "payments_undone"
    CHAIN_UNUSABLE = "chain_unusable"
    CHAIN_STALLED = "chain_stalled"
    PACE_CHANGED = "pace_changed"
    RELAYER_FUNDS_LOW = "relayer_funds_low"
    RELAYER_EMPTY = "relayer_empty"
    DURABLE_NONCES_MISSING = "durable_nonces_missing"
    NODES_DISAGREE = "nodes_disagree"
    PAYOUTS_PAUSED = "payouts_paused"
    STORE_RESTORED = "store_restored"
    STORE_BEHIND = "store_behind"
    PAYOUTS_STARTING = "payouts_starting"
    PAYOUTS_LEASED_ELSEWHERE = "payouts_leased_elsewhere"
    PAYOUTS_FAILING = "payouts_failing"
    PAYOUT_TRANSACTION_STUCK = "payout_transaction_stuck"
    PAYOUTS_WAITING = "payouts_waiting"
    PAYMENTS_HELD = "payments_held"
    WALLET_SHORT = "wallet_short"
    DESTINATION_RESERVED = "destination_reserved"
    PRICE_MISSING = "price_missing"
    SCREENING_LISTS_STALE = "screening_lists_stale"
    SCREENING_LISTS_OLD = "screening_lists_old"
    CERTIFICATE_EXPIRED = "certificate_expired"
    CERTIFICATE_EXPIRING = "certificate_expiring"
    PAY_URL_LOCAL = "pay_url_local"
    STORE_UNREACHABLE = "store_unreachable"
    STANDBY_BEHIND = "standby_behind"
    PARTITIONS_MISSING = "partitions_missing"
    ROWS_UNPARTITIONED = "rows_unpartitioned"
    MACHINE_CLOCK_OFF = "machine_clock_off"
    CLOCK_WRONG = "clock_wrong"
    WEBHOOKS_PAUSED = "webhooks_paused"
    EVENT_SINK_FAILING = "event_sink_failing"
    ARCHIVE_FAILING = "archive_failing"
    EVENT_SINK_DIFFERS = "event_sink_differs"
    ITEM_SET_ASIDE = "item_set_aside"
    WORKER_FAILING = "worker_failing"


@dataclass(frozen=True, slots=True)
class ConditionSpec:
    """The meaning of a condition: its state if it applies, its text, and the action to take."""

    state: ConditionState
    description: str
    remedy: str


_NAME = ConditionName
CONDITION_SPECS: Final[Mapping[ConditionName, ConditionSpec]] = {
    _NAME.SETTLEMENT_PAUSED: ConditionSpec(
        ConditionState.NOTICE,
        "the operator paused all relayer keys of the chain, or those that the reason names",
        "to let them send again: `florin executors resume`",
    ),
    _NAME.SETTLEMENT_STARTING: ConditionSpec(
        ConditionState.NOTICE,
        "Florin has not finished its first read of the chain since it started",
        "nothing; if it lasts for minutes, read what the log says about the chain",
    ),
    _NAME.SETTLEMENT_LEASED_ELSEWHERE: ConditionSpec(
        ConditionState.NOTICE,
        "another process has the lease of relayer keys and sends with them",
        "nothing, if several processes should run; otherwise stop the other process and wait "
        "half a minute",
    ),
    _NAME.SETTLEMENT_FAILING: ConditionSpec(
        ConditionState.CRITICAL,
        "the latest attempt to settle on the chain failed: payments stay `processing`; after "
        "three minutes without an answer, Florin stops offering the chain to buyers",
        "check the nodes and the store, as the reason says; Florin retries automatically",
    ),
    _NAME.BLOCKS_UNREAD: ConditionSpec(
        ConditionState.WARNING,
        "Florin cannot read the blocks that the chain produced during an outage: money that "
        "arrived then is not recorded yet",
        "add a node to the settings that still has these blocks",
    ),
    _NAME.TRANSACTION_STUCK: ConditionSpec(
        ConditionState.WARNING,
        "no block includes the oldest transaction, and its fee is at the limit",
        "raise the chain's fee limits if you accept the current fees, or wait",
    ),
    _NAME.PAYERS_BLOCKED: ConditionSpec(
        ConditionState.NOTICE,
        "accepted payments are not sent, because their payers were blocked after the confirm",
        "nothing: they fail when the buyers' signatures lapse",
    ),
    _NAME.EVENTS_MISSING: ConditionSpec(
        ConditionState.CRITICAL,
        "the settlement contract reports payments as paid, but no node returns the transactions",
        "add a node to the settings that keeps all events of the contract",
    ),
    _NAME.GAS_BUDGET_EXHAUSTED: ConditionSpec(
        ConditionState.WARNING,
        "relayers used up this hour's budget of lost gas (on Solana: lost fees): some payments "
        "wait for the next hour",
        "find out which payers or wallet apps fail payments; to pay more, raise `failed_gas` or "
        "`failed_fees`",
    ),
    _NAME.PAYMENTS_GIVEN_UP: ConditionSpec(
        ConditionState.WARNING,
        "Florin no longer sends some payments, because too many transactions failed to pay them",
        "nothing: they fail when the buyers' signatures lapse",
    ),
    _NAME.PAYMENTS_UNDONE: ConditionSpec(
        ConditionState.CRITICAL,
        "a reorganization removed final blocks and with them payments that had succeeded; Florin "
        "settles them again",
        "do not deliver goods for these payments; raise the chain's `confirmations`",
    ),
    _NAME.CHAIN_UNUSABLE: ConditionSpec(
        ConditionState.CRITICAL,
        "the chain does not answer, or the chain, a token or a contract differs from the "
        "settings: Florin does not offer it to buyers",
        "correct the settings or add other nodes; to check again: `florin chain list`",
    ),
    _NAME.CHAIN_STALLED: ConditionSpec(
        ConditionState.CRITICAL,
        "no node returns a new block: payments stay `processing`, and Florin does not offer the "
        "chain to buyers",
        "compare with a block explorer: if the chain produces blocks, add another node to the "
        "settings; if it does not, wait, and Florin offers it again automatically",
    ),
    _NAME.PACE_CHANGED: ConditionSpec(
        ConditionState.WARNING,
        "for ten minutes, the chain has produced blocks at most half or at least twice as fast "
        "as usual; Florin follows the new pace, and the reason says what changes",
        "read the chain's announcements; if `final_after_s` is 0, set it, because "
        "`confirmations` alone now cover less time; the condition ends after a day",
    ),
    _NAME.RELAYER_FUNDS_LOW: ConditionSpec(
        ConditionState.WARNING,
        "a relayer key has too little native coin for the next transactions",
        "send native coin to the address in the reason",
    ),
    _NAME.RELAYER_EMPTY: ConditionSpec(
        ConditionState.CRITICAL,
        "no relayer key can pay for another transaction: confirmed payments wait, and Florin "
        "does not offer the chain to buyers",
        "send native coin to an address in the reason; Florin offers the chain again within half "
        "a minute",
    ),
    _NAME.DURABLE_NONCES_MISSING: ConditionSpec(
        ConditionState.NOTICE,
        "a relayer on Solana cannot pay for all durable nonces: more buyers have to sign before "
        "a blockhash lapses",
        "send native coin to the address in the reason, or lower `durable_nonces`",
    ),
    _NAME.NODES_DISAGREE: ConditionSpec(
        ConditionState.CRITICAL,
        "too few nodes agree on the outcome of payments; the payments concerned stay `processing`",
        "find out which node is wrong and replace it in the settings; with two nodes, add a third",
    ),
    _NAME.PAYOUTS_PAUSED: ConditionSpec(
        ConditionState.NOTICE,
        "the operator paused the treasury's key",
        "`florin executors resume`, when it shall send again",
    ),
    _NAME.STORE_RESTORED: ConditionSpec(
        ConditionState.CRITICAL,
        "the store was restored from a copy that lacks the latest payouts: Florin pays nothing "
        "out, because it would pay them again",
        "compare `florin payouts list` with the chain, refuse each payout that was paid (`florin "
        "payouts refuse`), then resume the treasury's key (`florin executors resume`)",
    ),
    _NAME.STORE_BEHIND: ConditionSpec(
        ConditionState.CRITICAL,
        "the database may lack payouts: a standby took over, or the chain has transactions of a "
        "key that the store does not know. Florin pays nothing out, because it could pay twice",
        "find the transactions in the log, compare `florin payouts list` with the chain, refuse "
        "each payout that was paid (`florin payouts refuse`), then resume each treasury's key "
        "(`florin executors resume`)",
    ),
    _NAME.PAYOUTS_STARTING: ConditionSpec(
        ConditionState.NOTICE,
        "Florin has not finished its first check of the treasury since it started",
        "nothing; if it lasts for minutes, read what the log says about the chain",
    ),
    _NAME.PAYOUTS_LEASED_ELSEWHERE: ConditionSpec(
        ConditionState.NOTICE,
        "another process has the lease of the treasury's key and sends with it",
        "nothing, if several processes should run; otherwise stop the other process and wait "
        "half a minute",
    ),
    _NAME.PAYOUTS_FAILING: ConditionSpec(
        ConditionState.CRITICAL,
        "the latest attempt to pay out failed: payouts and refunds do not move",
        "check the nodes and the store, as the reason says; Florin retries automatically",
    ),
    _NAME.PAYOUT_TRANSACTION_STUCK: ConditionSpec(
        ConditionState.WARNING,
        "no block includes the treasury's oldest transaction, and its fee is at the limit",
        "raise the chain's fee limits if you accept the current fees, or wait",
    ),
    _NAME.PAYOUTS_WAITING: ConditionSpec(
        ConditionState.WARNING,
        "payouts or refunds are not sent; the reason says why",
        "fix the reason, for example by funding the treasury; to see each payout: `florin "
        "payouts list`",
    ),
    _NAME.PAYMENTS_HELD: ConditionSpec(
        ConditionState.WARNING,
        "money from blocked payers arrived and is held until you decide",
        "list it with `florin payments held`, then release, return or keep it",
    ),
    _NAME.WALLET_SHORT: ConditionSpec(
        ConditionState.CRITICAL,
        "the treasury or a relayer has less than the ledger says: the money was taken, or spent "
        "without Florin",
        "find the transaction; to compare again: `florin ledger check`",
    ),
    _NAME.DESTINATION_RESERVED: ConditionSpec(
        ConditionState.WARNING,
        "a merchant's settlement destination is an account of this installation: Florin pays "
        "nothing to it",
        "ask the merchant to set another destination",
    ),
    _NAME.PRICE_MISSING: ConditionSpec(
        ConditionState.WARNING,
        "no source has a price that the settings need: Florin does not offer the asset for that "
        "currency",
        "check the sources, as the reason says; Florin uses the price again as soon as a source "
        "has it",
    ),
    _NAME.SCREENING_LISTS_STALE: ConditionSpec(
        ConditionState.CRITICAL,
        "a required screening list is missing or too old: Florin refuses live payments",
        "import a new list: `florin sanctions import`",
    ),
    _NAME.SCREENING_LISTS_OLD: ConditionSpec(
        ConditionState.NOTICE,
        "a screening list is missing or too old; none is required, so payments continue",
        "import a new list: `florin sanctions import`; to require a list, set `screening_required`",
    ),
    _NAME.CERTIFICATE_EXPIRED: ConditionSpec(
        ConditionState.CRITICAL,
        "the certificate of REST and gRPC is not valid now: no client can connect",
        "write a new certificate to the files in the settings; Florin loads it within 10 s",
    ),
    _NAME.CERTIFICATE_EXPIRING: ConditionSpec(
        ConditionState.WARNING,
        "the certificate of REST and gRPC expires soon, or its files contain a new certificate "
        "that is not usable",
        "find out why it was not renewed; the reason says what is wrong with the files",
    ),
    _NAME.PAY_URL_LOCAL: ConditionSpec(
        ConditionState.WARNING,
        "payments are live, but payment links lead to this machine only, or use plain text",
        "set `FLORIN_PAY_URL` to the https address that buyers see, and restart Florin",
    ),
    _NAME.STORE_UNREACHABLE: ConditionSpec(
        ConditionState.CRITICAL,
        "the process cannot reach its database: it refuses every call with 503, and settles and "
        "pays out nothing",
        "check the database and the network to it; the process resumes automatically",
    ),
    _NAME.STANDBY_BEHIND: ConditionSpec(
        ConditionState.WARNING,
        "the standby is too far behind, or cannot be read: lists, searches and "
        "statements are read from the primary server, which has more to do",
        "check the standby and its replication; Florin reads from it again once it is close behind",
    ),
    _NAME.PARTITIONS_MISSING: ConditionSpec(
        ConditionState.WARNING,
        "partitions of payments were detached or dropped by hand: their rows are missing, and "
        "later payments of these months are in the default partitions",
        "attach the detached tables again; if they were dropped, restore the rows from a backup "
        "after `florin store partition` has created empty partitions",
    ),
    _NAME.ROWS_UNPARTITIONED: ConditionSpec(
        ConditionState.WARNING,
        "default partitions have rows, because a month lacks its partition or a clock was wrong: "
        "Florin serves these payments, but they belong to no month",
        "run `florin store partition`, which moves the rows of months up to three months ahead; "
        "correct the clock of the database server if it was ahead",
    ),
    _NAME.MACHINE_CLOCK_OFF: ConditionSpec(
        ConditionState.WARNING,
        "the clock of this machine differs from the database's by more than two seconds; Florin "
        "uses the database's clock, but certificates and the log use this machine's",
        "correct the wrong clock (NTP): this machine's or the database server's",
    ),
    _NAME.CLOCK_WRONG: ConditionSpec(
        ConditionState.CRITICAL,
        "the server's clock, on PostgreSQL the database's, differs by minutes from the newest "
        "blocks of most chains: buyers may sign authorizations that have lapsed, or quotes end "
        "too soon",
        "synchronize that clock (NTP) and compare with `date -u`",
    ),
    _NAME.WEBHOOKS_PAUSED: ConditionSpec(
        ConditionState.WARNING,
        "merchants' webhook endpoints accepted nothing for days, or answered 410: Florin paused "
        "them, and their deliveries are queued",
        "list them with `florin webhooks list --paused`, and ask their owners to fix and resume "
        "them",
    ),
    _NAME.EVENT_SINK_FAILING: ConditionSpec(
        ConditionState.WARNING,
        "the broker of the event sink cannot be reached, or does not store events: they are "
        "queued, and Florin publishes them later",
        "check the broker, its stream and Florin's access to it, as the reason says; Florin "
        "retries automatically",
    ),
    _NAME.ARCHIVE_FAILING: ConditionSpec(
        ConditionState.WARNING,
        "the archive cannot be written or read: old payments stay in the store, and archived "
        "payments that cannot be read answer with an error",
        "check the folder of the archive, its free space and its files, as the reason says; "
        "restore altered or missing files from a copy; Florin retries automatically",
    ),
    _NAME.EVENT_SINK_DIFFERS: ConditionSpec(
        ConditionState.WARNING,
        "the settings of a process name another event sink than the installation's, or none: that "
        "process publishes no events; they are queued, and processes with the installation's "
        "settings publish them",
        "set the same `url`, `stream`, `subject` and `revision` in `[event_sink]` of all "
        "processes; to change the installation's, or to turn the event sink off, raise "
        "`revision` above it",
    ),
    _NAME.ITEM_SET_ASIDE: ConditionSpec(
        ConditionState.CRITICAL,
        "a step of a payment, payout or another item failed unexpectedly: the item is "
        "quarantined, and all others continue",
        "read the error (`florin quarantine list`) and report it; retry the item with the fixed "
        "release (`florin quarantine retry`), or resolve what you handled by hand (`florin "
        "quarantine resolve`)",
    ),
    _NAME.WORKER_FAILING: ConditionSpec(
        ConditionState.CRITICAL,
        "a worker failed with an unexpected error; Florin restarts it after a pause",
        "find the worker and its traceback in the log, and report the error",
    ),
}


# expected states: with several processes, or a relayer with little coin
EXPECTED_CONDITIONS: Final = frozenset(
    {
        _NAME.SETTLEMENT_LEASED_ELSEWHERE,
        _NAME.PAYOUTS_LEASED_ELSEWHERE,
        _NAME.DURABLE_NONCES_MISSING,
    }
)


# conditions of one process: the reason names the process
PROCESS_CONDITIONS: Final = frozenset(
    {
        _NAME.SETTLEMENT_LEASED_ELSEWHERE,
        _NAME.PAYOUTS_LEASED_ELSEWHERE,
        _NAME.SETTLEMENT_STARTING,
        _NAME.PAYOUTS_STARTING,
        _NAME.CERTIFICATE_EXPIRED,
        _NAME.CERTIFICATE_EXPIRING,
        _NAME.PAY_URL_LOCAL,
        _NAME.STORE_UNREACHABLE,
        _NAME.STANDBY_BEHIND,
        _NAME.MACHINE_CLOCK_OFF,
        _NAME.EVENT_SINK_DIFFERS,
        _NAME.WORKER_FAILING,
    }
)
# conditions that are the same in every process, because they are computed from the store
STORE_CONDITIONS: Final = frozenset(
    {
        _NAME.PAYOUTS_WAITING,
        _NAME.PAYMENTS_HELD,
        _NAME.DESTINATION_RESERVED,
        _NAME.ITEM_SET_ASIDE,
        _NAME.SCREENING_LISTS_STALE,
        _NAME.SCREENING_LISTS_OLD,
        _NAME.WEBHOOKS_PAUSED,
        _NAME.PARTITIONS_MISSING,
        _NAME.ROWS_UNPARTITIONED,
    }
)
# conditions that the holder of the treasury's lease reports; the others are the settler's
PAYOUT_CONDITIONS: Final = frozenset(
    {
        _NAME.PAYOUTS_PAUSED,
        _NAME.STORE_RESTORED,
        _NAME.STORE_BEHIND,
        _NAME.PAYOUTS_FAILING,
        _NAME.PAYOUT_TRANSACTION_STUCK,
    }
)
# conditions that a process can see although the holder of the lease does not: it has its own
# connections to nodes and price sources
ANY_PROCESS_CONDITIONS: Final = frozenset(
    {
        _NAME.SETTLEMENT_FAILING,
        _NAME.CHAIN_UNUSABLE,
        _NAME.CHAIN_STALLED,
        _NAME.NODES_DISAGREE,
        _NAME.STORE_RESTORED,
        _NAME.STORE_BEHIND,
        _NAME.PAYOUTS_FAILING,
        _NAME.PRICE_MISSING,
    }
)
# conditions that cost calls to nodes
NODE_CONDITIONS: Final = frozenset({_NAME.CHAIN_UNUSABLE, _NAME.CLOCK_WRONG})


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition at present: `since_us` is when it entered its state, in µs since 1970.

    `reason` is empty while it is OK.
    """

    name: ConditionName
    state: ConditionState
    reason: str
    since_us: int
