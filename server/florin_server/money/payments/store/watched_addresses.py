"""Addresses by which the transactions are found that wallets send for payments themselves."""

from __future__ import annotations

from typing import Final, NamedTuple

from sqlalchemy import delete, exists, select, text

from florin_server.db.engine.query import Command, Op, Statement, insert, operation, param
from florin_server.db.tables.facilitation import BOUND_FACILITATION_PREDICATE
from florin_server.db.tables.tables import (
    facilitation_table,
    payment_table,
    process_table,
    watched_address_table,
)
from florin_server.domain.payments.payment import PaymentStatus

# the schema from which on processes look for these transactions
_WATCHING_SINCE: Final = "v0032"
# a transfer that has ended is read within seconds, once a node answers
_TRANSFER_READ_S: Final = 3600


class WatchedAddress(NamedTuple):
    """An address of a payment, and the payment's status; times as in the table."""

    payment_id: str
    address: str
    asked_at_us: int
    until_s: int
    status: PaymentStatus


_row = watched_address_table.c
_new = insert(watched_address_table)
_ADD = Command(
    _new.on_conflict_do_update(
        index_elements=["chain_id", "payment_id"],
        set_={"asked_at_us": _new.excluded.asked_at_us},
    )
)
_OLDER = Statement(
    select(process_table.c.id).where(process_table.c.revision < _WATCHING_SINCE).limit(1), str
)
_LIST = Statement(
    select(_row.payment_id, _row.address, _row.asked_at_us, _row.until_s, payment_table.c.status)
    .join_from(
        watched_address_table,
        payment_table,
        payment_table.c.id == watched_address_table.c.payment_id,
    )
    .where(_row.chain_id == param("chain_id"), _row.asked_at_us >= param("since_us"))
    .order_by(_row.asked_at_us.desc(), _row.payment_id)
    .limit(param("most")),
    WatchedAddress,
)
_transfer = facilitation_table.c
_FORGET = Command(
    delete(watched_address_table).where(
        _row.chain_id == param("chain_id"),
        _row.until_s <= param("now_s"),
        ~exists().where(
            text(BOUND_FACILITATION_PREDICATE),
            _transfer.payment_id == _row.payment_id,
            _transfer.ended_at_us.is_(None) | (_transfer.ended_at_us > param("ended_since_us")),
        ),
    )
)


@operation
def watch(chain_id: str, payment_id: str, address: str, until_s: int, now_us: int) -> Op[bool]:
    """Watch an address from now until a time in Unix seconds; its end stays the first one.

    Return False, and watch nothing, while a process of an older release is alive: it would settle
    on the chain without looking for the payment.
    """
    if (yield from _OLDER.any()):
        return False
    yield _ADD(
        chain_id=chain_id,
        payment_id=payment_id,
        address=address,
        until_s=until_s,
        asked_at_us=now_us,
    )
    return True


@operation
def list_watched(chain_id: str, since_us: int, most: int) -> Op[list[WatchedAddress]]:
    """Return the addresses for which a wallet asked since a time, the newest first."""
    return (yield from _LIST.all(chain_id=chain_id, since_us=since_us, most=most))


@operation
def forget_ended(chain_id: str, now_s: int) -> Op[None]:
    """Forget addresses whose time is over.

    One whose payment has a transfer by x402 stays until that has ended, and an hour longer.
    """
    yield _FORGET(
        chain_id=chain_id, now_s=now_s, ended_since_us=(now_s - _TRANSFER_READ_S) * 1_000_000
    )
