"""The sums of a statement, added up by the database."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    case,
    exists,
    func,
    literal_column,
    or_,
    select,
)

from florin_server.db.engine.query import Op, Statement, operation, param
from florin_server.db.engine.sums import fast_sum_u256, text_position
from florin_server.db.tables.tables import (
    archived_payment_table,
    ledger_journal_table,
    ledger_transfer_table,
    payment_table,
)
from florin_server.domain.ledger import accounts
from florin_server.domain.ledger.journals import JournalKind, format_reversal_kind
from florin_server.domain.reports.period import ReportPeriod
from florin_server.domain.reports.statement import (
    BalanceSum,
    CostSum,
    MovementSum,
    RequestedSum,
    StatementSums,
    split_reversal,
)
from florin_server.features.reports.store.scope import (
    JOURNAL,
    TRANSFER,
    ReportScope,
    ScopeKind,
    implies_merchant,
    is_balance_of,
    is_in_time,
    names_merchant,
)

_HELD: Final = accounts.kind_prefix(accounts.LedgerAccountKind.HELD)
# the character after a colon
_HELD_END: Final = f"{_HELD[:-1]};"
_ONE: Final[ColumnElement[Any]] = literal_column("1")
_ZERO: Final[ColumnElement[Any]] = literal_column("0")
_SETTLED: Final = (JournalKind.SETTLE, format_reversal_kind(JournalKind.SETTLE))


class _BalancePart(NamedTuple):
    """The transfers of one side in an asset, before the period or in it."""

    asset: str
    is_before: int
    total: int


class _RequestedPart(NamedTuple):
    unit: str
    type: str
    payments: int
    total: int


def _select_kind(account: ColumnElement[Any], name: str) -> ColumnElement[Any]:
    """Return the kind of an account: the text before its first colon."""
    end = text_position(literal_column("':'"), account)
    return func.substr(account, _ONE, end - _ONE).label(name)


def _select_movements(condition: ColumnElement[bool]) -> Select[Any]:
    debit = _select_kind(TRANSFER.debit, "debit_kind")
    credit = _select_kind(TRANSFER.credit, "credit_kind")
    first = case((TRANSFER.n == _ZERO, _ONE), else_=_ZERO)
    return (
        select(
            JOURNAL.type,
            TRANSFER.asset,
            debit,
            credit,
            func.sum(first).label("journals"),
            fast_sum_u256(TRANSFER.amount).label("amount"),
        )
        .join_from(
            ledger_journal_table,
            ledger_transfer_table,
            TRANSFER.idem_key == JOURNAL.idem_key,
        )
        .where(is_in_time(), condition)
        .group_by(JOURNAL.type, TRANSFER.asset, "debit_kind", "credit_kind")
    )


def _select_balances(condition: ColumnElement[bool]) -> Select[Any]:
    before = case((JOURNAL.at_us < param("start_us"), _ONE), else_=_ZERO).label("is_before")
    return (
        select(TRANSFER.asset, before, fast_sum_u256(TRANSFER.amount).label("total"))
        .join_from(
            ledger_transfer_table,
            ledger_journal_table,
            JOURNAL.idem_key == TRANSFER.idem_key,
        )
        .where(condition, JOURNAL.at_us < param("end_us"))
        .group_by(TRANSFER.asset, "is_before")
    )


def _select_requested(
    condition: ColumnElement[bool], payment_id: Column[Any] = payment_table.c.id
) -> Select[Any]:
    payment = payment_id.table.c
    return (
        select(
            payment.unit,
            JOURNAL.type,
            func.count().label("payments"),
            fast_sum_u256(payment.value).label("total"),
        )
        .join_from(ledger_journal_table, payment_id.table, payment_id == JOURNAL.payment_id)
        .where(is_in_time(), condition, or_(*(JOURNAL.type == kind for kind in _SETTLED)))
        .group_by(payment.unit, JOURNAL.type)
    )


def _select_archived(condition: ColumnElement[bool]) -> Select[Any]:
    archived_id = archived_payment_table.c.payment_id
    # its rows may be about to leave the store
    is_stored = exists().where(payment_table.c.id == archived_id).correlate(archived_payment_table)
    return _select_requested(condition & ~is_stored, archived_id)


def _is_of_payment(kind: ScopeKind) -> ColumnElement[bool]:
    """Return the condition that a journal without a merchant has a payment of the scope."""
    in_mode = payment_table.c.live == param("scope_live")
    if kind is ScopeKind.MERCHANT:
        is_own = payment_table.c.merchant_id == param("scope_merchant")
    elif kind is ScopeKind.PARTNER:
        is_own = (payment_table.c.partner_id == param("scope_partner")) & in_mode
    else:
        is_own = in_mode
    return JOURNAL.merchant_id.is_(None) & is_own


def _is_held_of(kind: ScopeKind, side: ColumnElement[Any]) -> ColumnElement[bool]:
    in_range = (side >= param("held")) & (side < param("held_end"))
    return in_range & or_(names_merchant(kind), implies_merchant(kind))


_MOVEMENTS = {
    kind: tuple(
        Statement(_select_movements(condition), MovementSum)
        for condition in (names_merchant(kind), implies_merchant(kind))
    )
    for kind in ScopeKind
}
_REQUESTED = {
    kind: (
        Statement(_select_requested(names_merchant(kind)), _RequestedPart),
        Statement(_select_requested(_is_of_payment(kind)), _RequestedPart),
        # journals of archived payments name their merchant
        Statement(_select_archived(names_merchant(kind)), _RequestedPart),
    )
    for kind in ScopeKind
}
# credits, then debits
_BALANCES = {
    kind: tuple(
        Statement(_select_balances(is_balance_of(kind, side)), _BalancePart)
        for side in (TRANSFER.credit, TRANSFER.debit)
    )
    for kind in ScopeKind
}
_HELD_BALANCES = {
    kind: tuple(
        Statement(_select_balances(_is_held_of(kind, side)), _BalancePart)
        for side in (TRANSFER.credit, TRANSFER.debit)
    )
    for kind in ScopeKind
}


def _select_costs(side: ColumnElement[Any]) -> Select[Any]:
    return (
        select(
            side.label("account"),
            TRANSFER.asset,
            fast_sum_u256(TRANSFER.amount).label("amount"),
        )
        .join_from(
            ledger_journal_table,
            ledger_transfer_table,
            TRANSFER.idem_key == JOURNAL.idem_key,
        )
        .where(is_in_time(), or_(side == param("gas"), side == param("rent")))
        .group_by(side, TRANSFER.asset)
    )


_COST_DEBITS, _COST_CREDITS = (
    Statement(_select_costs(side), CostSum) for side in (TRANSFER.debit, TRANSFER.credit)
)


@operation
def read_costs(period: ReportPeriod) -> Op[list[CostSum]]:
    """Return what the operator's transactions cost, by account and coin."""
    times = {"start_us": period.start_us, "end_us": period.end_us}
    params = {**times, "gas": accounts.GAS, "rent": accounts.RENT}
    totals: dict[tuple[str, str], int] = defaultdict(int)
    for statement, sign in ((_COST_DEBITS, 1), (_COST_CREDITS, -1)):
        for cost in (yield from statement.all(params)):
            totals[cost.account, cost.asset] += sign * cost.amount
    return [CostSum(*key, total) for key, total in sorted(totals.items()) if total]


