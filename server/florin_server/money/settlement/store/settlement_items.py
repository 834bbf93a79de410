"""Accepted payments that wait for their end on chain, and those of them that no transaction has."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from sqlalchemy import Select, exists, func, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    columns,
    is_in,
    operation,
    param,
)
from florin_server.db.engine.times import is_due
from florin_server.db.tables.payments import UNSETTLED_PREDICATE, ConfirmationState
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    confirmation_table,
    payment_option_table,
    payment_table,
    resolved_build_table,
)
from florin_server.domain.payments.payment import (
    Confirmation,
    Payment,
    PaymentOption,
    ResolvedBuild,
)
from florin_server.domain.quarantine import QuarantinedItemKind
from florin_server.domain.settlement.chain_txs import SettlementItem
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable
from florin_server.operations.store.quarantine import is_excluded

# Our final transactions that can include a payment without paying it. Honest payments fail once,
# when their money moves between a dry run and its block. From then on each is dry-run alone before
# it is sent, and a payment that fails twice more does so on purpose.
FAILURES_MAX = 3

NOT_HELD = confirmation_table.c.state != ConfirmationState.HELD
# few transactions are open at any time
_IN_OPEN = (
    exists()
    .where(
        text(OPEN_TX_PREDICATE),
        chain_tx_table.c.chain_id == confirmation_table.c.chain_id,
        chain_tx_item_table.c.tx_id == chain_tx_table.c.id,
        chain_tx_item_table.c.payment_id == confirmation_table.c.payment_id,
    )
    .correlate(confirmation_table)
)


def _select_items() -> Select[*tuple[Any, ...]]:
    """Build a query of a chain's payments that wait for their end on chain, the oldest first."""
    return (
        select(
            *payment_table.c,
            *columns(payment_option_table, PaymentOption),
            *columns(confirmation_table, Confirmation),
            confirmation_table.c.from_block,
            confirmation_table.c.app,
            confirmation_table.c.failures,
            confirmation_table.c.reverted,
        )
        .join_from(
            confirmation_table, payment_table, payment_table.c.id == confirmation_table.c.payment_id
        )
        .join(
            payment_option_table,
            (payment_option_table.c.payment_id == confirmation_table.c.payment_id)
            & (payment_option_table.c.id == confirmation_table.c.option_id),
        )
        .where(
            text(UNSETTLED_PREDICATE), NOT_HELD, confirmation_table.c.chain_id == param("chain_id")
        )
        .order_by(confirmation_table.c.at_us, confirmation_table.c.payment_id)
    )


class _SettlementRow(NamedTuple):
    """A confirmed payment with its option, and the counts of its transactions."""

    payment: Payment
    option: PaymentOption
    confirmation: Confirmation
    from_block: int
    app: str
    failures: int
    reverted: int


_WAITING = Statement(
    _select_items()
    .where(
        confirmation_table.c.state == ConfirmationState.WAITING,
        is_due(confirmation_table.c.retry_at_us),
        confirmation_table.c.failures < param("most"),
        ~is_excluded(QuarantinedItemKind.PAYMENT, confirmation_table.c.payment_id),
    )
    .limit(param("limit")),
    _SettlementRow,
    payment=Payment,
    option=PaymentOption,
    confirmation=Confirmation,
)
_UNSETTLED = Statement(
    _select_items(),
    _SettlementRow,
    payment=Payment,
    option=PaymentOption,
    confirmation=Confirmation,
)
_UNSETTLED_IDS = Statement(
    select(confirmation_table.c.payment_id).where(
        text(UNSETTLED_PREDICATE), NOT_HELD, confirmation_table.c.chain_id == param("chain_id")
    ),
    str,
)
_RESOLVED_BUILDS = Statement(
    select(*columns(resolved_build_table, ResolvedBuild))
    .join(
        confirmation_table,
        (confirmation_table.c.payment_id == resolved_build_table.c.payment_id)
        & (confirmation_table.c.option_id == resolved_build_table.c.option_id),
    )
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .order_by(resolved_build_table.c.payment_id, resolved_build_table.c.n.desc()),
    ResolvedBuild,
)
_COUNT = Statement(
    select(func.count()).select_from(confirmation_table).where(text(UNSETTLED_PREDICATE)), int
)
_SUBMIT = Statement(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        confirmation_table.c.state == ConfirmationState.WAITING,
    )
    .values(state=ConfirmationState.SUBMITTED)
    .returning(confirmation_table.c.payment_id),
    str,
)
_LEAVE = Command(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        confirmation_table.c.state == ConfirmationState.WAITING,
    )
    .values(state=ConfirmationState.SUBMITTED)
)
# an operation that puts them into a transaction changes them too
_LOCK = Statement(
    select(confirmation_table.c.payment_id)
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .order_by(confirmation_table.c.payment_id)
    .with_for_update(),
    str,
)
_RELEASE = Command(
    update(confirmation_table)
    .where(
        is_in(confirmation_table.c.payment_id, "ids"),
        text(UNSETTLED_PREDICATE),
        NOT_HELD,
        ~_IN_OPEN,
    )
    .values(state=ConfirmationState.WAITING, retry_at_us=param("at_us"))
)
_ISOLATE = Command(
    update(confirmation_table)
    .where(is_in(confirmation_table.c.payment_id, "ids"), text(UNSETTLED_PREDICATE))
    .values(reverted=confirmation_table.c.reverted + 1)
)


