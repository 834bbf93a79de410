"""Looks at payments' own addresses after their payments, and the records of what went home."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, and_, case, func, literal, null, or_, select, update

from florin_server.db.engine.query import (
    Command,
    Op,
    Operation,
    Statement,
    columns,
    insert,
    is_in,
    operation,
    param,
    to_row_params,
)
from florin_server.db.tables.tables import (
    address_sweep_table,
    deposit_address_table,
    deposit_table,
    payment_option_table,
    payment_table,
)
from florin_server.domain.ledger import journals
from florin_server.domain.payments.deposits import Deposit
from florin_server.domain.payments.payment import Payment, PaymentOption, PaymentStatus
from florin_server.domain.payouts.held_money import HeldMoney
from florin_server.domain.payouts.payout import Payout
from florin_server.domain.settlement.chain_txs import LedgerPosting
from florin_server.money.ledger.store import ledger
from florin_server.money.payments.store import deposit_events
from florin_server.money.payments.store.deposit_events import NamedReport
from florin_server.money.payouts.store import deposit_claims, held_money, payouts

# addresses are looked at every day for so long, later on request
WATCHED_S: Final = 180 * 86_400


class AddressLook(NamedTuple):
    """An address that is due for a look, with its payment and the option that it pays.

    The other fields are those of the tables.
    """

    address: str
    route_chain_id: str
    refund_account: str | None
    from_block: int
    read_to: int | None
    tries: int
    requested_asset: str | None
    payment: Payment
    option: PaymentOption


class ReceivedMoney(NamedTuple):
    """A final deposit at an address whose every block was read, with what its payment took.

    `paid` is the value that the payment took of `paid_asset` from an address of its own.
    """

    payment_id: str
    address: str
    asset: str
    value: int
    is_paid: bool
    paid_asset: str
    paid: int
    requested_asset: str | None


class _RouteAddress(NamedTuple):
    chain_id: str
    address: str


@dataclass(frozen=True, slots=True)
class StrayShare:
    """The part of one sender in money that went home; `payout` returns it, None if it is held.

    `deposits` are those that it came with.
    """

    held: HeldMoney
    deposits: tuple[Deposit, ...] = ()
    payout: Payout | None = None


_row = address_sweep_table.c
_of_address = (deposit_address_table.c.chain_id == _row.route_chain_id) & (
    deposit_address_table.c.address == _row.address
)
_of_option = (payment_option_table.c.payment_id == deposit_address_table.c.payment_id) & (
    payment_option_table.c.id == deposit_address_table.c.option_id
)
_ENROLL = Command(
    insert(address_sweep_table)
    .from_select(
        ["chain_id", "address", "route_chain_id", "due_at_us", "read_to", "tries"],
        select(
            deposit_address_table.c.chain_id,
            deposit_address_table.c.address,
            deposit_address_table.c.chain_id,
            param("now_us", BigInteger),
            null(),
            literal(0, BigInteger),
        ).where(
            deposit_address_table.c.chain_id == param("chain_id"),
            deposit_address_table.c.until_s > param("since_s"),
            deposit_address_table.c.until_s <= param("until_s"),
        ),
    )
    .on_conflict_do_nothing()
)
_DUE = Statement(
    select(
        _row.address,
        _row.route_chain_id,
        deposit_address_table.c.refund_account,
        deposit_address_table.c.from_block,
        _row.read_to,
        _row.tries,
        _row.requested_asset,
        *payment_table.c,
        *columns(payment_option_table, PaymentOption),
    )
    .join_from(address_sweep_table, deposit_address_table, _of_address)
    .join(payment_option_table, _of_option)
    .join(payment_table, payment_table.c.id == deposit_address_table.c.payment_id)
    .where(
        _row.chain_id == param("chain_id"),
        _row.due_at_us <= param("now_us"),
        or_(
            deposit_address_table.c.until_s > param("since_s"),
            _row.requested_asset.is_not(None),
        ),
    )
    .order_by(_row.due_at_us, _row.address)
    .limit(param("limit")),
    AddressLook,
    payment=Payment,
    option=PaymentOption,
)
_OF_CHAIN = (_row.chain_id == param("of_chain")) & is_in(_row.address, "addresses")
_POSTPONE = Command(
    update(address_sweep_table)
    .where(_OF_CHAIN)
    .values(
        due_at_us=param("due"),
        read_to=func.coalesce(param("to", BigInteger), _row.read_to),
        tries=param("count"),
    )
)
_RECEIVED = Statement(
    select(
        deposit_address_table.c.payment_id,
        deposit_address_table.c.address,
        deposit_table.c.asset,
        deposit_table.c.value,
        and_(
            payment_table.c.status == PaymentStatus.SUCCEEDED,
            payment_table.c.option_id == deposit_address_table.c.option_id,
        ).label("is_paid"),
        payment_option_table.c.asset.label("paid_asset"),
        payment_option_table.c.value.label("paid"),
        _row.requested_asset,
    )
    .join_from(
        deposit_address_table,
        deposit_table,
        (deposit_table.c.chain_id == deposit_address_table.c.chain_id)
        & (deposit_table.c.address == deposit_address_table.c.address),
    )
    .join(payment_option_table, _of_option)
    .join(payment_table, payment_table.c.id == deposit_address_table.c.payment_id)
    .outerjoin(
        address_sweep_table,
        (_row.chain_id == deposit_address_table.c.chain_id)
        & (_row.address == deposit_address_table.c.address),
    )
    .where(
        deposit_address_table.c.chain_id == param("chain_id"),
        deposit_address_table.c.until_s <= param("now_s"),
        deposit_table.c.is_final == 1,
        deposit_table.c.returned_by.is_(None),
    )
    .order_by(deposit_address_table.c.until_s.desc(), deposit_address_table.c.address)
    .limit(param("limit")),
    ReceivedMoney,
)
_FIND_ADDRESS = Statement(
    select(deposit_address_table.c.chain_id, deposit_address_table.c.address).where(
        deposit_address_table.c.chain_id == param("chain_id"),
        is_in(deposit_address_table.c.address, "addresses"),
    ),
    _RouteAddress,
)
_FORGET_REQUEST = Command(
    update(address_sweep_table).where(_OF_CHAIN).values(requested_asset=null())
)
_READ_AGAIN = Command(
    update(address_sweep_table)
    .where(_OF_CHAIN)
    .values(
        due_at_us=param("now_us"),
        tries=0,
        read_to=case((_row.read_to > param("last"), param("last", BigInteger)), else_=_row.read_to),
    )
)
_UNRETURN = Command(
    update(deposit_table)
    .where(
        deposit_table.c.chain_id == param("route_chain"),
        deposit_table.c.address == param("address"),
        deposit_table.c.returned_by == param("payout"),
    )
    .values(returned_by=null())
)
_add_deposit = insert(deposit_table)
# money that came late was not recorded when it came
_ADD_DEPOSIT = Command(
    _add_deposit.on_conflict_do_update(
        index_elements=[column.name for column in deposit_table.primary_key],
        set_={"is_final": 1, "returned_by": _add_deposit.excluded.returned_by},
    )
)
_FIND = Statement(
    select(deposit_address_table.c.chain_id, deposit_address_table.c.address).where(
        deposit_address_table.c.payment_id == param("payment_id")
    ),
    _RouteAddress,
)
_REQUEST = Command(
    insert(address_sweep_table)
    .values(
        chain_id=param("chain_id"),
        address=param("address"),
        route_chain_id=param("route_chain_id"),
        due_at_us=param("now_us"),
        read_to=null(),
        tries=0,
        requested_asset=param("asset"),
    )
    .on_conflict_do_update(
        index_elements=["chain_id", "address"],
        set_={"due_at_us": param("now_us"), "requested_asset": param("asset"), "tries": 0},
    )
)


@operation
def enroll(chain_id: str, since_s: int, until_s: int, now_us: int) -> Op[None]:
    """Look at the addresses whose every block was read until a time in an interval (seconds)."""
    yield _ENROLL(chain_id=chain_id, since_s=since_s, until_s=until_s, now_us=now_us)


@operation
def list_due(chain_id: str, now_us: int, limit: int) -> Op[list[AddressLook]]:
    """Return addresses that are due for a look, the longest overdue first."""
    since_s = now_us // 1_000_000 - WATCHED_S
    return (yield from _DUE.all(chain_id=chain_id, now_us=now_us, since_s=since_s, limit=limit))


@operation
def postpone(
    chain_id: str, addresses: Collection[str], due_at_us: int, read_to: int | None, tries: int = 0
) -> Op[None]:
    """Look at addresses again later; what left them is recorded up to a block."""
    yield _POSTPONE(of_chain=chain_id, addresses=addresses, due=due_at_us, to=read_to, count=tries)


@operation
def forget_request(chain_id: str, address: str) -> Op[None]:
    """Treat an address like all others again: what was requested is done, or cannot be done."""
    yield _FORGET_REQUEST(of_chain=chain_id, addresses=[address])


@operation
def request(payment_id: str, chain_id: str, asset: str, now_us: int) -> Op[list[str]]:
    """Look at the addresses of a payment now, on any chain, for an asset; return the addresses."""
    stored_addresses = yield from _FIND.all(payment_id=payment_id)
    for route_chain_id, address in stored_addresses:
        yield _REQUEST(
            chain_id=chain_id,
            address=address,
            route_chain_id=route_chain_id,
            asset=asset,
            now_us=now_us,
        )
    return [address for _, address in stored_addresses]


@operation
def list_received(chain_id: str, now_s: int, limit: int) -> Op[list[ReceivedMoney]]:
    """Return final deposits that were not returned, at addresses that no block is read for."""
    return (yield from _RECEIVED.all(chain_id=chain_id, now_s=now_s, limit=limit))


@operation
def request_many(chain_id: str, assets: Mapping[str, str], now_us: int) -> Op[list[str]]:
    """Look at addresses of a chain now, each for an asset; return the addresses that exist."""
    stored = yield from _FIND_ADDRESS.all(chain_id=chain_id, addresses=list(assets))
    for _, address in sorted(stored):
        yield _REQUEST(
            chain_id=chain_id,
            address=address,
            route_chain_id=chain_id,
            asset=assets[address],
            now_us=now_us,
        )
    return [address for _, address in stored]


@operation
def record(  # noqa: PLR0917  (the columns of a journal, and what it is for)
    journal_key: str,
    payment_id: str,
    tx_hash: str,
    postings: Sequence[LedgerPosting],
    shares: Sequence[StrayShare],
    reports: Iterable[NamedReport],
    watch_operation: Operation[None],
    now_us: int,
) -> Op[bool]:
    """Book money that went home, with what is held or returned of it; return False if booked.

    `watch_operation` records, in the same transaction, what a deep reorg could undo.
    Deposits that were not seen when they came are reported now.
    """
    kind = journals.JournalKind.STRAY
    if not (
        yield from ledger.post_unless_booked(
            journal_key, kind, payment_id, tx_hash, postings, now_us
        )
    ):
        return False
    yield from watch_operation
    for new_share in shares:
        share = yield from _subtract_returned(new_share)
        if share is None:
            continue
        if share.payout is not None:
            yield from payouts.add(share.payout)
        yield from held_money.put(share.held)
        if share.deposits:
            yield _ADD_DEPOSIT.bind_many(
                [
                    {
                        **to_row_params(deposit),
                        "chain_id": share.held.chain_id,
                        "seen_at_us": now_us,
                        "is_final": 1,
                        "returned_by": None if share.payout is None else share.payout.id,
                    }
                    for deposit in share.deposits
                ]
            )
    yield from deposit_events.record(reports, now_us)
    return True


def _subtract_returned(share: StrayShare) -> Op[StrayShare | None]:
    """Return a share without what was paid back before a reorganization; None if nothing is left.

    Another transaction than the vanished one can have moved the money home.
    """
    value = share.held.held
    for undone in (yield from held_money.lock_undone_strays(share.held)):
        if value == 0:
            break
        yield from held_money.record_arrived_again(undone, share.held.tx_hash)
        value = max(0, value - undone.held)
    if value == share.held.held:
        return share
    if value == 0:
        return None
    # an event stands for one item
    event = f"{share.held.event}:{share.held.id}"
    held = replace(share.held, value=value, held=value, event=event)
    payout = None if share.payout is None else replace(share.payout, value=value)
    return StrayShare(held, share.deposits, payout)


@operation
def undo(
    chain_id: str, hashes: Collection[str], below_block: int, now_us: int
) -> Op[list[HeldMoney]]:
    """Reverse what vanished transactions moved home; return the money, part of an operation.

    Payouts that wait are canceled. What is paid back already stays so: if the money comes home
    again, it is not paid a second time. The addresses are read again from a block on.
    """
    strays = yield from held_money.lock_strays(chain_id, hashes)
    keys = {
        journals.stray_key(money.tx_hash, money.deposit_address or "", money.asset)
        for money in strays
    }
    for key in sorted(keys):
        yield from ledger.reverse(key, now_us, missing_ok=True)
    for money in strays:
        if money.payout_id is None:
            yield from deposit_claims.withdraw(money.id, now_us)
            yield from held_money.forget(money)
        elif (yield from payouts.refuse(money.payout_id, now_us)) is not None:
            chain, _, address = (money.deposit_address or "").rpartition(":")
            yield _UNRETURN(route_chain=chain, address=address, payout=money.payout_id)
            yield from deposit_claims.withdraw(money.id, now_us)
            yield from held_money.forget(money)
        else:
            yield from held_money.mark_undone(money)
    addresses = {(money.deposit_address or "").rpartition(":")[2] for money in strays}
    if addresses:
        yield _READ_AGAIN(
            of_chain=chain_id, addresses=addresses, now_us=now_us, last=below_block - 1
        )
    return strays
