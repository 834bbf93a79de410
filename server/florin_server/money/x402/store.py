"""Transfers that payers signed and Florin sends for others, and the budgets of their gas.

A transfer is stored before it is signed for, once for each signature of a payer. Its state changes
together with the transaction that makes it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final, NamedTuple

from sqlalchemy import delete, func, select, text, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Statement,
    insert,
    is_in,
    is_one_of,
    operation,
    param,
)
from florin_server.db.tables.facilitation import (
    BOUND_FACILITATION_PREDICATE,
    FAILED_FACILITATION_PREDICATE,
    OPEN_FACILITATION_PREDICATE,
)
from florin_server.db.tables.tables import (
    chain_tx_table,
    facilitated_gas_table,
    facilitation_table,
    payment_table,
    watched_address_table,
)
from florin_server.domain.settlement.chain_txs import TxState
from florin_server.domain.x402.messages import InvalidReason
from florin_server.domain.x402.settlement import FacilitationState
from florin_server.money.settlement.store.chain_txs import ItemsUnavailable
from florin_server.rails.facilitation import FacilitatedTransfer

HOUR_US: Final = 3_600_000_000
# hours whose gas no budget counts any more
_KEPT_US: Final = 24 * HOUR_US


class FacilitationBudget(StrEnum):
    """The budgets of one hour."""

    CHAIN = "chain"
    KEY = "key"
    PAYER = "payer"


class FacilitationBudgetExhausted(Exception):  # noqa: N818  (a state of the world)
    """A budget has no room for one more transfer; nothing was written."""

    def __init__(self, budget: FacilitationBudget) -> None:
        super().__init__(f"the hour's budget of the {budget.value} is exhausted")
        self.budget = budget


class PaymentBound(Exception):  # noqa: N818  (a state of the world)
    """A payment has another transfer that did not fail; nothing was written."""


class Facilitation(NamedTuple):
    """A stored transfer, of an API key or for a payment; `reason` is set if it failed."""

    key: str
    chain_id: str
    api_key: str
    payment_id: str | None
    asset: str
    payer: str
    pay_to: str
    value: int
    content: Mapping[str, Any]
    gas: int
    expires_at: int
    head: int
    state: FacilitationState
    tx_hash: str | None
    reason: InvalidReason | None
    created_at_us: int

    @property
    def transfer(self) -> FacilitatedTransfer:
        """Return the transfer as the rail reads it."""
        return FacilitatedTransfer(
            key=self.key,
            chain_id=self.chain_id,
            asset=self.asset,
            payer=self.payer,
            pay_to=self.pay_to,
            value=self.value,
            content=self.content,
            gas=self.gas,
            expires_at=self.expires_at,
            head=self.head,
        )


class _StoredFacilitation(NamedTuple):
    key: str
    chain_id: str
    api_key: str
    payment_id: str | None
    asset: str
    payer: str
    pay_to: str
    value: int
    content: dict[str, Any]
    gas: int
    expires_at: int
    head: int
    state: FacilitationState
    tx_hash: str | None
    reason: str | None
    created_at_us: int

    def to_facilitation(self) -> Facilitation:
        """Return the transfer with its reason as a word."""
        values = self._asdict()
        values["reason"] = None if self.reason is None else InvalidReason(self.reason)
        return Facilitation(**values)


class EndedFacilitation(NamedTuple):
    """A transfer whose transaction has ended, and the hash of the variant that was mined."""

    facilitation: Facilitation
    tx_state: TxState
    mined_hash: str


class SettledTransfer(NamedTuple):
    """The final transaction of a transfer that was bound to a payment."""

    chain_id: str
    payment_id: str
    tx_hash: str


class _EndedTransaction(NamedTuple):
    key: str
    state: TxState
    hash: str
    final_hash: str | None


_row = facilitation_table.c
_COLUMNS = [_row[name] for name in _StoredFacilitation._fields]
_FIND = Statement(select(*_COLUMNS).where(_row.key == param("key")), _StoredFacilitation)
_FIND_BY_HASH = Statement(
    select(*_COLUMNS).where(_row.chain_id == param("chain_id"), _row.tx_hash == param("tx_hash")),
    _StoredFacilitation,
)
_FIND_BOUND = Statement(
    select(*_COLUMNS).where(
        text(BOUND_FACILITATION_PREDICATE), _row.payment_id == param("payment_id")
    ),
    _StoredFacilitation,
)
_COUNT_FAILED = Statement(
    select(func.count())
    .select_from(facilitation_table)
    .where(
        text(FAILED_FACILITATION_PREDICATE), _row.payment_id == param("payment_id"), _row.gas > 0
    ),
    int,
)
_ADD = Statement(insert(facilitation_table).on_conflict_do_nothing().returning(_row.key), str)
_OPEN = Statement(
    select(*_COLUMNS)
    .where(text(OPEN_FACILITATION_PREDICATE), _row.chain_id == param("chain_id"))
    .order_by(_row.created_at_us, _row.key)
    .limit(param("limit")),
    _StoredFacilitation,
)
_ENDED = Statement(
    select(_row.key, chain_tx_table.c.state, chain_tx_table.c.hash, chain_tx_table.c.final_hash)
    .join(
        chain_tx_table,
        (chain_tx_table.c.chain_id == _row.chain_id) & (chain_tx_table.c.hash == _row.tx_hash),
    )
    .where(
        _row.state == FacilitationState.SENT,
        _row.chain_id == param("chain_id"),
        is_one_of(chain_tx_table.c.state, [TxState.FINAL, TxState.REPLACED]),
    ),
    _EndedTransaction,
)
_watched = watched_address_table.c
_JOINED_BOUND = text("facilitation.payment_id IS NOT NULL AND facilitation.state <> 'failed'")
_SETTLED = Statement(
    select(_row.chain_id, _row.payment_id, _row.tx_hash)
    .select_from(watched_address_table)
    .join(facilitation_table, (_row.payment_id == _watched.payment_id) & _JOINED_BOUND)
    .join(payment_table, payment_table.c.id == _row.payment_id)
    .where(
        _watched.chain_id == param("chain_id"),
        _row.state == FacilitationState.SUCCEEDED,
        payment_table.c.tx_id.is_distinct_from(_row.tx_hash),
    ),
    SettledTransfer,
)
_SETTLED_FOR = Statement(
    select(_row.chain_id, _row.payment_id, _row.tx_hash)
    .select_from(facilitation_table)
    .join(payment_table, payment_table.c.id == _row.payment_id)
    .where(
        is_in(_row.payment_id, "payment_ids"),
        _JOINED_BOUND,
        _row.state == FacilitationState.SUCCEEDED,
        payment_table.c.tx_id.is_distinct_from(_row.tx_hash),
    ),
    SettledTransfer,
)
_CLAIM = Statement(
    update(facilitation_table)
    .where(_row.key == param("for_key"), _row.state == FacilitationState.WAITING)
    .values(state=FacilitationState.SENT, tx_hash=param("hash_"))
    .returning(_row.key),
    str,
)
_RELEASE = Command(
    update(facilitation_table)
    .where(_row.key == param("for_key"), _row.state == FacilitationState.SENT)
    .values(state=FacilitationState.WAITING, tx_hash=None)
)
_END = Statement(
    update(facilitation_table)
    .where(_row.key == param("for_key"), _row.state == param("before"))
    .values(
        state=param("after"),
        tx_hash=func.coalesce(param("hash_"), _row.tx_hash),
        reason=param("why"),
        gas=param("used"),
        ended_at_us=param("now_us"),
    )
    .returning(_row.key),
    str,
)
_gas = facilitated_gas_table.c
_new_gas = insert(facilitated_gas_table)
_TAKE = Statement(
    _new_gas.on_conflict_do_update(
        index_elements=["chain_id", "hour_us", "owner"],
        set_={"gas": _gas.gas + _new_gas.excluded.gas},
    ).returning(_gas.gas),
    int,
)
_READ_GAS = Statement(
    select(_gas.gas).where(
        _gas.chain_id == param("chain_id"),
        _gas.hour_us == param("hour_us"),
        _gas.owner == param("owner"),
    ),
    int,
)
_FORGET = Command(delete(facilitated_gas_table).where(_gas.hour_us < param("until_us")))


@operation
def find_facilitation(key: str) -> Op[Facilitation | None]:
    """Return the transfer of a payer's signature; None if Florin did not take it."""
    stored = yield from _FIND.first(key=key)
    return None if stored is None else stored.to_facilitation()


