"""Alarms for people: a sentence, what to do about it, and the page where it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from florin.v1 import condition_pb2, system_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.conditions import CONDITION_SPECS, ConditionName
from florin_server.web.console.pills import StatePill
from florin_server.web.console.site import ROOT
from florin_server.web.console.view import Formatter

_NAME = ConditionName
# "{}" is the name of the chain
TITLES: Final[Mapping[ConditionName, str]] = {
    _NAME.SETTLEMENT_PAUSED: "Sending is paused on {}",
    _NAME.SETTLEMENT_STARTING: "{} is starting",
    _NAME.SETTLEMENT_LEASED_ELSEWHERE: "Another process sends on {}",
    _NAME.SETTLEMENT_FAILING: "Settlement fails on {}",
    _NAME.BLOCKS_UNREAD: "Blocks are missing on {}",
    _NAME.TRANSACTION_STUCK: "A transaction is stuck on {}",
    _NAME.PAYERS_BLOCKED: "Payments of blocked payers wait on {}",
    _NAME.EVENTS_MISSING: "Payment events are missing on {}",
    _NAME.GAS_BUDGET_EXHAUSTED: "The gas budget is used up on {}",
    _NAME.PAYMENTS_GIVEN_UP: "Some payments are no longer sent on {}",
    _NAME.PAYMENTS_UNDONE: "A reorganization undid payments on {}",
    _NAME.CHAIN_UNUSABLE: "{} cannot be used",
    _NAME.CHAIN_STALLED: "{} produces no new blocks",
    _NAME.PACE_CHANGED: "{} runs at another pace than configured",
    _NAME.RELAYER_FUNDS_LOW: "A relayer is low on coin on {}",
    _NAME.RELAYER_EMPTY: "No relayer has coin on {}",
    _NAME.DURABLE_NONCES_MISSING: "Durable nonces are missing on {}",
    _NAME.NODES_DISAGREE: "The nodes of {} disagree",
    _NAME.PAYOUTS_PAUSED: "Payouts are paused on {}",
    _NAME.STORE_RESTORED: "The database is a restored copy",
    _NAME.STORE_BEHIND: "The database is behind the chain {}",
    _NAME.PAYOUTS_STARTING: "Payouts are starting on {}",
    _NAME.PAYOUTS_LEASED_ELSEWHERE: "Another process sends payouts on {}",
    _NAME.PAYOUTS_FAILING: "Payouts fail on {}",
    _NAME.PAYOUT_TRANSACTION_STUCK: "A payout is stuck on {}",
    _NAME.PAYOUTS_WAITING: "Payouts wait on {}",
    _NAME.PAYMENTS_HELD: "Held payments need a decision",
    _NAME.WALLET_SHORT: "A wallet holds less than the books say on {}",
    _NAME.DESTINATION_RESERVED: "A destination is one of your own accounts",
    _NAME.PRICE_MISSING: "A price is missing",
    _NAME.SCREENING_LISTS_STALE: "A screening list is too old",
    _NAME.SCREENING_LISTS_OLD: "A screening list is getting old",
    _NAME.CERTIFICATE_EXPIRED: "The TLS certificate has expired",
    _NAME.CERTIFICATE_EXPIRING: "The TLS certificate expires soon",
    _NAME.PAY_URL_LOCAL: "Payment links do not work for buyers",
    _NAME.STORE_UNREACHABLE: "The database does not respond",
    _NAME.MACHINE_CLOCK_OFF: "The clock of this machine is off",
    _NAME.CLOCK_WRONG: "The clock is wrong",
    _NAME.WEBHOOKS_PAUSED: "Webhook endpoints are paused",
    _NAME.ITEM_SET_ASIDE: "Items need a decision",
    _NAME.WORKER_FAILING: "A worker fails",
}
# where the operator acts, and the words of the button
_ACTIONS: Final[Mapping[ConditionName, tuple[str, str]]] = {
    _NAME.SETTLEMENT_PAUSED: ("#executors", "Resume below"),
    _NAME.PAYOUTS_PAUSED: ("#executors", "Resume below"),
    _NAME.PAYOUTS_WAITING: (f"{ROOT}/payouts", "Open payouts"),
    _NAME.STORE_RESTORED: (f"{ROOT}/payouts", "Open payouts"),
    _NAME.PAYOUT_TRANSACTION_STUCK: (f"{ROOT}/payouts", "Open payouts"),
    _NAME.PAYMENTS_HELD: (f"{ROOT}/held", "Decide"),
    _NAME.WALLET_SHORT: (f"{ROOT}/books?check=1", "Compare with the chains"),
    _NAME.WEBHOOKS_PAUSED: (f"{ROOT}/webhooks?paused=1", "Show them"),
    _NAME.ITEM_SET_ASIDE: (f"{ROOT}/quarantine", "Decide"),
}


@dataclass(frozen=True, slots=True)
class AlarmView:
    """An alarm: `link` is empty if nothing can be done in the console."""

    title: str
    state: StatePill
    reason: str
    meaning: str
    to_do: str
    since: Timestamp
    link: str = ""
    link_text: str = ""


def count_open_conditions(system: system_pb2.GetSystemStatusResponse) -> int:
    """Return the number of alarms of the installation and of its chains."""
    return len(_drop_resolved(_list_conditions(system)))


def list_alarms(
    formatter: Formatter, system: system_pb2.GetSystemStatusResponse
) -> list[AlarmView]:
    """Return the alarms of the installation and of its chains, the worst first."""
    open_conditions = _drop_resolved(_list_conditions(system))
    return [_describe(formatter, chain_id, condition) for chain_id, condition in open_conditions]


def _list_conditions(
    system: system_pb2.GetSystemStatusResponse,
) -> list[tuple[str, condition_pb2.Condition]]:
    return [
        *(("", condition) for condition in system.conditions),
        *((chain.chain_id, condition) for chain in system.chains for condition in chain.conditions),
    ]


def _drop_resolved(
    conditions: Iterable[tuple[str, condition_pb2.Condition]],
) -> list[tuple[str, condition_pb2.Condition]]:
    ok = condition_pb2.CONDITION_STATE_OK
    return sorted(
        (item for item in conditions if item[1].state != ok), key=lambda item: -item[1].state
    )


def _describe(formatter: Formatter, chain_id: str, condition: condition_pb2.Condition) -> AlarmView:
    state = formatter.pill("condition", condition.state)
    try:
        name = ConditionName(condition.name)
    except ValueError:
        # of a newer release, in another process
        title = condition.name.replace("_", " ").capitalize()
        return AlarmView(title, state, condition.reason, "", "", condition.since)
    place = formatter.chain(chain_id) if chain_id else "the installation"
    spec, (link, link_text) = CONDITION_SPECS[name], _ACTIONS.get(name, ("", ""))
    return AlarmView(
        title=TITLES[name].format(place),
        state=state,
        reason=condition.reason,
        meaning=f"{spec.description[:1].upper()}{spec.description[1:]}.",
        to_do=f"{spec.remedy[:1].upper()}{spec.remedy[1:]}.",
        since=condition.since,
        link=link,
        link_text=link_text,
    )
