"""`states.md`: states of payments, transactions, payouts and refunds, from the code's tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from florin_server.domain.payments import state as payments
from florin_server.domain.payments.payment import PaymentStatus, RefundStatus
from florin_server.domain.payouts import state as payouts
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.settlement import state as transactions
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.transitions import TransitionTable
from grpc_rest_gateway.openapi import ProtoComments

from tools.reference.markdown import format_code, format_sentence, render_page, render_table

_ABOUT = """\
Each table is the transition table of the code. Rows are events, columns are states. A cell is the
state after the event; a dash is an event that is refused in that state, or cannot happen in it.
Elapsed time, an outage and a restart are not events: they change nothing."""
_PAYMENT = """\
`status` of a payment. Each change gets the next `version`; watchers of the payment receive the
newest version. A final status never changes: not by money that comes late, which is returned, and
not by a reorganization, which reverses its ledger entries until the payment is settled again.

A payment whose money is held stays `processing`. Of the rows below `held` only `released`,
`returned` and `kept` apply to it, which are the operator's verdicts, and no simulation. Money that
comes late is held, returned and kept too, without further effect."""
_TRANSACTION = """\
A transaction that Florin signs: it settles payments, pays out, or opens accounts. Florin records
it, in state `signed`, before any node receives it, so that it only sends recorded bytes. A higher
fee makes another variant of the same transaction, without an event; at most one variant can be
mined."""
_PAYOUT = """\
`status` of a payout: money that leaves a treasury, as a refund, as a merchant's balance, or as
returned money. A payout that is `done` stays so, unless a reorganization removes a final block."""
_REFUND = """\
`status` of a refund. The payout with its id pays it, and the refund follows that payout by the same
events. A refund reported as `succeeded` stays succeeded: if a reorganization removes its payout,
Florin pays it again. The refund of a payment with a simulated success is `succeeded` from the
start, and has no payout."""


@dataclass(frozen=True)
class _StateMachineSection:
    """The content of one section; `next_states` is the next state, by state and event."""

    title: str
    about: str
    states: Mapping[Any, str]
    events: Mapping[Any, str]
    next_states: Mapping[tuple[Any, Any], str]
    start: str
    has_explained_events: bool = False  # its events are explained in an earlier section


def render_states(image: bytes) -> str:
    """Return the document; `image` is the descriptor set of the protos with comments."""
    comments = ProtoComments(image)
    nouns = (
        _StateMachineSection(
            "Payment",
            _PAYMENT,
            _get_public_meanings(comments, "PaymentStatus", PaymentStatus),
            payments.EVENT_DESCRIPTIONS,
            _to_pairs(payments.PAYMENT_TRANSITIONS),
            PaymentStatus.REQUIRES_ACTION,
        ),
        _StateMachineSection(
            "Transaction",
            _TRANSACTION,
            transactions.STATE_DESCRIPTIONS,
            transactions.EVENT_DESCRIPTIONS,
            _to_pairs(transactions.TRANSACTION_TRANSITIONS),
            TxState.SIGNED,
        ),
        _StateMachineSection(
            "Payout",
            _PAYOUT,
            _get_public_meanings(comments, "PayoutStatus", PayoutStatus),
            payouts.EVENT_DESCRIPTIONS,
            _to_pairs(payouts.PAYOUT_TRANSITIONS),
            PayoutStatus.WAITING,
        ),
        _StateMachineSection(
            "Refund",
            _REFUND,
            _get_public_meanings(comments, "RefundStatus", RefundStatus),
            payouts.EVENT_DESCRIPTIONS,
            _to_pairs(payouts.REFUND_TRANSITIONS),
            RefundStatus.PENDING,
            has_explained_events=True,
        ),
    )
    return render_page("States", _ABOUT, *(_render_section(noun) for noun in nouns))


def _render_section(section: _StateMachineSection) -> str:
    names = list(section.states)
    rows = [
        [
            format_code(event),
            *(format_code(section.next_states.get((name, event), "")) or "–" for name in names),
        ]
        for event in section.events
    ]
    return "\n\n".join(
        (
            f"## {section.title}",
            section.about,
            render_table(("State", "Meaning"), _list_meanings(section.states)),
            _render_diagram(section),
            render_table(("Event", *map(format_code, names)), rows),
            ""
            if section.has_explained_events
            else render_table(("Event", "What happened"), _list_meanings(section.events)),
        )
    ).rstrip()


def _list_meanings(meanings: Mapping[str, str]) -> list[Sequence[str]]:
    return [(format_code(name), format_sentence(text)) for name, text in meanings.items()]


def _render_diagram(section: _StateMachineSection) -> str:
    """Return the events that lead to another state, as a diagram."""
    arrows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (before, event), after in section.next_states.items():
        if before != after:
            arrows[before, after].append(str(event))
    lines = [f"    [*] --> {section.start}"]
    lines += [
        f"    {state} --> {other}: {', '.join(why)}" for (state, other), why in arrows.items()
    ]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


def _get_public_meanings(
    comments: ProtoComments, enum: str, kind: Iterable[StrEnum]
) -> dict[str, str]:
    """Return the meanings of states that callers see, from the comments of the protos."""
    prefix = (
        "".join(f"_{character}" if character.isupper() else character for character in enum)
        .upper()
        .lstrip("_")
    )
    return {
        str_enum: comments.get_comment(f"florin.v1.{enum}.{prefix}_{str_enum.upper()}")
        for str_enum in kind
    }


def _to_pairs(moves: TransitionTable[Any, Any]) -> dict[tuple[Any, Any], str]:
    """Return the next state, by state and event."""
    return {
        (before, event): after for event, row in moves.rows.items() for before, after in row.items()
    }