@operation
def find_bound(payment_id: str) -> Op[Facilitation | None]:
    """Return the transfer for a payment that did not fail; None if it has none."""
    stored = yield from _FIND_BOUND.first(payment_id=payment_id)
    return None if stored is None else stored.to_facilitation()


@operation
def count_failed(payment_id: str) -> Op[int]:
    """Return how many transfers for a payment failed in a block, at our cost."""
    count = yield from _COUNT_FAILED.single(payment_id=payment_id)
    return int(count)


@operation
def find_by_transaction(chain_id: str, tx_hash: str) -> Op[Facilitation | None]:
    """Return the transfer that a transaction of ours makes, by its first variant."""
    stored = yield from _FIND_BY_HASH.first(chain_id=chain_id, tx_hash=tx_hash)
    return None if stored is None else stored.to_facilitation()


@operation
def add_facilitation(
    transfer: FacilitatedTransfer,
    api_key: str,
    limits: Mapping[FacilitationBudget, int],
    now_us: int,
    *,
    payment_id: str | None = None,
) -> Op[Facilitation]:
    """Take a transfer, unless it was taken before; return the stored one.

    Its gas is taken from all budgets at once. Raise FacilitationBudgetExhausted without room, and
    PaymentBound if the payment has another transfer.
    """
    added = yield from _ADD.any(
        key=transfer.key,
        chain_id=transfer.chain_id,
        api_key=api_key,
        payment_id=payment_id,
        asset=transfer.asset,
        payer=transfer.payer,
        pay_to=transfer.pay_to,
        value=transfer.value,
        content=dict(transfer.content),
        gas=transfer.gas,
        expires_at=transfer.expires_at,
        head=transfer.head,
        state=FacilitationState.WAITING,
        tx_hash=None,
        reason=None,
        created_at_us=now_us,
        ended_at_us=None,
    )
    if added:
        # in one order, so that operations at the same time wait for each other
        for budget, owner in _list_owners(api_key, transfer.payer):
            used = yield from _take_gas(transfer.chain_id, owner, transfer.gas, now_us)
            if used > limits[budget]:
                raise FacilitationBudgetExhausted(budget)
    stored = yield from _FIND.first(key=transfer.key)
    if stored is None:
        raise PaymentBound(f"payment {payment_id} has another transfer")
    return stored.to_facilitation()


