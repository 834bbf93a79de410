"""Payments that final payouts settle: the treasury pays a merchant's balance in sums.

A final payout of a balance settles the oldest payments that it covers. The books alone determine
how many: what is owed for unsettled payments, less what the merchant is still owed. It can
therefore be computed again after a crash or a reorg, and no amount is used twice. Refunds count as
received: the merchant is charged for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import BigInteger, Select, Text, and_, delete, exists, or_, select, text

from florin_server.db.engine.columns import U256
from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    operation,
    param,
    sum_u256,
)
from florin_server.db.tables.payouts import OWED_PREDICATE
from florin_server.db.tables.tables import (
    covering_payout_table,
    ledger_journal_table,
    ledger_transfer_table,
    payment_settled_table,
    payment_table,
    payout_table,
)
from florin_server.domain.ledger import accounts, journals
from florin_server.domain.payouts.payout import Payout, PayoutKind
from florin_server.money.outbox.store import events, older_releases, outbox

# payments that one transaction marks
PAGE = 200
_COVERING = covering_payout_table.c
_COLUMNS = [column.name for column in payment_settled_table.c]


class _CoveringPayout(NamedTuple):
    at_us: int
    payout_id: str
    merchant_id: str
    asset: str
    value: int
    tx_id: str | None


class _Sums(NamedTuple):
    unsettled: int | None
    credits: int | None
    debits: int | None
    going_back: int | None
    later: int | None


class _UnsettledPayment(NamedTuple):
    payment_id: str
    amount: int


_ADD = Command(insert(covering_payout_table).on_conflict_do_nothing())
# one process takes the oldest, and others wait for it
_NEXT = Statement(
    select(covering_payout_table)
    .order_by(_COVERING.at_us, _COVERING.payout_id)
    .limit(1)
    .with_for_update(),
    _CoveringPayout,
)
_ANY = Statement(select(_COVERING.payout_id).limit(1), str)
_DONE = Command(
    delete(covering_payout_table).where(
        _COVERING.at_us == param("at_us"), _COVERING.payout_id == param("payout")
    )
)
_reversal = ledger_journal_table.alias("reversal")
_unsettled = (
    ledger_transfer_table.c.credit == param("account"),
    ledger_transfer_table.c.asset == param("asset"),
    ledger_journal_table.c.type == journals.JournalKind.SETTLE,
    ledger_journal_table.c.payment_id.is_not(None),
    ~exists().where(
        _reversal.c.idem_key
        == journals.key_prefix(journals.JournalKind.REVERSE) + ledger_journal_table.c.idem_key
    ),
    ~exists().where(payment_settled_table.c.payment_id == ledger_journal_table.c.payment_id),
)


def _select_account_sum(side: str) -> Select[Any]:
    return select(sum_u256(ledger_transfer_table.c.amount)).where(
        ledger_transfer_table.c[side] == param("account"),
        ledger_transfer_table.c.asset == param("asset"),
    )


# one statement, so that all sums are of the same moment
_SUMS = Statement(
    select(
        select(sum_u256(ledger_transfer_table.c.amount))
        .join_from(
            ledger_transfer_table,
            ledger_journal_table,
            ledger_journal_table.c.idem_key == ledger_transfer_table.c.idem_key,
        )
        .where(*_unsettled)
        .scalar_subquery()
        .label("unsettled"),
        _select_account_sum("credit").scalar_subquery().label("credits"),
        _select_account_sum("debit").scalar_subquery().label("debits"),
        select(sum_u256(payout_table.c.value))
        .where(
            text(OWED_PREDICATE),
            payout_table.c.merchant_id == param("merchant"),
            payout_table.c.asset == param("asset"),
            payout_table.c.kind != PayoutKind.BALANCE,
            payout_table.c.held_id.is_(None),
        )
        .scalar_subquery()
        .label("going_back"),
        select(sum_u256(_COVERING.value))
        .where(
            _COVERING.merchant_id == param("merchant"),
            _COVERING.asset == param("asset"),
            or_(
                _COVERING.at_us > param("at_us"),
                and_(_COVERING.at_us == param("at_us"), _COVERING.payout_id > param("payout")),
            ),
        )
        .scalar_subquery()
        .label("later"),
    ),
    _Sums,
)
_OLDEST = Statement(
    select(ledger_journal_table.c.payment_id, ledger_transfer_table.c.amount)
    .join_from(
        ledger_transfer_table,
        ledger_journal_table,
        ledger_journal_table.c.idem_key == ledger_transfer_table.c.idem_key,
    )
    .where(*_unsettled)
    .order_by(ledger_journal_table.c.at_us, ledger_journal_table.c.payment_id)
    .limit(param("limit")),
    _UnsettledPayment,
)
# every other writer of an event of an ended payment locks it too
_LOCK = Statement(
    select(payment_table.c.id)
    .where(is_in(payment_table.c.id, "ids"))
    .order_by(payment_table.c.id)
    .with_for_update(),
    str,
)
_COVERED = Command(
    insert(payment_settled_table)
    .from_select(
        _COLUMNS,
        select(
            payment_table.c.id,
            param("now_us", BigInteger),
            param("tx", Text),
            param("unit", Text),
            param("amount", U256),
            events.count_later_events(),
            payment_table.c.partner_id,
            payment_table.c.live,
        ).where(payment_table.c.id == param("payment_id")),
    )
    .on_conflict_do_nothing()
)


@operation
def add_payout(payout: Payout, tx_id: str | None, now_us: int) -> Op[None]:
    """Queue a final payout of a balance, to settle what it covers; part of an operation."""
    yield _ADD(
        at_us=now_us,
        payout_id=payout.id,
        merchant_id=payout.merchant_id,
        asset=payout.asset,
        value=payout.value,
        tx_id=tx_id,
    )


@operation
def has_payouts() -> Op[bool]:
    """Return whether a final payout waits to settle payments."""
    return (yield from _ANY.any())


@operation
def settle_covered() -> Op[int | None]:
    """Mark a page of payments that the oldest queued payout covers; return how many.

    Return None if no payout is queued, or while processes of an older release are alive, which
    count events without it.

    The payout is done once it covers no more.
    """
    if (yield from older_releases.is_held()):
        return None
    payout = yield from _NEXT.first()
    if payout is None:
        return None
    books = {"account": accounts.merchant(payout.merchant_id), "asset": payout.asset}
    key = {"at_us": payout.at_us, "payout": payout.payout_id}
    sums = yield from _SUMS.single(**books, **key, merchant=payout.merchant_id)
    # refunds are not the merchant's, and later payouts cover their own payments
    balance = (sums.credits or 0) - (sums.debits or 0)
    owed = balance - (sums.going_back or 0) + (sums.later or 0)
    covered = (sums.unsettled or 0) - owed
    oldest = yield from _OLDEST.all(**books, limit=PAGE)
    marked: list[tuple[str, int]] = []
    for payment_id, value in oldest:
        if value > covered:
            break
        covered -= value
        marked.append((payment_id, value))
    if marked:
        yield from _mark(marked, f"caip19/{payout.asset}", payout.tx_id, payout.at_us)
    if len(marked) < PAGE:
        yield _DONE(**key)
    return len(marked)


def _mark(covered: Sequence[tuple[str, int]], unit: str, tx_id: str | None, at_us: int) -> Op[None]:
    ids = [payment_id for payment_id, _ in covered]
    yield from _LOCK.all(ids=ids)
    yield _COVERED.bind_many(
        [
            {"payment_id": payment_id, "amount": value, "unit": unit, "tx": tx_id, "now_us": at_us}
            for payment_id, value in covered
        ]
    )
    yield from outbox.enqueue_settlements(ids)
