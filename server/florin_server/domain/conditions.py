"""What can be wrong with a chain or the whole installation: conditions, each with its own name.

What tells them apart is the name. The reason is for people: it may be put in other words by any
release, and nothing is decided by it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class State(StrEnum):
    """How a condition stands, from well to worst."""

    OK = "ok"
    NOTICE = "notice"
    WARNING = "warning"
    CRITICAL = "critical"


class ConditionName(StrEnum):
    """What can be wrong, in the order in which it is told."""

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
    MACHINE_CLOCK_OFF = "machine_clock_off"
    CLOCK_WRONG = "clock_wrong"
    WEBHOOKS_PAUSED = "webhooks_paused"
    ITEM_SET_ASIDE = "item_set_aside"
    WORKER_FAILING = "worker_failing"


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a condition means: its state when something is wrong, what that is, what to do."""

    state: State
    tells: str
    to_do: str


_NAME = ConditionName
MEANINGS: Final[Mapping[ConditionName, Meaning]] = {
    _NAME.SETTLEMENT_PAUSED: Meaning(
        State.NOTICE,
        "the operator paused all relayer keys of the chain, or those that are named",
        "`florin executors resume`, when they shall send again",
    ),
    _NAME.SETTLEMENT_STARTING: Meaning(
        State.NOTICE,
        "the first look at the chain since the start is not over",
        "nothing; if it lasts for minutes, see what the log says of the chain",
    ),
    _NAME.SETTLEMENT_LEASED_ELSEWHERE: Meaning(
        State.NOTICE,
        "another process has the lease of relayer keys, and sends with them",
        "nothing, where several processes are meant to run; else end it, and wait half a minute",
    ),
    _NAME.SETTLEMENT_FAILING: Meaning(
        State.CRITICAL,
        "the newest attempt to settle on the chain ended with an error: payments stay "
        "`processing`; after three minutes in which the chain could not be asked, buyers are not "
        "offered it",
        "look at the nodes and at the store, as the reason says; it is tried again by itself",
    ),
    _NAME.BLOCKS_UNREAD: Meaning(
        State.WARNING,
        "blocks that came while Florin was down cannot be read: money that came meanwhile is not "
        "seen yet",
        "name a node in the settings that still has these blocks",
    ),
    _NAME.TRANSACTION_STUCK: Meaning(
        State.WARNING,
        "the oldest transaction is in no block, and its fee cannot be raised",
        "raise the chain's limits of fees if the prices on the chain are to be paid, or wait",
    ),
    _NAME.PAYERS_BLOCKED: Meaning(
        State.NOTICE,
        "accepted payments are not sent, as their payers were blocked after they had confirmed",
        "nothing: they fail when what was signed lapses",
    ),
    _NAME.EVENTS_MISSING: Meaning(
        State.CRITICAL,
        "the settlement contract says that payments are paid, and no node tells by which "
        "transaction",
        "name a node in the settings that keeps all events of the contract",
    ),
    _NAME.GAS_BUDGET_EXHAUSTED: Meaning(
        State.WARNING,
        "relayers lost as much gas, or as many fees on Solana, in this hour of the clock as the "
        "settings allow: some payments wait for the next hour",
        "find out who fails payments; raise `failed_gas` or `failed_fees` if you want to pay more",
    ),
    _NAME.PAYMENTS_GIVEN_UP: Meaning(
        State.WARNING,
        "payments are not sent any more, as too many transactions did not pay them",
        "nothing: they fail when what was signed lapses",
    ),
    _NAME.PAYMENTS_UNDONE: Meaning(
        State.CRITICAL,
        "a reorganisation removed blocks that were final, and payments that had succeeded with "
        "them; they are settled again",
        "hand out nothing for these payments; raise the chain's `confirmations`",
    ),
    _NAME.CHAIN_UNUSABLE: Meaning(
        State.CRITICAL,
        "the chain does not answer, or the chain, a token or a contract is not what the settings "
        "say: what is wrong is not offered to buyers",
        "correct the settings or name other nodes; `florin chain list` looks again",
    ),
    _NAME.CHAIN_STALLED: Meaning(
        State.CRITICAL,
        "no node tells a new block: payments stay `processing`, and buyers are not offered the "
        "chain",
        "compare with a block explorer: if the chain goes on, name another node in the settings; "
        "if it does not, wait, and it is offered again by itself",
    ),
    _NAME.PACE_CHANGED: Meaning(
        State.WARNING,
        "blocks of the chain have come at half or double of their usual pace, or farther from it, "
        "for ten minutes; Florin follows the new pace, and the reason says what changes with it",
        "find out why at the chain's own announcements; where `final_after_s` is 0, set it, as "
        "`confirmations` alone are worth less time then; the condition ends after a day",
    ),
    _NAME.RELAYER_FUNDS_LOW: Meaning(
        State.WARNING,
        "a relayer key has too little of the chain's coin to pay for the next transactions",
        "send coin to the address that is named",
    ),
    _NAME.RELAYER_EMPTY: Meaning(
        State.CRITICAL,
        "no relayer key can pay for one more transaction: confirmed payments wait, and buyers are "
        "not offered the chain",
        "send coin to an address that is named; the chain is offered again within half a minute",
    ),
    _NAME.DURABLE_NONCES_MISSING: Meaning(
        State.NOTICE,
        "a relayer on Solana cannot pay for all durable nonces: more buyers have to sign while a "
        "blockhash lasts",
        "send coin to the address that is named, or set fewer `durable_nonces`",
    ),
    _NAME.NODES_DISAGREE: Meaning(
        State.CRITICAL,
        "fewer nodes than have to agree tell what ends payments, or they tell different things; "
        "payments that this is about stay `processing`",
        "find out which node is wrong, and replace it in the settings; with two nodes, name a "
        "third one",
    ),
    _NAME.PAYOUTS_PAUSED: Meaning(
        State.NOTICE,
        "the operator paused the treasury's key",
        "`florin executors resume`, when it shall send again",
    ),
    _NAME.STORE_RESTORED: Meaning(
        State.CRITICAL,
        "the store is a copy, as a backup is, and what the treasury has paid out since it was made "
        "is not in it: nothing is paid out, as that would be paid again",
        "compare `florin payouts list` with the chain, call off what was paid with `florin payouts "
        "refuse`, then `florin executors resume` the treasury's key",
    ),
    _NAME.STORE_BEHIND: Meaning(
        State.CRITICAL,
        "the database may lack what was paid out: a standby took over, or the chain has "
        "transactions of a key that the store does not know. Nothing is paid out, as it might be "
        "paid again",
        "look at the log for the transactions, compare `florin payouts list` with the chain, call "
        "off what was paid with `florin payouts refuse`, then `florin executors resume` each "
        "treasury's key",
    ),
    _NAME.PAYOUTS_STARTING: Meaning(
        State.NOTICE,
        "the first look at the treasury since the start is not over",
        "nothing; if it lasts for minutes, see what the log says of the chain",
    ),
    _NAME.PAYOUTS_LEASED_ELSEWHERE: Meaning(
        State.NOTICE,
        "another process has the lease of the treasury's key, and sends with it",
        "nothing, where several processes are meant to run; else end it, and wait half a minute",
    ),
    _NAME.PAYOUTS_FAILING: Meaning(
        State.CRITICAL,
        "the newest attempt to pay out ended with an error: payouts and refunds stay as they are",
        "look at the nodes and at the store, as the reason says; it is tried again by itself",
    ),
    _NAME.PAYOUT_TRANSACTION_STUCK: Meaning(
        State.WARNING,
        "the treasury's oldest transaction is in no block, and its fee cannot be raised",
        "raise the chain's limits of fees if the prices on the chain are to be paid, or wait",
    ),
    _NAME.PAYOUTS_WAITING: Meaning(
        State.WARNING,
        "payouts or refunds are not sent, for the reasons that are told",
        "mend what is told: fund the treasury, say; `florin payouts list` names each payout",
    ),
    _NAME.PAYMENTS_HELD: Meaning(
        State.WARNING,
        "money of blocked payers came, and waits for a verdict",
        "`florin payments held` lists it; release, return or keep it",
    ),
    _NAME.WALLET_SHORT: Meaning(
        State.CRITICAL,
        "the treasury or a relayer holds less than is booked: somebody else took it, or coin was "
        "spent past Florin",
        "find the transaction; `florin ledger check` compares again",
    ),
    _NAME.DESTINATION_RESERVED: Meaning(
        State.WARNING,
        "a merchant's settlement destination is an account of the installation: nothing is paid "
        "to it",
        "have the merchant name another destination",
    ),
    _NAME.PRICE_MISSING: Meaning(
        State.WARNING,
        "no source tells a price that the settings ask for: the asset is not offered in that "
        "currency",
        "look at the sources, as the reason says; the price counts again as soon as one tells it",
    ),
    _NAME.SCREENING_LISTS_STALE: Meaning(
        State.CRITICAL,
        "a screening list is missing or too old, and one is required: live payments are refused",
        "`florin sanctions import` with a new list",
    ),
    _NAME.SCREENING_LISTS_OLD: Meaning(
        State.NOTICE,
        "a screening list is missing or too old, and none is required: payments go on",
        "`florin sanctions import` with a new list, or `screening_required` if one should be",
    ),
    _NAME.CERTIFICATE_EXPIRED: Meaning(
        State.CRITICAL,
        "the certificate of REST and gRPC is not valid now: no client connects",
        "write a new one to the files that the settings name; it is taken within 10 s",
    ),
    _NAME.CERTIFICATE_EXPIRING: Meaning(
        State.WARNING,
        "few days are left of the certificate of REST and gRPC, or its files hold a new one that "
        "cannot be used",
        "find out why it was not renewed; what is wrong with the files is told",
    ),
    _NAME.PAY_URL_LOCAL: Meaning(
        State.WARNING,
        "money is real, and payment links lead to this machine only, or over plain text",
        "set `FLORIN_PAY_URL` to the https address that buyers see, and start again",
    ),
    _NAME.STORE_UNREACHABLE: Meaning(
        State.CRITICAL,
        "the process does not reach its database: every call is refused with 503, and nothing is "
        "settled or paid out there",
        "see whether the database runs and the network between them works; the process resumes "
        "automatically",
    ),
    _NAME.MACHINE_CLOCK_OFF: Meaning(
        State.WARNING,
        "the clock of this machine differs from the database's by more than two seconds; Florin "
        "goes by the database's, but certificates and the log go by this machine's",
        "set the machine's clock (NTP), or the database server's, whichever is wrong",
    ),
    _NAME.CLOCK_WRONG: Meaning(
        State.CRITICAL,
        "the server's clock, on PostgreSQL the database's, differs by minutes from the newest "
        "blocks of most chains: buyers sign what has lapsed there, or quotes end too soon",
        "synchronize that clock (NTP); compare with `date -u`",
    ),
    _NAME.WEBHOOKS_PAUSED: Meaning(
        State.WARNING,
        "merchants' endpoints took nothing for days, or said that they are gone: they are told "
        "nothing, and what they miss waits for them",
        "tell their owners, who resume them; `florin webhooks list --paused` names them",
    ),
    _NAME.ITEM_SET_ASIDE: Meaning(
        State.CRITICAL,
        "a step of a payment, payout or another item failed in a way that nobody foresaw: the item "
        "is set aside, and all others continue",
        "`florin quarantine list` shows the items and errors; report the error, then `florin "
        "quarantine retry` with the fixed release, or `resolve` what you dealt with by hand",
    ),
    _NAME.WORKER_FAILING: Meaning(
        State.CRITICAL,
        "a worker ended with an unexpected error; it is started again after a pause",
        "find the worker and the traceback in the log, and report the error",
    ),
}


