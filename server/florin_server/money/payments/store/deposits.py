"""Money that came to payments' own addresses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from sqlalchemy import delete, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Params,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
    upsert,
)
from florin_server.db.tables.tables import (
    deposit_address_table,
    deposit_cursor_table,
    deposit_table,
)
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.payments.payment import Payment
from florin_server.money.payments.store import deposit_events
from florin_server.money.payments.store.deposit_events import NamedReport


class RecordedDeposit(NamedTuple):
    """A deposit, whether its block is final, and the payout that sent it back, if any."""

    deposit: Deposit
    is_final: int
    returned_by: str | None


_row = deposit_table.c
_RECORDED = (*columns(deposit_table, Deposit), _row.is_final, _row.returned_by)
_new = insert(deposit_table)
_PUT = Command(
    _new.on_conflict_do_update(
        index_elements=["chain_id", "address", "asset", "block_number", "tx_hash", "position"],
        set_={
            "block_hash": _new.excluded.block_hash,
            "sender": _new.excluded.sender,
            "value": _new.excluded.value,
            "is_final": _new.excluded.is_final,
        },
    )
)
_IS_DEPOSIT = (
    _row.chain_id == param("chain_id"),
    _row.address == param("address"),
    _row.asset == param("asset"),
    _row.block_number == param("block_number"),
    _row.tx_hash == param("tx_hash"),
    _row.position == param("position"),
)
# what was final once stays, unless its block is proven to be replaced
_REMOVE = Command(delete(deposit_table).where(*_IS_DEPOSIT, _row.is_final == 0))
_FORGET = Command(delete(deposit_table).where(*_IS_DEPOSIT))
_OF_ADDRESSES = Statement(
    select(*_RECORDED)
    .where(_row.chain_id == param("chain_id"), is_in(_row.address, "addresses"))
    .order_by(_row.block_number, _row.tx_hash, _row.position),
    RecordedDeposit,
    deposit=Deposit,
)
_OF_PAYMENT = Statement(
    select(*_RECORDED)
    .join_from(
        deposit_address_table,
        deposit_table,
        (_row.chain_id == deposit_address_table.c.chain_id)
        & (_row.address == deposit_address_table.c.address),
    )
    .where(deposit_address_table.c.payment_id == param("payment_id"))
    .order_by(_row.seen_at_us, _row.block_number, _row.tx_hash, _row.position),
    RecordedDeposit,
    deposit=Deposit,
)
_CURSOR = Statement(
    select(deposit_cursor_table.c.block).where(
        deposit_cursor_table.c.chain_id == param("chain_id")
    ),
    int,
)
_MOVE_CURSOR_BACK = Command(
    update(deposit_cursor_table)
    .where(
        deposit_cursor_table.c.chain_id == param("chain_id"),
        deposit_cursor_table.c.block > param("block"),
    )
    .values(block=param("block"))
)
_MOVE_CURSOR = Command(upsert(deposit_cursor_table, "chain_id"))


@operation
def record(  # noqa: PLR0917  (three kinds of deposits, and what is reported of them)
    chain_id: str,
    final: Sequence[Deposit],
    pending: Sequence[Deposit],
    removed: Sequence[Deposit],
    reports: Iterable[NamedReport],
    now_us: int,
) -> Op[list[Payment]]:
    """Store deposits of final and of other blocks; remove those whose blocks were replaced.

    Return the payments that have not ended, and whose deposits are reported now.
    """
    if removed:
        yield _REMOVE.bind_many(
            [{"chain_id": chain_id, **_get_key(deposit)} for deposit in removed]
        )
    rows = [
        {
            **to_row_params(deposit),
            "chain_id": chain_id,
            "seen_at_us": now_us,
            "is_final": is_final,
            "returned_by": None,
        }
        for is_final, deposits in ((1, final), (0, pending))
        for deposit in deposits
    ]
    if rows:
        yield _PUT.bind_many(rows)
    return (yield from deposit_events.record(reports, now_us))


@operation
def forget_final(chain_id: str, replaced: Sequence[Deposit], cursor: int) -> Op[None]:
    """Delete deposits whose final blocks a reorganization replaced; read on after `cursor`."""
    yield _FORGET.bind_many([{"chain_id": chain_id, **_get_key(deposit)} for deposit in replaced])
    yield _MOVE_CURSOR_BACK(chain_id=chain_id, block=cursor)


@operation
def list_of_addresses(chain_id: str, addresses: Collection[str]) -> Op[list[RecordedDeposit]]:
    """Return the deposits at addresses, in the order of blocks."""
    return (yield from _OF_ADDRESSES.all(chain_id=chain_id, addresses=addresses))


@operation
def list_of_payment(payment_id: str) -> Op[list[RecordedDeposit]]:
    """Return the deposits at all addresses of a payment, in the order in which they were seen."""
    return (yield from _OF_PAYMENT.all(payment_id=payment_id))


@operation
def find_cursor(chain_id: str) -> Op[int | None]:
    """Return the final block up to which a chain was read; None if it never was."""
    return (yield from _CURSOR.first(chain_id=chain_id))


@operation
def move_cursor(chain_id: str, block: int) -> Op[None]:
    """Record up to which final block a chain was read, for all addresses."""
    yield _MOVE_CURSOR(chain_id=chain_id, block=block)


def _get_key(deposit: Deposit) -> Params:
    return {
        "address": deposit.address,
        "asset": deposit.asset,
        "block_number": deposit.block_number,
        "tx_hash": deposit.tx_hash,
        "position": deposit.position,
    }
