"""Transactions of Florin that ended, and that nothing in the store needs any more.

Nonces, hashes and reorganizations are looked up among transactions: a transaction stays while such
a lookup can need it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from sqlalchemy import (
    BigInteger,
    Column,
    ColumnElement,
    Text,
    TextClause,
    exists,
    literal,
    not_,
    or_,
    select,
    text,
    tuple_,
)

from florin_server.db.engine.query import Op, Statement, is_in, is_one_of, operation, param
from florin_server.db.installation import TREASURY_HISTORY_PREFIX
from florin_server.db.tables.settlement import ENDED_TX_PREDICATE, OPEN_TX_PREDICATE
from florin_server.db.tables.tables import (
    chain_tx_bump_table,
    chain_tx_item_table,
    chain_tx_table,
    facilitation_table,
    installation_table,
    payment_table,
    payout_table,
    quarantined_item_table,
    relayer_table,
    watched_tx_table,
)
from florin_server.domain.payouts.payout import PayoutStatus
from florin_server.domain.quarantine import QuarantinedItemKind, QuarantinedItemState


class TransactionPosition(NamedTuple):
    """The place of a transaction in the order of their creation."""

    created_at_us: int
    id: str


FIRST: Final = TransactionPosition(-1, "")
"""The place before all transactions."""

_tx, _variant, _item = chain_tx_table.c, chain_tx_bump_table.c, chain_tx_item_table.c
_payment, _payout = payment_table.c, payout_table.c
_open = chain_tx_table.alias("open_tx").c


def _has(*conditions: ColumnElement[bool] | TextClause) -> ColumnElement[bool]:
    return exists().where(*conditions).correlate(chain_tx_table)


def _is_named_by(
    hash_column: Column[str], *conditions: ColumnElement[bool]
) -> list[ColumnElement[bool]]:
    """Return the conditions that a row of a table names a variant: each follows an index."""
    # a join could begin with all rows of a chain
    variants = select(_variant.hash).where(_variant.tx_id == _tx.id).correlate(chain_tx_table)
    return [
        _has(hash_column == _tx.hash, *conditions),
        _has(hash_column == _tx.final_hash, *conditions),
        _has(hash_column.in_(variants), *conditions),
    ]


def _list_needs() -> list[ColumnElement[bool]]:
    """Return the conditions of which none is true for a transaction that nothing needs."""
    relayer, item = relayer_table.c, quarantined_item_table.c
    watched, transfer = watched_tx_table.c, facilitation_table.c
    has_ended = is_one_of(_payout.status, (PayoutStatus.DONE, PayoutStatus.REFUSED))
    return [
        # a nonce that could be used again
        not_(
            _has(
                relayer.chain_id == _tx.chain_id,
                relayer.sender == _tx.sender,
                relayer.next_nonce > _tx.nonce,
            )
        ),
        # the nonces below that of an open transaction have to be used before it
        _has(
            text(OPEN_TX_PREDICATE),
            _open.chain_id == _tx.chain_id,
            _open.sender == _tx.sender,
            _open.nonce <= _tx.nonce,
        ),
        # this treasury's history on chain is compared with its transactions
        _has(
            installation_table.c.name
            == literal(TREASURY_HISTORY_PREFIX) + _tx.chain_id + literal(":") + _tx.sender
        ),
        _has(_item.tx_id == _tx.id, _payment.id == _item.payment_id),
        _has(
            _item.tx_id == _tx.id,
            _payout.id == _item.payout_id,
            or_(
                not_(has_ended),
                _payout.completed_at_us.is_(None),
                _payout.completed_at_us >= param("before_us", BigInteger),
            ),
        ),
        _has(
            _item.tx_id == _tx.id,
            _payout.id == _item.payout_id,
            _payment.id == _payout.payment_id,
        ),
        # a transfer by x402 is no item
        *_is_named_by(_payment.tx_id),
        *_is_named_by(transfer.tx_hash, transfer.chain_id == _tx.chain_id),
        *_is_named_by(watched.tx_hash, watched.chain_id == _tx.chain_id),
        _has(
            item.kind == QuarantinedItemKind.TRANSACTION,
            item.chain_id == _tx.chain_id,
            item.subject == _tx.id,
            item.state == QuarantinedItemState.SET_ASIDE,
        ),
    ]


_IS_CLOSED = not_(or_(*_list_needs()))
_POSITIONS = Statement(
    select(_tx.created_at_us, _tx.id)
    .where(
        text(ENDED_TX_PREDICATE),
        tuple_(_tx.created_at_us, _tx.id)
        > tuple_(param("after_us", BigInteger), param("after_id", Text)),
        _tx.created_at_us < param("end_us"),
    )
    .order_by(_tx.created_at_us, _tx.id)
    .limit(param("most")),
    TransactionPosition,
)
_CLOSED = Statement(
    select(_tx.id)
    .where(is_in(_tx.id, "ids"), text(ENDED_TX_PREDICATE), _IS_CLOSED)
    .order_by(_tx.id),
    str,
)
_LOCK = Statement(
    select(_tx.id).where(is_in(_tx.id, "ids")).order_by(_tx.id).with_for_update(), str
)


@operation
def list_positions(
    after: TransactionPosition, end_us: int, limit: int
) -> Op[list[TransactionPosition]]:
    """Return the next transactions that ended, after one, of those created before a time."""
    return (
        yield from _POSITIONS.all(
            after_us=after.created_at_us, after_id=after.id, end_us=end_us, most=limit
        )
    )


@operation
def list_closed(ids: Collection[str], before_us: int) -> Op[list[str]]:
    """Return which of the transactions nothing needs, and made no payout that ended since."""
    return (yield from _CLOSED.all(ids=ids, before_us=before_us))


@operation
def lock_closed(ids: Collection[str], before_us: int) -> Op[list[str]]:
    """Lock transactions, and return which of them nothing needs, as `list_closed`."""
    yield from _LOCK.all(ids=ids)
    return (yield from list_closed(ids, before_us))
