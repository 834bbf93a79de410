"""The data of the payments on one page of a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

from sqlalchemy import select, text

from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.store.accounts import merchants
from florin_server.store.engine.query import Op, Statement, columns, is_in, operation
from florin_server.store.payments import payments
from florin_server.store.tables.settlement import OPEN_TX_PREDICATE
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
class OptionFee:
    """The operator's fee, in minor units of the token; see `PaymentOption`."""

    total: int
    fixed: int
    basis_points: int


@dataclass(frozen=True, slots=True)
class PaymentListItem:
    """A payment with its related data.

    `tx_hash` is the transaction that paid it, or the open transaction; `nonce` is known for our
    transactions. `fee` is the fee of the chosen option.
    """

    payment: Payment
    merchant: Merchant
    fee: OptionFee | None = None
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
    .where(is_in(payment.c.id, "ids"))
)
_NONCES = Statement(
    select(chain_tx.c.hash, chain_tx.c.nonce).where(
        is_in(chain_tx.c.chain_id, "chains"), is_in(chain_tx.c.hash, "hashes")
    )
)
# few are open at a time
_ON_THEIR_WAY = Statement(
    select(chain_tx_item.c.payment_id, chain_tx.c.hash, chain_tx.c.nonce)
    .join_from(chain_tx, chain_tx_item, chain_tx_item.c.tx_id == chain_tx.c.id)
    .where(
        text(OPEN_TX_PREDICATE),
        is_in(chain_tx.c.chain_id, "chains"),
        chain_tx.c.state == TxState.SENT,
        is_in(chain_tx_item.c.payment_id, "ids"),
    )
)
_REFUNDS = Statement(
    select(*columns(refund, Refund))
    .where(is_in(refund.c.payment_id, "ids"))
    .order_by(refund.c.payment_id, refund.c.ordinal)
)


@operation
def list_items(ids: Sequence[str], now_us: int) -> Op[list[PaymentListItem]]:
    """Return the payments of a page in the order of the ids, in their state at a time."""
    found_payments = yield from payments.find_many(ids)
    rows = [found_payments[payment_id].with_expiry(now_us) for payment_id in ids]
    theirs = yield from merchants.find_merchants({row.merchant_id for row in rows})
    accepted = [row for row in rows if row.option_id is not None]
    fees = yield from _find_fees(accepted)
    txs = {
        **(yield from _find_open_transactions(accepted)),
        **(yield from _find_own_transactions(accepted)),
    }
    refunded = yield from _find_refunds([row.id for row in rows if row.status.is_final])
    result = []
    for row in rows:
        tx_hash, nonce = txs.get(row.id, (row.tx_id, None))
        merchant, fee, back = theirs[row.merchant_id], fees.get(row.id), refunded.get(row.id, ())
        result.append(PaymentListItem(row, merchant, fee, tx_hash, nonce, back))
    return result


def _find_fees(accepted: Collection[Payment]) -> Op[dict[str, OptionFee]]:
    if not accepted:
        return {}
    rows = yield _FEES(ids=[row.id for row in accepted])
    return {row[0]: OptionFee(*row[1:]) for row in rows}


def _find_own_transactions(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    """Return our transactions that paid, by payment id."""
    paid = {row.id: row.tx_id for row in accepted if row.tx_id}
    if not paid:
        return {}
    rows = yield _NONCES(chains=_get_chain_ids(accepted), hashes=set(paid.values()))
    nonces: dict[str, int] = dict(rows)
    return {payment_id: (tx, nonces[tx]) for payment_id, tx in paid.items() if tx in nonces}


def _find_open_transactions(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    waiting = [row for row in accepted if not row.status.is_final]
    if not waiting:
        return {}
    rows = yield _ON_THEIR_WAY(chains=_get_chain_ids(waiting), ids=[row.id for row in waiting])
    return {payment_id: (tx_hash, nonce) for payment_id, tx_hash, nonce in rows}


def _find_refunds(ids: Collection[str]) -> Op[dict[str, list[Refund]]]:
    if not ids:
        return {}
    rows = [Refund(*row) for row in (yield _REFUNDS(ids=ids))]
    return {key: list(group) for key, group in groupby(rows, lambda row: row.payment_id)}


def _get_chain_ids(rows: Collection[Payment]) -> set[str]:
    return {row.option_unit.split("/")[1] for row in rows if row.option_unit is not None}