# what is so by design: where there are several processes, or the relayer has little coin
USUAL: Final = frozenset(
    {
        _NAME.SETTLEMENT_LEASED_ELSEWHERE,
        _NAME.PAYOUTS_LEASED_ELSEWHERE,
        _NAME.DURABLE_NONCES_MISSING,
    }
)


# conditions of one process: the reason names the process
OF_PROCESS: Final = frozenset(
    {
        _NAME.SETTLEMENT_LEASED_ELSEWHERE,
        _NAME.PAYOUTS_LEASED_ELSEWHERE,
        _NAME.SETTLEMENT_STARTING,
        _NAME.PAYOUTS_STARTING,
        _NAME.CERTIFICATE_EXPIRED,
        _NAME.CERTIFICATE_EXPIRING,
        _NAME.PAY_URL_LOCAL,
        _NAME.STORE_UNREACHABLE,
        _NAME.MACHINE_CLOCK_OFF,
        _NAME.WORKER_FAILING,
    }
)
# conditions that every process finds alike, as they are computed from the store
FROM_STORE: Final = frozenset(
    {
        _NAME.PAYOUTS_WAITING,
        _NAME.PAYMENTS_HELD,
        _NAME.DESTINATION_RESERVED,
        _NAME.ITEM_SET_ASIDE,
        _NAME.SCREENING_LISTS_STALE,
        _NAME.SCREENING_LISTS_OLD,
        _NAME.WEBHOOKS_PAUSED,
    }
)
# conditions that the holder of the treasury's lease reports; the others are the settler's
OF_PAYOUTS: Final = frozenset(
    {
        _NAME.PAYOUTS_PAUSED,
        _NAME.STORE_RESTORED,
        _NAME.STORE_BEHIND,
        _NAME.PAYOUTS_FAILING,
        _NAME.PAYOUT_TRANSACTION_STUCK,
    }
)
# conditions that a process may see although the holder of the lease does not: it has connections
# of its own to nodes and price sources
SEEN_BY_ANY: Final = frozenset(
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
FROM_NODES: Final = frozenset({_NAME.CHAIN_UNUSABLE, _NAME.CLOCK_WRONG})


@dataclass(frozen=True, slots=True)
class Condition:
    """One of them as it stands: `since_us` is when it got into its state, in µs since 1970.

    `reason` is empty while it is OK.
    """

    name: ConditionName
    state: State
    reason: str
    since_us: int
