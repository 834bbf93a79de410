"""Gas lost on payments that were not paid, or spent on creating payers' accounts.

Rows are written with the end of their transaction, and each counts once, even if a reorg makes the
transaction end twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import delete, func, select, update

from florin_server.db.engine.query import Command, Op, Statement, insert, is_in, operation, param
from florin_server.db.tables.tables import confirmation_table, failed_gas_table, payment_table
from florin_server.domain.payments.payment import PaymentStatus
from florin_server.domain.settlement.chain_txs import GasSpending, GasSpendingKind
from florin_server.money.payments.store import simulation


@dataclass(frozen=True, slots=True)
class GasUsage:
    """Gas of one chain since a time, in total and by app; `payers` lost too much."""

    since_us: int
    failed_gas_by_app: Mapping[str, int]
    opening_gas_by_app: Mapping[str, int]
    payers: frozenset[str]

    @property
    def total_failed_gas(self) -> int:
        """Return the gas of payments that were not paid."""
        return sum(self.failed_gas_by_app.values())

    @property
    def total_opening_gas(self) -> int:
        """Return the gas of payments that were paid and created their payers' accounts."""
        return sum(self.opening_gas_by_app.values())


class _BookedGas(NamedTuple):
    payment_id: str
    kind: GasSpendingKind


class _AppGas(NamedTuple):
    app: str
    kind: GasSpendingKind
    gas: int


class _PayerGas(NamedTuple):
    payer: str
    gas: int


class _EndedPayment(NamedTuple):
    id: str
    status: PaymentStatus
    tx_id: str | None
    failure_detail: str | None
    payer: str | None
    app: str


_BOOK = Statement(
    insert(failed_gas_table)
    .on_conflict_do_nothing()
    .returning(failed_gas_table.c.payment_id, failed_gas_table.c.kind),
    _BookedGas,
)
_FAIL = Command(
    update(confirmation_table)
    .where(is_in(confirmation_table.c.payment_id, "ids"))
    .values(failures=confirmation_table.c.failures + 1)
)
_SINCE = (
    failed_gas_table.c.at_us >= param("since_us"),
    failed_gas_table.c.chain_id == param("chain_id"),
)
_BY_APP = Statement(
    select(
        failed_gas_table.c.app,
        failed_gas_table.c.kind,
        func.sum(failed_gas_table.c.gas).label("gas"),
    )
    .where(*_SINCE)
    .group_by(failed_gas_table.c.app, failed_gas_table.c.kind),
    _AppGas,
)
_BY_PAYER = (
    select(failed_gas_table.c.payer, func.sum(failed_gas_table.c.gas).label("gas"))
    .where(*_SINCE, failed_gas_table.c.kind == GasSpendingKind.FAILED)
    .group_by(failed_gas_table.c.payer)
)
_ABOVE = Statement(_BY_PAYER.having(func.sum(failed_gas_table.c.gas) >= param("most")), _PayerGas)
_OF_PAYERS = Statement(_BY_PAYER.where(is_in(failed_gas_table.c.payer, "payers")), _PayerGas)
_ENDED = Statement(
    select(
        payment_table.c.id,
        payment_table.c.status,
        payment_table.c.tx_id,
        payment_table.c.failure_detail,
        payment_table.c.payer,
        confirmation_table.c.app,
    )
    .join_from(
        payment_table, confirmation_table, confirmation_table.c.payment_id == payment_table.c.id
    )
    .where(is_in(payment_table.c.id, "ids")),
    _EndedPayment,
)
_FORGET = Statement(
    delete(failed_gas_table)
    .where(
        failed_gas_table.c.tx_id.in_(
            select(failed_gas_table.c.tx_id)
            .where(failed_gas_table.c.at_us < param("until_us"))
            .order_by(failed_gas_table.c.at_us)
            .limit(param("limit"))
        )
    )
    .returning(failed_gas_table.c.tx_id),
    str,
)


@operation
def book(tx_id: str, chain_id: str, spent: Sequence[GasSpending], now_us: int) -> Op[None]:
    """Count a transaction's lost gas, and failures of its payments, once; part of an operation."""
    failed: list[str] = []
    for spending in spent:
        booked = yield from _BOOK.all(
            tx_id=tx_id,
            payment_id=spending.payment_id,
            chain_id=chain_id,
            payer=spending.payer,
            app=spending.app,
            kind=spending.kind,
            gas=spending.gas,
            cost=spending.cost,
            at_us=now_us,
        )
        failed += [payment_id for payment_id, kind in booked if kind is GasSpendingKind.FAILED]
    if failed:
        yield _FAIL(ids=failed)


@operation
def get_usage(chain_id: str, since_us: int, payer_max: int) -> Op[GasUsage]:
    """Return a chain's gas since a time; `payers` lost at least `payer_max`."""
    by_kind: dict[GasSpendingKind, dict[str, int]] = {kind: {} for kind in GasSpendingKind}
    for app, kind, gas in (yield from _BY_APP.all(chain_id=chain_id, since_us=since_us)):
        by_kind[kind][app] = int(gas)
    failed, opened = by_kind[GasSpendingKind.FAILED], by_kind[GasSpendingKind.OPENED]
    if not failed:
        return GasUsage(since_us, failed, opened, frozenset())
    above = yield from _ABOVE.all(chain_id=chain_id, since_us=since_us, most=payer_max)
    return GasUsage(since_us, failed, opened, frozenset(payer for payer, _ in above if payer))


@operation
def sum_by_payer(chain_id: str, since_us: int, payers: Collection[str]) -> Op[dict[str, int]]:
    """Return payers' (CAIP-10) lost gas on a chain since a time, without those who lost none."""
    usages = yield from _OF_PAYERS.all(chain_id=chain_id, since_us=since_us, payers=payers)
    return {payer: int(gas) for payer, gas in usages}


@operation
def list_paid_otherwise(
    payment_ids: Collection[str], hashes: Collection[str]
) -> Op[list[tuple[str, str, str]]]:
    """Return payments that ended without the transactions, with payer and app.

    It skips simulated payments, as the transactions may still have paid them.
    """
    entries = []
    for ended in (yield from _ENDED.all(ids=payment_ids)):
        own_hashes = {*hashes, simulation.format_tx_id(ended.id)}
        simulated = ended.failure_detail == simulation.FAILURE_DETAIL
        failed = ended.status is PaymentStatus.FAILED and not simulated
        if failed or (ended.status is PaymentStatus.SUCCEEDED and ended.tx_id not in own_hashes):
            entries.append((ended.id, ended.payer or "", ended.app))
    return entries


@operation
def forget(until_us: int, limit: int) -> Op[int]:
    """Delete the gas of transactions before a time; return the least number of deleted rows."""
    return len((yield from _FORGET.all(until_us=until_us, limit=limit)))
