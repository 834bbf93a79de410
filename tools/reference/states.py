"""`states.md`: where payments, transactions, payouts and refunds can go, from the code's tables."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from florin_gateway.openapi import Comments
from florin_server.domain.payments import state as payments
from florin_server.domain.payments.payment import RefundStatus, Status
from florin_server.domain.payouts import state as payouts
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.settlement import state as transactions
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.transitions import Transitions

from tools.reference.markdown import code, page, sentence, table

_ABOUT = """\
Each table is the one that the code goes by. Rows are events, columns are states. A cell is the
state after the event; a dash is an event that is refused in that state, or cannot happen in it.
Time that passes, an outage and a restart are no events: they change nothing."""
_PAYMENT = """\
`status` of a payment. Each change gets the next `version`; whoever watches the payment is told the
newest one. A final status never changes: not by money that comes late, which is sent back, and not
by a reorganisation, which takes back what was booked until the payment is settled again.

A payment whose money is held stays `processing`. Of the rows below `held` only `released`,
`returned` and `kept` apply to it, which are the operator's verdicts, and no simulation. Money that
comes late is held, returned and kept too, and changes nothing any more."""
_TRANSACTION = """\
A transaction that Florin itself signs: it settles payments, pays out, or opens accounts. It is
written down, in state `signed`, before any node sees it, so that only bytes that are known are ever
sent. A higher fee makes another variant of the same transaction, and no event of its own; at most
one variant can be mined."""
_PAYOUT = """\
`status` of a payout: money that leaves a treasury, as a refund, as what a merchant is owed, or as
money that is sent back. What is `done` stays so, unless a reorganisation removes what was final."""
_REFUND = """\
`status` of a refund. It is paid by a payout that has its id, and follows that by the same events. A
refund that was told as `succeeded` stays so: if a reorganisation undoes its payout, it is paid
again. The refund of a payment whose success was simulated is `succeeded` from the start, and has no
payout."""


@dataclass(frozen=True)
class _Noun:
    """What one section is made of; `after` is the state that follows, by state and event."""

    title: str
    about: str
    states: Mapping[Any, str]
    events: Mapping[Any, str]
    after: Mapping[tuple[Any, Any], str]
    start: str
    explained: bool = False  # its events were told before


def states(image: bytes) -> str:
    """The document; `image` is the descriptor set of the protos with comments."""
    comments = Comments(image)
    nouns = (
        _Noun(
            "Payment",
            _PAYMENT,
            _public(comments, "PaymentStatus", Status),
            payments.EVENTS,
            _pairs(payments.PAYMENT),
            Status.REQUIRES_ACTION,
        ),
        _Noun(
            "Transaction",
            _TRANSACTION,
            transactions.STATES,
            transactions.EVENTS,
            _pairs(transactions.TRANSACTION),
            TxState.SIGNED,
        ),
        _Noun(
            "Payout",
            _PAYOUT,
            _public(comments, "PayoutStatus", PayoutStatus),
            payouts.EVENTS,
            _pairs(payouts.PAYOUT),
            PayoutStatus.WAITING,
        ),
        _Noun(
            "Refund",
            _REFUND,
            _public(comments, "RefundStatus", RefundStatus),
            payouts.EVENTS,
            _pairs(payouts.REFUND),
            RefundStatus.PENDING,
            explained=True,
        ),
    )
    return page("States", _ABOUT, *(_section(noun) for noun in nouns))


def _section(noun: _Noun) -> str:
    names = list(noun.states)
    rows = [
        [code(event), *(code(noun.after.get((name, event), "")) or "–" for name in names)]
        for event in noun.events
    ]
    return "\n\n".join(
        (
            f"## {noun.title}",
            noun.about,
            table(("State", "Meaning"), _told(noun.states)),
            _diagram(noun),
            table(("Event", *map(code, names)), rows),
            "" if noun.explained else table(("Event", "What happened"), _told(noun.events)),
        )
    ).rstrip()


def _told(meanings: Mapping[str, str]) -> list[Sequence[str]]:
    return [(code(name), sentence(text)) for name, text in meanings.items()]


def _diagram(noun: _Noun) -> str:
    """The events that lead to another state, as a picture."""
    arrows: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (before, event), after in noun.after.items():
        if before != after:
            arrows[before, after].append(str(event))
    lines = [f"    [*] --> {noun.start}"]
    lines += [f"    {one} --> {other}: {', '.join(why)}" for (one, other), why in arrows.items()]
    return "\n".join(("```mermaid", "stateDiagram-v2", *lines, "```"))


def _public(comments: Comments, enum: str, kind: Iterable[StrEnum]) -> dict[str, str]:
    """The meanings of states that callers see, from the comments of the protos."""
    prefix = "".join(f"_{one}" if one.isupper() else one for one in enum).upper().lstrip("_")
    return {one: comments.of(f"florin.v1.{enum}.{prefix}_{one.upper()}") for one in kind}


def _pairs(moves: Transitions[Any, Any]) -> dict[tuple[Any, Any], str]:
    """What follows, by state and event."""
    return {
        (before, event): after for event, row in moves.rows.items() for before, after in row.items()
    }