@operation
def read_sums(scope: ReportScope, period: ReportPeriod) -> Op[StatementSums]:
    """Return the sums of a statement.

    Movements are read by the index of merchants and times. Balances add all earlier transfers of
    the merchants' accounts, as every payout does.
    """
    params = _to_params(scope, period)
    movements: list[MovementSum] = []
    for statement in _MOVEMENTS[scope.kind]:
        movements += yield from statement.all(params)
    opening, closing = yield from _read_balances(_BALANCES[scope.kind], params)
    held_opening, held_closing = yield from _read_balances(
        _HELD_BALANCES[scope.kind], {**params, "held": _HELD, "held_end": _HELD_END}
    )
    return StatementSums(movements, opening, closing, held_opening, held_closing)


@operation
def read_requested(scope: ReportScope, period: ReportPeriod) -> Op[list[RequestedSum]]:
    """Return what was requested by the payments that succeeded, by unit; reversals take back."""
    payments: dict[str, int] = defaultdict(int)
    values: dict[str, int] = defaultdict(int)
    for statement in _REQUESTED[scope.kind]:
        for part in (yield from statement.all(_to_params(scope, period))):
            _, sign = split_reversal(part.type)
            payments[part.unit] += sign * part.payments
            values[part.unit] += sign * part.total
    return [
        RequestedSum(unit, payments[unit], values[unit])
        for unit in sorted(payments)
        if payments[unit] or values[unit]
    ]


def _to_params(scope: ReportScope, period: ReportPeriod) -> dict[str, object]:
    times = {"start_us": period.start_us, "end_us": period.end_us}
    # a payment of the scope is in its mode
    return {"scope_live": scope.live, **scope.to_params(), **times}


def _read_balances(
    sides: tuple[Statement[_BalancePart], ...], params: Mapping[str, object]
) -> Op[tuple[list[BalanceSum], list[BalanceSum]]]:
    """Return what is owed at the start and at the end, by asset."""
    opening: dict[str, int] = defaultdict(int)
    closing: dict[str, int] = defaultdict(int)
    for statement, sign in zip(sides, (1, -1), strict=True):
        for part in (yield from statement.all(dict(params))):
            closing[part.asset] += sign * part.total
            opening[part.asset] += sign * part.total if part.is_before else 0
    return _to_balances(opening), _to_balances(closing)


def _to_balances(owed: Mapping[str, int]) -> list[BalanceSum]:
    return [BalanceSum(asset, value) for asset, value in sorted(owed.items()) if value]
