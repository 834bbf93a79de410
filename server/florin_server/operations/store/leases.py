"""Leases: one owner of a job at a time, and an epoch that fences off earlier owners."""

from __future__ import annotations

from collections.abc import Collection

from sqlalchemy import Boolean, Update, case, literal, or_, select, update

from florin_server.db.engine.query import Command, Op, Statement, insert, is_in, operation, param
from florin_server.db.engine.times import is_due
from florin_server.db.tables.tables import lease_table
from florin_server.domain.settlement.lease import Lease

_offer = insert(lease_table)
_ACQUIRE = Statement(
    _offer.on_conflict_do_update(
        index_elements=[lease_table.c.name],
        set_={
            "owner": _offer.excluded.owner,
            "until_us": _offer.excluded.until_us,
            "epoch": case(
                (lease_table.c.owner == _offer.excluded.owner, lease_table.c.epoch),
                else_=lease_table.c.epoch + 1,
            ),
        },
        where=or_(
            lease_table.c.owner == _offer.excluded.owner,
            is_due(lease_table.c.until_us),
            param("steal", Boolean),
        ),
    ).returning(lease_table.c.epoch),
    int,
)


def format_name(chain_id: str, sender: str) -> str:
    """Return the name of the lease of a key on a chain (CAIP-2)."""
    return f"relayer:{chain_id}:{sender}"


def _update_held() -> Update:
    return (
        update(lease_table)
        .where(
            lease_table.c.name == param("lease"),
            lease_table.c.owner == param("holder"),
            lease_table.c.epoch == param("held"),
        )
        .returning(lease_table.c.epoch)
    )


_RENEW = Statement(_update_held().values(until_us=param("until")), int)
# the row stays, so that its epoch only ever rises
_RELEASE = Statement(_update_held().values(until_us=literal(0), owner=literal("")), int)
_LEASED = Statement(
    select(lease_table.c.name).where(
        is_in(lease_table.c.name, "names"), ~is_due(lease_table.c.until_us)
    ),
    str,
)
_FREE = Command(
    update(lease_table)
    .where(is_in(lease_table.c.owner, "owners"))
    .values(until_us=literal(0), owner=literal(""))
)
_COLUMNS = (
    lease_table.c.name,
    lease_table.c.owner.label("holder"),
    lease_table.c.until_us,
    lease_table.c.epoch,
)
_LIST = Statement(select(*_COLUMNS).order_by(lease_table.c.name), Lease)
_REVOKE = Statement(
    update(lease_table)
    .where(
        lease_table.c.name == param("lease"),
        lease_table.c.owner == param("holder"),
        lease_table.c.owner != "",
    )
    .values(until_us=literal(0), owner=literal(""), epoch=lease_table.c.epoch + 1)
    .returning(*_COLUMNS),
    Lease,
)
_EPOCH = Statement(
    select(lease_table.c.epoch)
    .where(lease_table.c.name == param("lease"))
    .with_for_update(read=True),
    int,
)


@operation
def acquire(name: str, owner: str, now_us: int, ttl_us: int, steal: bool) -> Op[int | None]:
    """Take a lease that is free, expired or one's own; return None if another owner has it.

    A lease that ends far later than any lease lasts was taken by a clock that was ahead, and counts
    as expired. Return the epoch, which increases by one for every new owner. `steal` takes any
    lease, for a process that knows that it is alone.
    """
    return (
        yield from _ACQUIRE.first(
            name=name, owner=owner, epoch=1, until_us=now_us + ttl_us, now_us=now_us, steal=steal
        )
    )


@operation
def renew(name: str, owner: str, epoch: int, now_us: int, ttl_us: int) -> Op[bool]:
    """Extend a lease; return False if it belongs to another owner now."""
    return (yield from _RENEW.any(lease=name, holder=owner, held=epoch, until=now_us + ttl_us))


@operation
def release(name: str, owner: str, epoch: int) -> Op[bool]:
    """Release a lease; return False if it belongs to another owner now."""
    return (yield from _RELEASE.any(lease=name, holder=owner, held=epoch))


@operation
def release_all(owners: Collection[str]) -> Op[None]:
    """Release all leases of owners that are known to be dead."""
    yield _FREE(owners=owners)


@operation
def filter_held(names: Collection[str], now_us: int) -> Op[frozenset[str]]:
    """Return which of some leases have an owner now."""
    return frozenset((yield from _LEASED.all(names=names, now_us=now_us)))


@operation
def list_leases() -> Op[list[Lease]]:
    """Return all leases by name, including free leases: one for each key on each chain."""
    return (yield from _LIST.all())


@operation
def revoke(name: str, owner: str) -> Op[Lease | None]:
    """Revoke an owner's lease and end its epoch; return None if the owner does not have it."""
    return (yield from _REVOKE.first(lease=name, holder=owner))


@operation
def is_current(name: str, epoch: int) -> Op[bool]:
    """Return True if the epoch is still the newest; part of an operation."""
    return (yield from _EPOCH.first(lease=name)) == epoch
