"""Alarms for people: a sentence, what to do about it, and the page where it is done."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from florin.v1 import condition_pb2, system_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from florin_server.domain.conditions import ConditionName
from florin_server.web.console.paths import ROOT
from florin_server.web.console.pills import StatePill
from florin_server.web.console.view import Formatter

_NAME = ConditionName
# where the operator acts, and the key of the button's text
ACTIONS: Final[Mapping[ConditionName, tuple[str, str]]] = {
    _NAME.SETTLEMENT_PAUSED: ("#executors", "alarm.do.resume"),
    _NAME.PAYOUTS_PAUSED: ("#executors", "alarm.do.resume"),
    _NAME.PAYOUTS_WAITING: (f"{ROOT}/payouts", "alarm.do.payouts"),
    _NAME.STORE_RESTORED: (f"{ROOT}/payouts", "alarm.do.payouts"),
    _NAME.PAYOUT_TRANSACTION_STUCK: (f"{ROOT}/payouts", "alarm.do.payouts"),
    _NAME.PAYMENTS_HELD: (f"{ROOT}/held", "decide"),
    _NAME.WALLET_SHORT: (f"{ROOT}/books?check=1", "books.compare"),
    _NAME.WEBHOOKS_PAUSED: (f"{ROOT}/webhooks?paused=1", "alarm.do.show"),
    _NAME.ITEM_SET_ASIDE: (f"{ROOT}/quarantine", "decide"),
}


@dataclass(frozen=True, slots=True)
class AlarmView:
    """An alarm: `link` is empty if nothing can be done in the console.

    `reason` is English, as the API has it.
    """

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
    texts = formatter.texts
    chain = formatter.chain(chain_id) if chain_id else texts.plain("alarm.installation")
    link, key = ACTIONS.get(name, ("", ""))
    return AlarmView(
        title=texts.plain(f"alarm.{name}", chain=chain),
        state=state,
        reason=condition.reason,
        meaning=texts.plain(f"alarm.{name}.meaning"),
        to_do=texts.plain(f"alarm.{name}.remedy"),
        since=condition.since,
        link=link,
        link_text=texts.plain(key) if key else "",
    )
