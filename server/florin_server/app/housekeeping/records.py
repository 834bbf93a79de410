"""Stores what calls only note in memory: uses of API keys, and failed sign-ins."""

from __future__ import annotations

from typing import Protocol

from florin_server import __version__
from florin_server.accounts.context import KeyUseContext
from florin_server.base.clock import sleep_remaining
from florin_server.db.context import StorageContext
from florin_server.domain.audit import AuditAction, AuditChange, AuditObject, list_changes
from florin_server.operations.context import SignInContext
from florin_server.operations.service.audit_log import record_now


class _Context(KeyUseContext, SignInContext, StorageContext, Protocol):
    """The parts of the application that this module uses."""


_FLUSH_S = 60.0


async def record_start(app: StorageContext) -> None:
    """Record that a process started: it has read the settings, also after a reload."""
    change = AuditChange(
        AuditAction.SERVICE_STARTED,
        AuditObject.SERVICE,
        "",
        changes=list_changes({}, {"version": __version__}),
    )
    await record_now(app, [change])


async def store_records(app: _Context) -> None:
    """Store them every minute until canceled."""
    while True:
        now_us = app.clock.now_us()
        await app.key_uses.flush(app.store, now_us)
        await app.sign_in_failures.flush(app)
        await sleep_remaining(app.clock, _FLUSH_S, now_us)


async def store_last_records(app: _Context) -> None:
    """Store the rest, at the end of the process."""
    await app.key_uses.flush(app.store, app.clock.now_us(), is_last=True)
    await app.sign_in_failures.flush(app)
