"""Everything that a list tells about the payments of one page."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import select, text

from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.store.accounts import merchants
from florin_server.store.engine.query import Op, Statement, any_of, columns, operation
from florin_server.store.payments import payments
from florin_server.store.tables.settlement import OPEN
from florin_server.store.tables.tables import (
    chain_tx,
    chain_tx_item,
    payment,
    payment_option,
    refund,
)

# hash and nonce
_Tx = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Fee:
    """What the operator keeps, in minor units of the token; see Option."""

    total: int
    fixed: int
    basis_points: int


@dataclass(frozen=True, slots=True)
class Listed:
    """A payment with what belongs to it.

    `tx_hash` is the transaction that paid it, or else the one that is on its way; `nonce` is known
    of transactions of ours. `fee` is that of the option that was chosen.
    """

    payment: Payment
    merchant: Merchant
    fee: Fee | None = None
    tx_hash: str | None = None
    nonce: int | None = None
    refunds: Sequence[Refund] = ()


_FEES = Statement(
    select(
        payment.c.id,
        payment_option.c.fee,
        payment_option.c.fee_fixed,
        payment_option.c.fee_basis_points,
    )
    .join_from(
        payment,
        payment_option,
        (payment_option.c.payment_id == payment.c.id)
        & (payment_option.c.id == payment.c.option_id),
    )
    .where(any_of(payment.c.id, "ids"))
)
_NONCES = Statement(
    select(chain_tx.c.hash, chain_tx.c.nonce).where(
        any_of(chain_tx.c.chain_id, "chains"), any_of(chain_tx.c.hash, "hashes")
    )
)
# few are open at a time
_ON_THEIR_WAY = Statement(
    select(chain_tx_item.c.payment_id, chain_tx.c.hash, chain_tx.c.nonce)
    .join_from(chain_tx, chain_tx_item, chain_tx_item.c.tx_id == chain_tx.c.id)
    .where(
        text(OPEN),
        any_of(chain_tx.c.chain_id, "chains"),
        chain_tx.c.state == TxState.SENT,
        any_of(chain_tx_item.c.payment_id, "ids"),
    )
)
_REFUNDS = Statement(
    select(*columns(refund, Refund))
    .where(any_of(refund.c.payment_id, "ids"))
    .order_by(refund.c.payment_id, refund.c.ordinal)
)


@operation
def listed(ids: Sequence[str], now_us: int) -> Op[list[Listed]]:
    """The payments of a page, in the order of the ids, as they read at a time."""
    found = yield from payments.get(ids)
    rows = [found[one].at(now_us) for one in ids]
    theirs = yield from merchants.merchants({row.merchant_id for row in rows})
    accepted = [row for row in rows if row.option_id is not None]
    fees = yield from _fees(accepted)
    txs = {**(yield from _on_their_way(accepted)), **(yield from _ours(accepted))}
    refunded = yield from _refunds([row.id for row in rows if row.status.is_final])
    result = []
    for row in rows:
        tx_hash, nonce = txs.get(row.id, (row.tx_id, None))
        merchant, fee, back = theirs[row.merchant_id], fees.get(row.id), refunded.get(row.id, ())
        result.append(Listed(row, merchant, fee, tx_hash, nonce, back))
    return result


def _fees(accepted: Collection[Payment]) -> Op[dict[str, Fee]]:
    if not accepted:
        return {}
    rows = yield _FEES(ids=[row.id for row in accepted])
    return {row[0]: Fee(*row[1:]) for row in rows}


def _ours(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    """Transactions of ours that paid."""
    paid = {row.id: row.tx_id for row in accepted if row.tx_id}
    if not paid:
        return {}
    rows = yield _NONCES(chains=_chains(accepted), hashes=set(paid.values()))
    nonces: dict[str, int] = dict(rows)
    return {one: (tx, nonces[tx]) for one, tx in paid.items() if tx in nonces}


def _on_their_way(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    waiting = [row for row in accepted if not row.status.is_final]
    if not waiting:
        return {}
    rows = yield _ON_THEIR_WAY(chains=_chains(waiting), ids=[row.id for row in waiting])
    return {payment_id: (tx_hash, nonce) for payment_id, tx_hash, nonce in rows}


def _refunds(ids: Collection[str]) -> Op[dict[str, list[Refund]]]:
    if not ids:
        return {}
    rows = [Refund(*row) for row in (yield _REFUNDS(ids=ids))]
    return {key: list(group) for key, group in groupby(rows, lambda row: row.payment_id)}


def _chains(rows: Collection[Payment]) -> set[str]:
    return {row.option_unit.split("/")[1] for row in rows if row.option_unit is not None}
