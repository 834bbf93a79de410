"""Gas that was lost on payments that were not paid, or spent on creating accounts of payers.

Rows are written with the end of their transaction, and each counts once, also if a reorganisation
lets the transaction end twice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, update

from florin_server.domain.payments.payment import Status
from florin_server.domain.settlement.chain_txs import Spent, SpentKind
from florin_server.store.engine.query import Op, Statement, any_of, insert, operation, param
from florin_server.store.payments import simulation
from florin_server.store.tables.tables import confirm, failed_gas, payment


@dataclass(frozen=True, slots=True)
class Usage:
    """Gas of one chain since a time, in all and by app; `payers` are those who lost too much."""

    since_us: int
    failed_by_app: Mapping[str, int]
    opened_by_app: Mapping[str, int]
    payers: frozenset[str]

    @property
    def failed(self) -> int:
        """Gas of what was not paid."""
        return sum(self.failed_by_app.values())

    @property
    def opened(self) -> int:
        """Gas of what was paid, and created its payers' accounts."""
        return sum(self.opened_by_app.values())


_BOOK = Statement(
    insert(failed_gas)
    .on_conflict_do_nothing()
    .returning(failed_gas.c.payment_id, failed_gas.c.kind)
)
_FAIL = Statement(
    update(confirm)
    .where(any_of(confirm.c.payment_id, "ids"))
    .values(failures=confirm.c.failures + 1)
)
_SINCE = (failed_gas.c.at_us >= param("since_us"), failed_gas.c.chain_id == param("chain_id"))
_BY_APP = Statement(
    select(failed_gas.c.app, failed_gas.c.kind, func.sum(failed_gas.c.gas))
    .where(*_SINCE)
    .group_by(failed_gas.c.app, failed_gas.c.kind)
)
_BY_PAYER = (
    select(failed_gas.c.payer, func.sum(failed_gas.c.gas))
    .where(*_SINCE, failed_gas.c.kind == SpentKind.FAILED)
    .group_by(failed_gas.c.payer)
)
_ABOVE = Statement(_BY_PAYER.having(func.sum(failed_gas.c.gas) >= param("most")))
_OF_PAYERS = Statement(_BY_PAYER.where(any_of(failed_gas.c.payer, "payers")))
_ENDED = Statement(
    select(
        payment.c.id,
        payment.c.status,
        payment.c.tx_id,
        payment.c.failure_detail,
        payment.c.payer,
        confirm.c.app,
    )
    .join_from(payment, confirm, confirm.c.payment_id == payment.c.id)
    .where(any_of(payment.c.id, "ids"))
)
_FORGET = Statement(
    delete(failed_gas)
    .where(
        failed_gas.c.tx_id.in_(
            select(failed_gas.c.tx_id)
            .where(failed_gas.c.at_us < param("until_us"))
            .order_by(failed_gas.c.at_us)
            .limit(param("limit"))
        )
    )
    .returning(failed_gas.c.tx_id)
)


@operation
def book(tx_id: str, chain_id: str, spent: Sequence[Spent], now_us: int) -> Op[None]:
    """Part of an operation: counts what a transaction spent, and against its payments, once."""
    failed: list[str] = []
    for one in spent:
        rows = yield _BOOK(
            tx_id=tx_id,
            payment_id=one.payment_id,
            chain_id=chain_id,
            payer=one.payer,
            app=one.app,
            kind=one.kind,
            gas=one.gas,
            cost=one.cost,
            at_us=now_us,
        )
        failed += [payment_id for payment_id, kind in rows if kind is SpentKind.FAILED]
    if failed:
        yield _FAIL(ids=failed)


@operation
def usage(chain_id: str, since_us: int, payer_max: int) -> Op[Usage]:
    """What a chain spent since a time; `payers` lost at least so much."""
    by_kind: dict[SpentKind, dict[str, int]] = {kind: {} for kind in SpentKind}
    for app, kind, gas in (yield _BY_APP(chain_id=chain_id, since_us=since_us)):
        by_kind[kind][app] = int(gas)
    failed, opened = by_kind[SpentKind.FAILED], by_kind[SpentKind.OPENED]
    if not failed:
        return Usage(since_us, failed, opened, frozenset())
    above = yield _ABOVE(chain_id=chain_id, since_us=since_us, most=payer_max)
    return Usage(since_us, failed, opened, frozenset(payer for payer, _ in above if payer))


@operation
def of_payers(chain_id: str, since_us: int, payers: Collection[str]) -> Op[dict[str, int]]:
    """What payers (CAIP-10) lost on a chain since a time; those who lost nothing are absent."""
    rows = yield _OF_PAYERS(chain_id=chain_id, since_us=since_us, payers=payers)
    return {payer: int(gas) for payer, gas in rows}


@operation
def paid_otherwise(
    payment_ids: Collection[str], hashes: Collection[str]
) -> Op[list[tuple[str, str, str]]]:
    """Those of the payments that ended without the transactions, with payer and app.

    What was simulated may have been paid by them all the same.
    """
    found = []
    for payment_id, status, tx_id, detail, payer, app in (yield _ENDED(ids=payment_ids)):
        known = {*hashes, simulation.tx_id_of(payment_id)}
        failed = status is Status.FAILED and detail != simulation.FAILED
        if failed or (status is Status.SUCCEEDED and tx_id not in known):
            found.append((payment_id, payer or "", app))
    return found


@operation
def forget(until_us: int, limit: int) -> Op[int]:
    """Deletes what transactions spent before a time; tells how much was deleted at least."""
    return len((yield _FORGET(until_us=until_us, limit=limit)))
