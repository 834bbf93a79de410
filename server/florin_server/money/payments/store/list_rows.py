"""The data of the payments on one page of a list."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from sqlalchemy import select, text

from florin_server.accounts.store import merchants
from florin_server.db.engine.query import Op, Statement, columns, is_in, operation
from florin_server.db.tables.settlement import OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_item_table,
    chain_tx_table,
    payment_option_table,
    payment_table,
    refund_table,
)
from florin_server.domain.payments.payment import Merchant, Payment, Refund
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.money.payments.store import payments

# hash and nonce
_Tx = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OptionFee:
    """The operator's fee, in minor units of the token; see `PaymentOption`."""

    total: int
    fixed: int
    basis_points: int


@dataclass(frozen=True, slots=True)
class PaymentListRow:
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


class _PaymentFee(NamedTuple):
    id: str
    fee: OptionFee


class _Transaction(NamedTuple):
    hash: str
    nonce: int


class _OpenTransaction(NamedTuple):
    payment_id: str
    hash: str
    nonce: int


_FEES = Statement(
    select(
        payment_table.c.id,
        payment_option_table.c.fee.label("total"),
        payment_option_table.c.fee_fixed.label("fixed"),
        payment_option_table.c.fee_basis_points.label("basis_points"),
    )
    .join_from(
        payment_table,
        payment_option_table,
        (payment_option_table.c.payment_id == payment_table.c.id)
        & (payment_option_table.c.id == payment_table.c.option_id),
    )
    .where(is_in(payment_table.c.id, "ids")),
    _PaymentFee,
    fee=OptionFee,
)
_NONCES = Statement(
    select(chain_tx_table.c.hash, chain_tx_table.c.nonce).where(
        is_in(chain_tx_table.c.chain_id, "chains"), is_in(chain_tx_table.c.hash, "hashes")
    ),
    _Transaction,
)
# few are open at a time
_ON_THEIR_WAY = Statement(
    select(chain_tx_item_table.c.payment_id, chain_tx_table.c.hash, chain_tx_table.c.nonce)
    .join_from(
        chain_tx_table, chain_tx_item_table, chain_tx_item_table.c.tx_id == chain_tx_table.c.id
    )
    .where(
        text(OPEN_TX_PREDICATE),
        is_in(chain_tx_table.c.chain_id, "chains"),
        chain_tx_table.c.state == TxState.SENT,
        is_in(chain_tx_item_table.c.payment_id, "ids"),
    ),
    _OpenTransaction,
)
_REFUNDS = Statement(
    select(*columns(refund_table, Refund))
    .where(is_in(refund_table.c.payment_id, "ids"))
    .order_by(refund_table.c.payment_id, refund_table.c.ordinal),
    Refund,
)


@operation
def list_rows(ids: Sequence[str], now_us: int) -> Op[list[PaymentListRow]]:
    """Return the payments of a page in the order of the ids, in their state at a time."""
    payments_by_id = yield from payments.find_many(ids)
    page_payments = [payments_by_id[payment_id].with_expiry(now_us) for payment_id in ids]
    merchants_by_id = yield from merchants.find_merchants(
        {payment.merchant_id for payment in page_payments}
    )
    accepted = [payment for payment in page_payments if payment.option_id is not None]
    fees = yield from _find_fees(accepted)
    txs = {
        **(yield from _find_open_transactions(accepted)),
        **(yield from _find_own_transactions(accepted)),
    }
    refunds_by_payment = yield from _find_refunds(
        [payment.id for payment in page_payments if payment.status.is_final]
    )
    rows = []
    for payment in page_payments:
        tx_hash, nonce = txs.get(payment.id, (payment.tx_id, None))
        merchant, fee = merchants_by_id[payment.merchant_id], fees.get(payment.id)
        refunds = refunds_by_payment.get(payment.id, ())
        rows.append(PaymentListRow(payment, merchant, fee, tx_hash, nonce, refunds))
    return rows


def _find_fees(accepted: Collection[Payment]) -> Op[dict[str, OptionFee]]:
    if not accepted:
        return {}
    return dict((yield from _FEES.all(ids=[payment.id for payment in accepted])))


def _find_own_transactions(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    """Return our transactions that paid, by payment id."""
    hashes = {payment.id: payment.tx_id for payment in accepted if payment.tx_id}
    if not hashes:
        return {}
    nonces = dict(
        (yield from _NONCES.all(chains=_get_chain_ids(accepted), hashes=set(hashes.values())))
    )
    return {
        payment_id: (tx_hash, nonces[tx_hash])
        for payment_id, tx_hash in hashes.items()
        if tx_hash in nonces
    }


def _find_open_transactions(accepted: Collection[Payment]) -> Op[dict[str, _Tx]]:
    open_payments = [payment for payment in accepted if not payment.status.is_final]
    if not open_payments:
        return {}
    transactions = yield from _ON_THEIR_WAY.all(
        chains=_get_chain_ids(open_payments), ids=[payment.id for payment in open_payments]
    )
    return {tx.payment_id: (tx.hash, tx.nonce) for tx in transactions}


def _find_refunds(ids: Collection[str]) -> Op[dict[str, list[Refund]]]:
    if not ids:
        return {}
    refunds = yield from _REFUNDS.all(ids=ids)
    return {key: list(group) for key, group in groupby(refunds, lambda refund: refund.payment_id)}


def _get_chain_ids(accepted: Collection[Payment]) -> set[str]:
    return {
        payment.option_unit.split("/")[1] for payment in accepted if payment.option_unit is not None
    }