@operation
def list_waiting(chain_id: str, limit: int, now_us: int) -> Op[list[SettlementItem]]:
    """Return accepted payments that are in no transaction and due, the oldest first.

    A payment that too many transactions did not pay is not sent any more.
    """
    rows = yield from _WAITING.all(chain_id=chain_id, now_us=now_us, limit=limit, most=FAILURES_MAX)
    return [_to_settlement_item(row) for row in rows]


@operation
def list_unsettled(chain_id: str) -> Op[list[SettlementItem]]:
    """Return every payment of a chain that waits for its end on chain, the oldest first."""
    return [_to_settlement_item(row) for row in (yield from _UNSETTLED.all(chain_id=chain_id))]


@operation
def list_unsettled_ids(chain_id: str) -> Op[frozenset[str]]:
    """Return the ids of every payment of a chain that waits for its end on chain."""
    return frozenset((yield from _UNSETTLED_IDS.all(chain_id=chain_id)))


@operation
def list_resolved_builds(payment_ids: Collection[str]) -> Op[list[ResolvedBuild]]:
    """Return the resolved builds of payments' bound options, the newest of each first."""
    return (yield from _RESOLVED_BUILDS.all(ids=payment_ids))


@operation
def count_unsettled() -> Op[int]:
    """Return how many payments are processing, on all chains."""
    count = yield from _COUNT.single()
    return int(count)


@operation
def claim(payment_ids: Collection[str]) -> Op[None]:
    """Claim payments; raise ItemsUnavailable if one is not waiting. Part of an operation."""
    taken = set((yield from _SUBMIT.all(ids=payment_ids)))
    if missing := [payment_id for payment_id in payment_ids if payment_id not in taken]:
        raise ItemsUnavailable(f"not waiting to be settled: {', '.join(missing)}")


@operation
def leave_to_buyer(payment_ids: Collection[str]) -> Op[None]:
    """Stop submitting payments whose transaction the buyer sends."""
    yield _LEAVE(ids=payment_ids)


@operation
def release(payment_ids: Collection[str], retry_at_us: int) -> Op[None]:
    """Make unsettled payments wait again, due at a time.

    A payment in an open transaction stays there: another process sent it meanwhile.
    """
    yield from _LOCK.all(ids=payment_ids)
    yield _RELEASE(ids=payment_ids, at_us=retry_at_us)


@operation
def isolate(payment_ids: Sequence[str]) -> Op[None]:
    """Record that a transaction failed as a whole, so that its payments go alone next.

    Part of an operation.
    """
    if payment_ids:
        yield _ISOLATE(ids=payment_ids)


def _to_settlement_item(row: _SettlementRow) -> SettlementItem:
    """Return the payment to settle; one that failed before shares no transaction."""
    return SettlementItem(
        row.payment,
        row.option,
        row.confirmation,
        row.from_block,
        row.app,
        row.failures,
        isolated=row.failures > 0 or row.reverted > 0,
    )
