"""The operator sees which process signs with which key, and takes a lease away from one."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from florin_server.domain.errors import Code, FlorinError
from florin_server.domain.settlement.lease import Lease
from florin_server.flows.app import App
from florin_server.store.engine.query import Op, operation
from florin_server.store.settlement import leases

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leases:
    """All leases by name, and which are held `now_us`, by the clock that their times go by."""

    now_us: int
    leases: Sequence[Lease]
    held: frozenset[str]


async def list_leases(app: App) -> Leases:
    """Return all leases: as many as there are signing keys on chains."""
    now_us = app.clock.now_us()
    found = await app.store.read(leases.list_leases())
    held = await app.store.read(leases.leased([one.name for one in found], now_us))
    return Leases(now_us, found, held)


async def release(app: App, name: str, holder: str) -> Lease:
    """Take a lease away from its holder, so that any process may take it at once.

    Its epoch rises with it: the holder can write nothing down under it from then on, and learns of
    it when it renews or signs next. invalid_params for an unknown name, invalid_state if `holder`
    does not have it any more.
    """
    released = await app.store.write(_release(name, holder))
    _log.warning("the operator released lease %s, which %s had", name, holder)
    return released


@operation
def _release(name: str, holder: str) -> Op[Lease]:
    released = yield from leases.revoke(name, holder)
    if released is not None:
        return released
    for one in (yield from leases.list_leases()):
        if one.name == name:
            now = f"{one.holder} has it now" if one.holder else "no process has it"
            raise FlorinError(Code.INVALID_STATE, f"{holder} does not have the lease: {now}")
    raise FlorinError(Code.INVALID_PARAMS, "No such lease")