@operation
def get_used_gas(
    chain_id: str, api_key: str, payer: str, now_us: int
) -> Op[dict[FacilitationBudget, int]]:
    """Return what the budgets of an API key and a payer have used in this hour."""
    used = {}
    for budget, owner in _list_owners(api_key, payer):
        hour_us = _get_hour(now_us)
        gas = yield from _READ_GAS.first(chain_id=chain_id, hour_us=hour_us, owner=owner)
        used[budget] = gas or 0
    return used


@operation
def list_open(chain_id: str, limit: int) -> Op[list[Facilitation]]:
    """Return the transfers of a chain that have not ended, the oldest first."""
    stored = yield from _OPEN.all(chain_id=chain_id, limit=limit)
    return [each.to_facilitation() for each in stored]


@operation
def list_ended(chain_id: str) -> Op[list[EndedFacilitation]]:
    """Return the transfers whose transaction is final, or can never be mined."""
    ended = []
    for each in (yield from _ENDED.all(chain_id=chain_id)):
        stored = yield from _FIND.single(key=each.key)
        mined_hash = each.final_hash or each.hash
        ended.append(EndedFacilitation(stored.to_facilitation(), each.state, mined_hash))
    return ended


@operation
def list_settled(chain_id: str) -> Op[list[SettledTransfer]]:
    """Return the final transactions for payments that are looked at, and that no such one paid."""
    settled = yield from _SETTLED.all(chain_id=chain_id)
    # not in the statement, which would read all transfers of the chain by their index
    return [item for item in settled if item.chain_id == chain_id]


@operation
def list_settled_for(chain_id: str, payment_ids: Collection[str]) -> Op[list[SettledTransfer]]:
    """Return the final transactions for some payments, except the one that paid each."""
    settled = yield from _SETTLED_FOR.all(payment_ids=payment_ids)
    return [item for item in settled if item.chain_id == chain_id]


@operation
def claim(key: str, tx_hash: str) -> Op[None]:
    """Claim a transfer for a transaction; ItemsUnavailable if it is not waiting."""
    if not (yield from _CLAIM.any(for_key=key, hash_=tx_hash)):
        raise ItemsUnavailable(f"not waiting to be sent: {key}")


@operation
def release(key: str) -> Op[None]:
    """Send a transfer again whose transaction can never be mined."""
    yield _RELEASE(for_key=key)


@operation
def end_facilitation(
    facilitation: Facilitation,
    now_us: int,
    *,
    paid_by: str | None,
    reason: InvalidReason | None,
    gas_used: int,
) -> Op[bool]:
    """End a transfer from the state it was read in; return False if it has another one by now.

    What it did not use of its gas returns to the budgets.
    """
    after = FacilitationState.FAILED if reason else FacilitationState.SUCCEEDED
    if not (
        yield from _END.any(
            for_key=facilitation.key,
            before=facilitation.state,
            after=after,
            hash_=paid_by,
            why=None if reason is None else reason.value,
            used=gas_used,
            now_us=now_us,
        )
    ):
        return False
    # a payment that succeeds pays for its gas by the operator's fee
    is_free = facilitation.payment_id is not None and reason is None
    unused = (0 if is_free else gas_used) - facilitation.gas
    for _, owner in _list_owners(facilitation.api_key, facilitation.payer):
        yield from _take_gas(facilitation.chain_id, owner, unused, facilitation.created_at_us)
    yield _FORGET(until_us=now_us - _KEPT_US)
    return True


def _take_gas(chain_id: str, owner: str, gas: int, at_us: int) -> Op[int]:
    hour_us = _get_hour(at_us)
    return (yield from _TAKE.single(chain_id=chain_id, hour_us=hour_us, owner=owner, gas=gas))


def _list_owners(api_key: str, payer: str) -> tuple[tuple[FacilitationBudget, str], ...]:
    """Return the owners of budgets; without an API key it is the payer alone."""
    if not api_key:
        return ((FacilitationBudget.PAYER, f"payment:{payer}"),)
    return (
        (FacilitationBudget.CHAIN, ""),
        (FacilitationBudget.KEY, f"key:{api_key}"),
        (FacilitationBudget.PAYER, f"payer:{payer}"),
    )


def _get_hour(at_us: int) -> int:
    return at_us - at_us % HOUR_US
