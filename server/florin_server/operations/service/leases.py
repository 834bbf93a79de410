"""The operator sees which process signs with which key, and takes a lease away from one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.db.context import StorageContext
from florin_server.db.engine.query import Op, operation
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.domain.errors import ApiError, ErrorCode
from florin_server.domain.settlement.lease import Lease
from florin_server.operations.service.audit_log import audited
from florin_server.operations.store import leases

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaseList:
    """All leases by name, and which are held `now_us`, by the clock that their times go by."""

    now_us: int
    leases: Sequence[Lease]
    held_names: frozenset[str]


async def list_leases(app: StorageContext) -> LeaseList:
    """Return all leases: one for each signing key on each chain."""
    now_us = app.clock.now_us()
    found_leases = await app.store.read(leases.list_leases())
    held = await app.store.read(leases.filter_held([lease.name for lease in found_leases], now_us))
    return LeaseList(now_us, found_leases, held)


async def release(app: StorageContext, name: str, holder: str) -> Lease:
    """Take a lease from its holder, so that any process can acquire it at once.

    Its epoch rises: the holder can store nothing under it from then on, and learns that when it
    next renews or signs. invalid_params for an unknown name, invalid_state if `holder` no longer
    has it.
    """
    change = AuditChange(
        AuditAction.LEASE_RELEASED,
        AuditObject.LEASE,
        name,
        changes=list_changes({"holder": holder}, {}),
    )
    released = await app.store.write(audited(app, _release(name, holder), lambda _: change))
    _log.warning("the operator released lease %s of process %s", name, holder)
    return released


@operation
def _release(name: str, holder: str) -> Op[Lease]:
    released = yield from leases.revoke(name, holder)
    if released is not None:
        return released
    for lease in (yield from leases.list_leases()):
        if lease.name == name:
            now = f"{lease.holder} has it now" if lease.holder else "no process has it"
            raise ApiError(
                ErrorCode.INVALID_STATE, f"Process {holder} does not have lease {name}: {now}"
            )
    raise ApiError(ErrorCode.INVALID_PARAMS, f"Lease {name} not found: see `florin leases list`")
